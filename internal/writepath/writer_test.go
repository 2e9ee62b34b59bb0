package writepath_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/store"
	"plantstore/internal/writepath"
)

// fakeCommit is the duration of a commit of slowCommits, in the time of a synctest bubble.
const fakeCommit = 500 * time.Microsecond

// slowCommits returns a store whose commits take fakeCommit, and the sizes of its batches, which may be read while no
// create is in flight.
func slowCommits(t *testing.T) (*writepath.Service, *[]int) {
	sizes := &[]int{}
	return mustNew(t, &stub{insert: func(_ context.Context, batch []store.Create) error {
		*sizes = append(*sizes, len(batch))
		<-time.After(fakeCommit)
		return nil
	}}, limits), sizes
}

// runClients runs clients that create plants one after the other. Each sends the next one a moment after the last
// response.
func runClients(t *testing.T, s *writepath.Service, clients, plants int) {
	var wg sync.WaitGroup
	for client := range clients {
		wg.Go(func() {
			for range plants {
				<-time.After(time.Duration(client) * time.Microsecond)
				if _, err := s.Create(nil, auth.Principal{}, newPlant(int64(client))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// TestLoneClientAfterBurst shows that a burst of clients delays a lone client for a bounded number of commits.
func TestLoneClientAfterBurst(t *testing.T) {
	const delayedMax = 20 // commits after a burst of 64 clients
	for _, burst := range []int{2, 4, 5, 8, 9, 64} {
		t.Run(fmt.Sprint(burst), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := slowCommits(t)
				defer s.Close()
				runClients(t, s, burst, 10)
				for commit := range 2 * delayedMax {
					start := time.Now()
					runClients(t, s, 1, 1)
					if took := time.Since(start); took != fakeCommit && commit >= delayedMax {
						t.Fatalf("commit %d of the lone client took %v, want %v", commit, took, fakeCommit)
					}
				}
			})
		})
	}
}

// TestClientsShareCommits shows that the number of recent clients does not decay while they send: each commit contains
// the plants of at least half of the clients.
func TestClientsShareCommits(t *testing.T) {
	for _, clients := range []int{4, 8, 64} {
		t.Run(fmt.Sprint(clients), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, sizes := slowCommits(t)
				defer s.Close()
				runClients(t, s, clients, 100)
				steady := (*sizes)[len(*sizes)/4 : len(*sizes)*3/4] // every client has sent a plant, and none has ended
				if least := slices.Min(steady); least < clients/2 {
					t.Errorf("a commit had %d plants, want at least %d; all: %v", least, clients/2, *sizes)
				}
			})
		})
	}
}

// TestRetire shows that commits that wait for another process do not delay the end of the store, whenever they begin,
// and that the store still stores plants.
func TestRetire(t *testing.T) {
	const within = 6 * time.Second
	for _, row := range []struct {
		name         string
		begins, runs time.Duration // after Retire; of a commit without a deadline
		wantTook     time.Duration
		wantCode     plant.Code
		before       bool
	}{
		{name: "before Retire", before: true, runs: time.Hour, wantTook: within, wantCode: plant.CodeStoreUnavailable},
		{name: "at once", runs: time.Hour, wantTook: within, wantCode: plant.CodeStoreUnavailable},
		{name: "at once, and ends", runs: 5 * time.Second, wantTook: 5 * time.Second},
		{name: "late, and ends", begins: within - 1, runs: 300 * time.Millisecond, wantTook: 300 * time.Millisecond},
		{name: "after the time, and ends", begins: within + time.Second, runs: time.Millisecond, wantTook: time.Millisecond},
		{
			name: "after the time", begins: within + time.Second, runs: time.Hour,
			wantTook: 400 * time.Millisecond, wantCode: plant.CodeStoreUnavailable,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := limits
				l.CommitTimeout = time.Hour
				s := mustNew(t, &stub{insert: func(ctx context.Context, _ []store.Create) error {
					select {
					case <-ctx.Done():
						return fmt.Errorf("%w: %w", store.ErrBusy, ctx.Err())
					case <-time.After(row.runs):
						return ctx.Err()
					}
				}}, l)
				if !row.before {
					s.Retire(within)
					if err := s.Ready(); err == nil {
						t.Error("Ready after Retire: nil")
					}
					time.Sleep(row.begins) //nolint:forbidigo // the bubble's clock, not a wait
				}
				start := time.Now()
				var creates sync.WaitGroup
				creates.Go(func() {
					_, err := s.Create(nil, auth.Principal{}, newPlant(1))
					if took := time.Since(start); codeOf(err) != row.wantCode || took != row.wantTook {
						t.Errorf("%v after %v, want code %d after %v", err, took, row.wantCode, row.wantTook)
					}
				})
				if row.before {
					synctest.Wait() // the commit runs
					s.Retire(within)
				}
				creates.Wait()
				s.Close()
			})
		})
	}
}
