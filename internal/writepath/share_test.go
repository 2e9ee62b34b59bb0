package writepath_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/store"
	"plantstore/internal/writepath"
)

// heldQueue is a store whose engine holds a commit, so that creates wait.
type heldQueue struct {
	*writepath.Service
	t       *testing.T
	release chan struct{}
	waiting sync.WaitGroup
	next    int64
}

func holdQueue(t *testing.T, limits writepath.Limits) *heldQueue {
	t.Helper()
	q := &heldQueue{t: t, release: make(chan struct{})}
	limits.AnswerTimeout = 1 << 60
	q.Service = mustNew(t, &stub{insert: func(context.Context, []store.Create) error {
		<-q.release
		return nil
	}}, limits)
	q.create(99, "first") // its commit is held
	return q
}

// create creates a plant and reports whether it waits; the queue refused it otherwise.
func (q *heldQueue) create(by int64, name string) bool {
	q.t.Helper()
	q.next++
	result := make(chan error, 1)
	n := newPlant(q.next)
	n.Plant.Name = name
	q.waiting.Go(func() {
		_, err := q.Create(nil, auth.Principal{TokenID: by}, n)
		result <- err
	})
	synctest.Wait()
	select {
	case err := <-result:
		if codeOf(err) != plant.CodeQueueFull {
			q.t.Errorf("token %d: got %v, want queue full", by, err)
		}
		return false
	default:
		return true
	}
}

// fill creates plants until the queue refuses one, and returns their number.
func (q *heldQueue) fill(by int64, name string) (n int) {
	q.t.Helper()
	for q.create(by, name) {
		n++
	}
	return n
}

func (q *heldQueue) close() {
	close(q.release)
	q.waiting.Wait()
	q.Close()
}

// A greedy credential fills three quarters of the queue. Other credentials still find places, and each leaves some for
// the next.
func TestShareOfPlants(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := holdQueue(t, writepath.Limits{QueueMax: 64, Bytes: 1 << 20})
		defer q.close()
		for i, want := range []int{48, 12, 3, 1, 0} {
			if got := q.fill(int64(i), "a"); got != want {
				t.Errorf("credential %d: got %d plants, want %d", i, got, want)
			}
		}
	})
}

// Large plants fill the bytes of the queue.
func TestShareOfBytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := holdQueue(t, writepath.Limits{QueueMax: 1000, Bytes: 6400})
		defer q.close()
		if got := q.fill(1, strings.Repeat("a", 100)); got != 48 {
			t.Errorf("the greedy credential: got %d plants, want 48", got)
		}
		if got := q.fill(2, "a"); got < 100 {
			t.Errorf("the modest credential: got %d plants, want at least 100", got)
		}
	})
}

// Shares apply to one batch: after a commit, a credential can use the whole queue again.
func TestShareAfterCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := holdQueue(t, writepath.Limits{QueueMax: 8, Bytes: 1 << 20})
		defer q.close()
		for range 3 {
			if got := q.fill(1, "a"); got != 6 {
				t.Errorf("got %d plants, want 6", got)
			}
			q.release <- struct{}{}
			synctest.Wait()
		}
	})
}

// The share of a small queue is the whole queue.
func TestShareOfSmallQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := holdQueue(t, writepath.Limits{QueueMax: 3, Bytes: 1 << 20})
		defer q.close()
		if got := q.fill(1, "a"); got != 3 {
			t.Errorf("got %d plants, want 3", got)
		}
	})
}
