package store_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/store"
)

// fakeCommit is the duration of a commit of slowCommits, in the time of a synctest bubble.
const fakeCommit = 500 * time.Microsecond

// slowCommits returns a store whose commits take fakeCommit, and the sizes of its batches,
// which may be read while no create is in flight.
func slowCommits(t *testing.T) (*store.Store, *[]int) {
	sizes := &[]int{}
	return mustNew(t, &stub{insert: func(_ context.Context, batch []store.Create) error {
		*sizes = append(*sizes, len(batch))
		<-time.After(fakeCommit)
		return nil
	}}, limits), sizes
}

// runClients runs clients that create plants one after the other. Each sends the next one
// a moment after the last response.
func runClients(t *testing.T, s *store.Store, clients, plants int) {
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

// TestLoneClientAfterBurst shows that a burst of clients delays a lone client for a bounded
// number of commits.
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

// TestClientsShareCommits shows that the number of recent clients does not decay while they
// send: each commit has the plants of at least half of the clients.
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
