package writepath

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// TestPollSucceedsAtItsLimit has polls succeed at the time at which observe records a failure. Whichever comes first,
// the engine is reachable after the poll.
func TestPollSucceedsAtItsLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const before = time.Second // from the last successful poll to the start of this one
		for i := range 1000 {      // enough to fail each time if observe does not wait for its timer
			o := &outage{log: slog.New(slog.DiscardHandler)}
			if err := o.observe(t.Context(), time.Now().Add(-before), func() error {
				time.Sleep(unreachableAfter - before) //nolint:forbidigo // the bubble's clock, not a wait
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if o.unreachable() {
				t.Fatalf("poll %d: unreachable after a successful poll", i)
			}
		}
	})
}
