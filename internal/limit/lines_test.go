package limit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"plantstore/internal/limit"
)

func TestLogLines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l limit.LogLines
		add := func(key string, n, want int) {
			t.Helper()
			if got := l.Add(key, n); got != want {
				t.Errorf("%s: got %d, want %d", key, got, want)
			}
		}
		add("a", 2, 2)
		add("a", 1, 0)
		add("b", 1, 1)
		time.Sleep(time.Second - 1) //nolint:forbidigo // the bubble's clock, not a wait
		add("a", 3, 0)
		time.Sleep(time.Nanosecond) //nolint:forbidigo // the bubble's clock, not a wait
		add("a", 1, 5)
		add("b", 1, 1)
		add("a", 1, 0)
	})
}
