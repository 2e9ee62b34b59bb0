package limit

import (
	"sync"
	"time"
)

// Buckets is a table of token buckets (leaky bucket as a meter). Each key may use burst units at once, and one unit
// returns in each interval. It is safe for concurrent use.
//
// A client with many addresses cannot push the entry of another address, or its own, out of a full table: Buckets
// removes only buckets that are full again. Keys without room share one bucket.
type Buckets[K comparable] struct {
	keysMax  int
	interval time.Duration // in which one unit returns
	depth    time.Duration // in which an empty bucket fills
	start    time.Time     // the times below count from it

	mu     sync.Mutex          // guards the rest
	fullAt map[K]time.Duration // when the bucket of a key is full again
	others time.Duration       // when the shared bucket is full again
}

// NewBuckets returns a table of buckets with burst units that fill at the rate of units per period. burst, units and
// period must be positive. The table has at most keysMax keys.
func NewBuckets[K comparable](burst, units int, period time.Duration, keysMax int) *Buckets[K] {
	interval := max(period/time.Duration(units), 1)
	return &Buckets[K]{
		keysMax: keysMax, interval: interval, depth: interval * time.Duration(burst),
		start: time.Now(), fullAt: make(map[K]time.Duration),
	}
}

// Level is the level of a bucket.
type Level struct {
	Taken  bool          // the bucket had a unit
	Units  int           // that are left
	NextIn time.Duration // until the bucket has another unit
}

// Take removes a unit from the bucket of a key, if it has one.
func (b *Buckets[K]) Take(key K) Level {
	now := time.Since(b.start)
	b.mu.Lock()
	defer b.mu.Unlock()
	fullAt, ok := b.fullAt[key]
	own := ok || b.reserve(now)
	if !own {
		fullAt = b.others
	}
	level, next := b.take(fullAt, now)
	if own {
		b.fullAt[key] = next
	} else {
		b.others = next
	}
	return level
}

// take removes a unit from a bucket and returns the time at which it is full again.
func (b *Buckets[K]) take(fullAt, now time.Duration) (Level, time.Duration) {
	missing := max(0, fullAt-now)
	taken := missing+b.interval <= b.depth
	if taken {
		missing += b.interval
	}
	free := b.depth - missing
	return Level{Taken: taken, Units: int(free / b.interval), NextIn: b.interval - free%b.interval}, now + missing
}

// Wait returns the time until the bucket of a key has a unit, 0 if it has one now.
func (b *Buckets[K]) Wait(key K) time.Duration {
	now := time.Since(b.start)
	b.mu.Lock()
	defer b.mu.Unlock()
	fullAt, ok := b.fullAt[key]
	if !ok && !b.reserve(now) {
		fullAt = b.others
	}
	return max(0, fullAt-now+b.interval-b.depth)
}

// Return returns a unit of Take to the bucket of a key.
func (b *Buckets[K]) Return(key K) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if fullAt, ok := b.fullAt[key]; ok {
		b.fullAt[key] = fullAt - b.interval
	}
}

// reserve makes room for another key and reports whether there is room. It looks at a few random keys, so its time is
// bounded. If a tenth of the buckets are full again, it finds one of them with a probability above 99%. The caller has
// locked mu.
func (b *Buckets[K]) reserve(now time.Duration) bool {
	if len(b.fullAt) < b.keysMax {
		return true
	}
	const looksMax = 48
	looks := 0
	for key, fullAt := range b.fullAt { // in random order
		if fullAt <= now {
			delete(b.fullAt, key)
			return true
		}
		if looks++; looks == looksMax {
			break
		}
	}
	return false
}
