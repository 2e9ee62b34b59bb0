package limit

import "time"

// Recent has the times of the keys that were set last, in two generations. Turn bounds both. It is not safe for
// concurrent use.
type Recent[K comparable] struct {
	keysMax int
	period  time.Duration
	began   time.Duration       // the newer generation
	newer   map[K]time.Duration // keys that were set since then
	older   map[K]time.Duration // keys of the generation before, some of which are newer too
}

// NewRecent returns an empty Recent whose generations have at most keysMax keys and last for a period.
func NewRecent[K comparable](keysMax int, period time.Duration) *Recent[K] {
	return &Recent[K]{keysMax: keysMax, period: period, newer: map[K]time.Duration{}}
}

// Turn begins a generation if the newer one is full or over, and reports whether it did. It forgets the keys of the
// older one. The caller calls it before Set.
func (r *Recent[K]) Turn(now time.Duration) bool {
	if len(r.newer) < r.keysMax && now-r.began < r.period {
		return false
	}
	r.newer, r.older, r.began = map[K]time.Duration{}, r.newer, now
	return true
}

// Set sets the time of a key.
func (r *Recent[K]) Set(key K, now time.Duration) { r.newer[key] = now }

// IsNewer reports whether a key was set in the newer generation.
func (r *Recent[K]) IsNewer(key K) bool {
	_, ok := r.newer[key]
	return ok
}

// At returns the time of a key, and false for a key that is forgotten or was never set.
func (r *Recent[K]) At(key K) (time.Duration, bool) {
	at, ok := r.newer[key]
	if !ok {
		at, ok = r.older[key]
	}
	return at, ok
}
