package rig

import (
	"testing"
	"time"
)

// Within polls a condition until it is true, and fails the test if it is still false after limit. It waits for events
// in other processes that give no signal. The condition describes a state in words, for the message of the failure.
func Within(t testing.TB, limit, every time.Duration, condition string, isTrue func() bool) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for !isTrue() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("still false after %s: %s", limit, condition)
		}
	}
}
