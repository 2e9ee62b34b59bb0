package server

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"plantstore/internal/plant"
)

// LevelAccess is between debug and info. A log of this level has a line for every request; a log of level info has none
// for successful requests. The lines themselves have the level INFO.
const LevelAccess = slog.Level(-2)

func (h *handler) logRequest(rec *responseRecorder, r *http.Request, took time.Duration) {
	level, least := slog.LevelInfo, slog.LevelInfo
	switch {
	case rec.cause != nil:
		level, least = slog.LevelError, slog.LevelError
	case rec.status < http.StatusBadRequest && !rec.aborted && rec.route != nil && rec.route.Background:
		least = slog.LevelDebug
	case rec.status < http.StatusBadRequest && !rec.aborted:
		least = LevelAccess
	case rec.code == plant.CodeTooManyFailures: // failures.logRefusal logs them together
		least = slog.LevelDebug
	}
	if !h.log.Enabled(context.Background(), least) {
		return
	}
	attrs := make([]slog.Attr, 0, 8)
	attrs = append(attrs,
		slog.String("client", h.clientText(r)),
		slog.String("request_id", rec.id[0]),
		slog.Int("status", rec.status),
		slog.Int("bytes", rec.bytes),
		slog.Int64("took_us", took.Microseconds()),
	)
	if rec.span != nil {
		attrs = append(attrs, slog.String("trace_id", rec.span.TraceID()))
	}
	if rec.aborted {
		attrs = append(attrs, slog.Bool("aborted", true))
	}
	if rec.principal != "" {
		attrs = append(attrs, slog.String("credential", rec.principal))
	}
	if rec.reason != "" {
		attrs = append(attrs, slog.String("reason", rec.reason))
	}
	if rec.conn != nil && rec.conn.Subject() != "" {
		attrs = append(attrs, slog.String("client_certificate", Shorten(rec.conn.Subject())))
	}
	if rec.code != 0 {
		attrs = append(attrs, slog.Int("error_code", int(rec.code)))
	}
	if rec.cause != nil {
		attrs = append(attrs, slog.Any("error", rec.cause))
	}
	// A Logger would look up the source line of this call for every request.
	line := slog.NewRecord(rec.started.Add(took), level, "request", 0)
	line.AddAttrs(attrs...)
	_ = h.logOf(rec.route, r).Handle(context.Background(), line) // a log that fails cannot be logged
}

// logOf returns the handler for the log line of a request, with its method and path. The handler of a route has
// formatted both once, which saves 0.3 µs of the 1.0 µs that a line takes (BenchmarkLogRequest).
func (h *handler) logOf(route *Route, r *http.Request) slog.Handler {
	if route != nil && route.Method == r.Method {
		return route.log
	}
	return withRequestLine(h.log, loggedMethod(r.Method), h.loggedPath(r.URL.Path))
}

func withRequestLine(log *slog.Logger, method, path string) slog.Handler {
	return log.Handler().WithAttrs([]slog.Attr{slog.String("method", method), slog.String("path", path)})
}
