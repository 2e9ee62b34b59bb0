package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// wrongEngine is an engine of at most one plant. The test sets the effect and the result of its first Insert.
type wrongEngine struct {
	Engine // nil

	stored, replayed bool
	err              error
	partial          bool // return outcomes with err

	called, found bool
}

func (e *wrongEngine) Insert(ctx context.Context, _ []store.Create) ([]store.Outcome, error) {
	if e.called {
		return []store.Outcome{{Replayed: e.found}}, nil
	}
	e.called, e.found = true, e.stored
	if errors.Is(e.err, context.DeadlineExceeded) {
		<-ctx.Done()
	}
	if e.partial {
		return make([]store.Outcome, 1), e.err
	}
	if e.err != nil {
		return nil, e.err
	}
	return []store.Outcome{{Replayed: e.replayed}}, nil
}

func (e *wrongEngine) Get(context.Context, int64) (plant.Record, error) {
	if !e.found {
		return plant.Record{}, store.ErrNotFound
	}
	return plant.Record{}, nil
}

// The suite detects an Insert whose result contradicts its effect.
func TestInsertWithin(t *testing.T) {
	t.Parallel()
	unknown := errors.Join(store.ErrOutcomeUnknown, context.DeadlineExceeded)
	for name, test := range map[string]struct {
		engine  wrongEngine
		timeout time.Duration
		want    string
	}{
		"stored":                 {wrongEngine{stored: true}, time.Hour, ""},
		"not stored":             {wrongEngine{err: context.DeadlineExceeded}, 0, ""},
		"unknown and stored":     {wrongEngine{stored: true, err: unknown}, 1, ""},
		"unknown and not stored": {wrongEngine{err: unknown}, 1, ""},
		"nothing stored":         {wrongEngine{}, time.Hour, "no error, but the plant is not stored"},
		"replayed": {
			wrongEngine{stored: true, replayed: true},
			time.Hour,
			"no error, but the new plant was not created",
		},
		"stored with an error": {
			wrongEngine{stored: true, err: context.DeadlineExceeded},
			1,
			"context deadline exceeded, but the plant is stored",
		},
		"unknown after the deadline": {
			wrongEngine{err: unknown},
			0,
			"outcome unknown\ncontext deadline exceeded, but the deadline was over before the call",
		},
		"outcomes with an error": {
			wrongEngine{err: unknown, partial: true},
			1,
			"outcome unknown\ncontext deadline exceeded, but Insert returned 1 outcomes",
		},
		"another error": {
			wrongEngine{err: store.ErrFull},
			time.Hour,
			"no space left for the store; free space on its disk before the deadline",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			if err := insertWithin(t.Context(), &test.engine, 1, test.timeout); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
