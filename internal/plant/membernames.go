package plant

import "bytes"

// nameSet is the set of the member names of one object. It compares up to eight
// names one by one, so that a plant needs no map, and hashes more of them, so
// that the time for a large object is not quadratic.
type nameSet struct {
	few  [8][]byte
	n    int
	many map[string]struct{}
}

// add returns false if the set contains the name already.
func (s *nameSet) add(name text) bool {
	if s.many != nil {
		if _, ok := s.many[string(name.bytes)]; ok {
			return false
		}
		s.many[string(name.bytes)] = struct{}{}
		return true
	}
	for _, other := range s.few[:s.n] {
		if bytes.Equal(other, name.bytes) {
			return false
		}
	}
	if s.n == len(s.few) {
		s.many = make(map[string]struct{}, 4*len(s.few))
		for _, other := range s.few {
			s.many[string(other)] = struct{}{}
		}
		return s.add(name)
	}
	kept := name.bytes
	if name.escaped {
		kept = bytes.Clone(kept)
	}
	s.few[s.n] = kept
	s.n++
	return true
}
