package console_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/audit"
	"plantstore/internal/server"
	"plantstore/internal/sqlite"
	"plantstore/internal/store/storetest"
)

// auditEngine is an engine whose first append of audit events fails.
type auditEngine struct {
	*sqlite.Engine

	appends atomic.Int64
	failed  chan struct{} // closed by the first append
	second  chan error    // receives the state of the context of the second append
}

func (e *auditEngine) AppendAudit(ctx context.Context, events ...audit.Event) error {
	switch e.appends.Add(1) {
	case 1:
		close(e.failed)
		return errors.New("no space left")
	case 2:
		e.second <- ctx.Err()
	}
	return e.Engine.AppendAudit(ctx, events...)
}

// A browser that disconnects does not end the append of the events that wait when its page is shown.
func TestAuditPageAfterDisconnect(t *testing.T) {
	t.Parallel()
	e := &auditEngine{failed: make(chan struct{}), second: make(chan error, 1)}
	file := filepath.Join(t.TempDir(), "plants.db")
	h := startOn(t, file, func(metrics prometheus.Registerer) (storetest.Engine, error) {
		var err error
		e.Engine, err = sqlite.Open(t.Context(), sqlite.Config{Path: file, Server: true, Metrics: metrics})
		return e, err
	})
	h.signIn(h.admin)
	<-e.failed // the event of the sign-in waits for the page, or for a minute
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(gone, http.MethodGet, "/audit", http.NoBody)
	if err := h.handle("GET", "/audit")(&server.Call{Request: r, ResponseWriter: httptest.NewRecorder()}); err == nil {
		t.Error("the page has a response after the end of its request")
	}
	if err := <-e.second; errors.Is(err, context.Canceled) {
		t.Errorf("the append has a context with the error %v", err)
	}
}

// handle returns the function of a route.
func (h *harness) handle(method, path string) server.HandlerFunc {
	h.t.Helper()
	for _, r := range h.routes {
		if r.Method == method && r.Path == path {
			return r.Handle
		}
	}
	h.t.Fatalf("no route %s %s", method, path)
	return nil
}
