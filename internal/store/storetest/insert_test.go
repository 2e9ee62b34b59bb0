package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// lying is an engine with one plant at most, and an Insert that does and returns what
// the test says, the first time.
type lying struct {
	store.Engine // nil

	stored, replayed bool
	err              error

	called, there bool
}

func (l *lying) Insert(ctx context.Context, _ []store.Create) ([]store.Outcome, error) {
	if l.called {
		return []store.Outcome{{Replayed: l.there}}, nil
	}
	l.called, l.there = true, l.stored
	if errors.Is(l.err, context.DeadlineExceeded) {
		<-ctx.Done()
	}
	if l.err != nil {
		return nil, l.err
	}
	return []store.Outcome{{Replayed: l.replayed}}, nil
}

func (l *lying) Get(context.Context, int64) (plant.Record, error) {
	if !l.there {
		return plant.Record{}, store.ErrNotFound
	}
	return plant.Record{}, nil
}

// The suite notices an Insert that does not return what it did.
func TestInsertWithin(t *testing.T) {
	t.Parallel()
	unknown := errors.Join(store.ErrOutcomeUnknown, context.DeadlineExceeded)
	for name, test := range map[string]struct {
		engine lying
		within time.Duration
		want   string
	}{
		"stored":                   {lying{stored: true}, time.Hour, ""},
		"not stored":               {lying{err: context.DeadlineExceeded}, 0, ""},
		"unknown and stored":       {lying{stored: true, err: unknown}, 1, ""},
		"unknown and not stored":   {lying{err: unknown}, 1, ""},
		"nothing done":             {lying{}, time.Hour, "no error, and the plant is not there"},
		"existed":                  {lying{stored: true, replayed: true}, time.Hour, "no error, and a new plant existed"},
		"stored with an error":     {lying{stored: true, err: context.DeadlineExceeded}, 1, "context deadline exceeded, and the plant is there"},
		"unknown before it begins": {lying{err: unknown}, 0, "outcome unknown\ncontext deadline exceeded, and it had no time to begin"},
		"another error":            {lying{err: store.ErrFull}, time.Hour, "no space left for the store before the time was over"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			if err := insertWithin(t.Context(), &test.engine, 1, test.within); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
