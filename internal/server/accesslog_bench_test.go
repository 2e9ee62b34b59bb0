package server

import (
	"io"
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"
)

// BenchmarkLogRequest measures the log line of a created plant.
func BenchmarkLogRequest(b *testing.B) {
	log := slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: LevelAccess})).With("listener", "public")
	create := &Route{Method: "POST", Path: "/plants", log: withRequestLine(log, "POST", "/plants")}
	h := &handler{log: log}
	r := httptest.NewRequest(create.Method, create.Path, nil)
	rec := &responseRecorder{
		route: create, id: [1]string{"0123456789abcdef"}, principal: "first", status: 200, bytes: 37, started: time.Now(),
	}
	b.ReportAllocs()
	for b.Loop() {
		h.logRequest(rec, r, 1234*time.Microsecond)
	}
}
