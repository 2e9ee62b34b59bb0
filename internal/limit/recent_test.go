package limit_test

import (
	"testing"
	"time"

	"plantstore/internal/limit"
)

// A table has the keys of its last two generations. A generation ends when it is full or over.
func TestRecent(t *testing.T) {
	t.Parallel()
	const keysMax, period = 2, time.Minute
	r := limit.NewRecent[string](keysMax, period)
	has := func(step, want string) {
		t.Helper()
		got := ""
		for _, key := range []string{"a", "b", "c", "d"} {
			if _, ok := r.At(key); ok {
				got += key
			}
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", step, got, want)
		}
	}
	set := func(key string, now time.Duration, wantTurn bool) {
		t.Helper()
		if turned := r.Turn(now); turned != wantTurn {
			t.Errorf("%s: a generation began: %v, want %v", key, turned, wantTurn)
		}
		r.Set(key, now)
	}
	set("a", 1, false)
	set("b", 2, false)
	has("full", "ab")
	set("c", 3, true)
	set("a", 4, false)
	if at, _ := r.At("a"); at != 4 || !r.IsNewer("a") || r.IsNewer("b") {
		t.Errorf("a has the time %d, and is in the older generation", at)
	}
	set("d", 5, true)
	has("two generations", "acd")
	set("b", 5+period, true)
	has("over", "bd")
}
