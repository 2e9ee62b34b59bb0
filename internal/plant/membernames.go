package plant

import "bytes"

// nameSet is the set of the member names of one object. It compares the first eight names one by one, so that a plant
// needs no map, and hashes the others, so that the time for a large object is not quadratic.
type nameSet struct {
	few  [8][]byte
	n    int
	many map[string]bool
}

// add returns false if the set contains the name already.
func (s *nameSet) add(name text) bool {
	for _, other := range s.few[:s.n] {
		if bytes.Equal(other, name.bytes) {
			return false
		}
	}
	if s.n < len(s.few) {
		if name.escaped {
			name.bytes = bytes.Clone(name.bytes)
		}
		s.few[s.n] = name.bytes
		s.n++
		return true
	}
	if s.many[string(name.bytes)] {
		return false
	}
	if s.many == nil {
		s.many = map[string]bool{}
	}
	s.many[string(name.bytes)] = true
	return true
}
