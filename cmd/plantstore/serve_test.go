package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// leftStore is a store of which it is only asked whether a move of it was
// interrupted.
type leftStore struct {
	anyEngine // nil

	left bool
	err  error
}

func (s leftStore) Interrupted(context.Context) (bool, error) { return s.left, s.err }

// A check that failed is not logged as a move that was interrupted.
func TestWarnOfMove(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		store leftStore
		want  string
	}{
		"none":        {leftStore{}, ""},
		"interrupted": {leftStore{left: true}, `level=WARN msg="an interrupted move still captures each new plant; run the same move again, or plantstore move --from … --abandon"` + "\n"},
		"unknown":     {leftStore{err: errors.New("disk")}, `level=WARN msg="could not check for an interrupted move of the store" error=disk` + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log strings.Builder
			warnOfMove(t.Context(), test.store, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}})))
			if got := log.String(); got != test.want {
				t.Errorf("got  %swant %s", got, test.want)
			}
		})
	}
}
