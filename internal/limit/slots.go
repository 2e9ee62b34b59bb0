package limit

import "sync"

// Slots limits the concurrent requests of each key. It has an entry only for keys with a running request. It is safe
// for concurrent use.
type Slots[K comparable] struct {
	most int

	mu    sync.Mutex
	inUse map[K]int // guarded by mu
}

// NewSlots returns slots for most concurrent requests of each key. most must be positive.
func NewSlots[K comparable](most int) *Slots[K] {
	return &Slots[K]{most: most, inUse: make(map[K]int)}
}

// Acquire reserves a slot for a key, and returns the number of its free slots. It returns false if all are in use. The
// caller calls Release after true.
func (s *Slots[K]) Acquire(key K) (free int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.inUse[key]
	if n >= s.most {
		return 0, false
	}
	s.inUse[key] = n + 1
	return s.most - n - 1, true
}

// Release frees a slot of Acquire.
func (s *Slots[K]) Release(key K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inUse[key]--; s.inUse[key] == 0 {
		delete(s.inUse, key)
	}
}
