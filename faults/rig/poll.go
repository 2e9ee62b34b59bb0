package rig

import (
	"testing"
	"time"
)

// Within asks again and again, every so often, until it is so, and ends the
// test if it is not within a time. It is for what another process does and
// nobody else tells of.
func Within(t testing.TB, limit, every time.Duration, what string, isSo func() bool) {
	t.Helper()
	late := time.NewTimer(limit)
	defer late.Stop()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for !isSo() {
		select {
		case <-tick.C:
		case <-late.C:
			t.Fatalf("after %s it is not so that %s", limit, what)
		}
	}
}
