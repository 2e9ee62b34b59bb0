package limit_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/limit"
)

// ofThree returns buckets of three units. One unit returns in 20 s.
func ofThree(keysMax int) *limit.Buckets[string] {
	return limit.NewBuckets[string](3, 3, time.Minute, keysMax)
}

func check(t *testing.T, what string, got, want limit.Level) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: (-want +got)\n%s", what, diff)
	}
}

func TestTake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := ofThree(10)
		check(t, "first", b.Take("a"), limit.Level{Taken: true, Units: 2, NextIn: 20 * time.Second})
		check(t, "second", b.Take("a"), limit.Level{Taken: true, Units: 1, NextIn: 20 * time.Second})
		check(t, "third", b.Take("a"), limit.Level{Taken: true, Units: 0, NextIn: 20 * time.Second})
		check(t, "fourth", b.Take("a"), limit.Level{NextIn: 20 * time.Second})
		check(t, "another key", b.Take("b"), limit.Level{Taken: true, Units: 2, NextIn: 20 * time.Second})
		time.Sleep(5 * time.Second) //nolint:forbidigo // the bubble's clock, not a wait
		check(t, "too early", b.Take("a"), limit.Level{NextIn: 15 * time.Second})
		time.Sleep(15 * time.Second) //nolint:forbidigo // the bubble's clock, not a wait
		check(t, "after the wait", b.Take("a"), limit.Level{Taken: true, Units: 0, NextIn: 20 * time.Second})
		check(t, "again", b.Take("a"), limit.Level{NextIn: 20 * time.Second})
		time.Sleep(time.Hour) //nolint:forbidigo // the bubble's clock, not a wait
		check(t, "full again, and no fuller", b.Take("a"), limit.Level{Taken: true, Units: 2, NextIn: 20 * time.Second})
		time.Sleep(15 * time.Second) //nolint:forbidigo // the bubble's clock, not a wait
		check(t, "before a unit returns", b.Take("a"), limit.Level{Taken: true, Units: 1, NextIn: 5 * time.Second})
	})
}

func TestReturn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := ofThree(1)
		b.Take("a")
		b.Take("a")
		b.Return("a")
		check(t, "one of two is back", b.Take("a"), limit.Level{Taken: true, Units: 1, NextIn: 20 * time.Second})
		b.Return("another")
		check(t, "no key", b.Take("another"), limit.Level{Taken: true, Units: 2, NextIn: 20 * time.Second})
	})
}

func TestWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := ofThree(1)
		wait := func(key string, want time.Duration) {
			t.Helper()
			if got := b.Wait(key); got != want {
				t.Errorf("%s: got %v, want %v", key, got, want)
			}
		}
		for _, key := range []string{"own bucket", "shared bucket"} {
			for range 3 {
				wait(key, 0)
				b.Take(key)
			}
			wait(key, 20*time.Second)
		}
		time.Sleep(20 * time.Second) //nolint:forbidigo // the bubble's clock, not a wait
		wait("own bucket", 0)
		wait("a third key", 0)
	})
}

// A client with many addresses fills the table. It resets neither its own bucket nor another, and the table
// stays within its bound.
func TestFullTable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const keysMax = 1000
		b := limit.NewBuckets[int](3, 3, time.Minute, keysMax)
		for range 3 {
			b.Take(-1)
		}
		refused := 0
		for key := range 100 * keysMax {
			if !b.Take(key).Taken {
				refused++
			}
		}
		if got := b.Len(); got != keysMax {
			t.Errorf("got %d keys, want %d", got, keysMax)
		}
		if want := 99*keysMax + 1 - 3; refused != want { // without a place, and the shared bucket has three units
			t.Errorf("refused: got %d, want %d", refused, want)
		}
		check(t, "the key from before", b.Take(-1), limit.Level{NextIn: 20 * time.Second})
		time.Sleep(time.Minute)        //nolint:forbidigo // the bubble's clock, not a wait
		for key := range keysMax / 2 { // all were full again, so each new key replaces one
			check(t, "after a minute", b.Take(1_000_000+key), limit.Level{Taken: true, Units: 2, NextIn: 20 * time.Second})
		}
		if got := b.Len(); got != keysMax {
			t.Errorf("afterwards: got %d keys, want %d", got, keysMax)
		}
	})
}

// New keys find a place as soon as a tenth of the buckets are full again.
func TestPlaceInFullTable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const keysMax = 10_000
		b := limit.NewBuckets[int](3, 3, time.Minute, keysMax)
		for key := range keysMax / 10 {
			b.Take(key)
		}
		time.Sleep(20 * time.Second) //nolint:forbidigo // the bubble's clock, not a wait
		for key := keysMax / 10; key < keysMax; key++ {
			b.Take(key)
		}
		placed := 0
		for key := range 100 {
			if b.Take(keysMax + key).Taken {
				placed++
			}
		}
		if placed < 95 { // three from the shared bucket
			t.Errorf("got %d of 100 new keys, want at least 95", placed)
		}
	})
}

func TestNumberOfBuckets(t *testing.T) {
	t.Parallel()
	b := limit.NewBuckets[limit.Network](30, 30, time.Minute, 1_000)
	for i := range 10_000 {
		b.Take(networkOf(i))
	}
	if b.Len() != 1_000 {
		t.Errorf("got %d keys, want 1000", b.Len())
	}
}

func TestConcurrentTake(t *testing.T) {
	t.Parallel()
	const units, goroutines = 50, 8
	b := limit.NewBuckets[string](units, 1, time.Hour, 10)
	var mu sync.Mutex
	taken := 0 // guarded by mu
	var clients sync.WaitGroup
	for range goroutines {
		clients.Go(func() {
			for range units {
				if b.Take("a").Taken {
					mu.Lock()
					taken++
					mu.Unlock()
				}
			}
		})
	}
	clients.Wait()
	if taken != units {
		t.Errorf("got %d units, want %d", taken, units)
	}
}

// BenchmarkTakeFromFullTable measures a failure of a new network in a full table.
func BenchmarkTakeFromFullTable(b *testing.B) {
	buckets := limit.NewBuckets[limit.Network](30, 30, time.Minute, 10_000)
	for i := range 10_000 {
		buckets.Take(networkOf(i))
	}
	i := 10_000
	b.ReportAllocs()
	for b.Loop() {
		buckets.Take(networkOf(i))
		i++
	}
}
