package server

import (
	"io"
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"plantstore/internal/auth"
)

// BenchmarkLogRequest measures the log line of a created plant.
func BenchmarkLogRequest(b *testing.B) {
	log := slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: LevelAccess})).With("listener", "public")
	create := &Route{Method: "POST", Path: "/plants", log: withRequestLine(log, "POST", "/plants")}
	h := &handler{log: log}
	c := &Call{
		Request:   httptest.NewRequest(create.Method, create.Path, nil),
		Principal: auth.Principal{Name: "first"},
		route:     create, id: [1]string{"0123456789abcdef"}, status: 200, bytes: 37, started: time.Now(),
	}
	b.ReportAllocs()
	for b.Loop() {
		h.logRequest(c, 1234*time.Microsecond)
	}
}
