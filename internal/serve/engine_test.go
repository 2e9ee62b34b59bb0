package serve

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// interruptedStore is an engine with the method Interrupted alone.
type interruptedStore struct {
	Engine // nil

	interrupted bool
	err         error
}

func (s interruptedStore) Interrupted(context.Context) (bool, error) { return s.interrupted, s.err }

// TestWarnOfMove tests that a failed check is not logged as an interrupted move.
func TestWarnOfMove(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		store interruptedStore
		want  string
	}{
		"none": {interruptedStore{}, ""},
		"interrupted": {
			interruptedStore{interrupted: true},
			`level=WARN msg="an interrupted move still captures each new plant; ` +
				`run the same move again, or plantstore move --from … --abandon"` + "\n",
		},
		"unknown": {
			interruptedStore{err: errors.New("disk")},
			`level=WARN msg="could not check for an interrupted move of the store" error=disk` + "\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log strings.Builder
			withoutTime := func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}
			handler := slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: withoutTime})
			warnOfMove(t.Context(), test.store, slog.New(handler))
			if got := log.String(); got != test.want {
				t.Errorf("got  %swant %s", got, test.want)
			}
		})
	}
}
