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

func (h *handler) logRequest(c *Call, took time.Duration) {
	level, least := slog.LevelInfo, slog.LevelInfo
	switch {
	case c.cause != nil:
		level, least = slog.LevelError, slog.LevelError
	case c.status < http.StatusBadRequest && !c.aborted && c.route != nil && c.route.Background:
		least = slog.LevelDebug
	case c.status < http.StatusBadRequest && !c.aborted:
		least = LevelAccess
	case c.code == plant.CodeTooManyFailures: // failures.logRefusal logs them together
		least = slog.LevelDebug
	}
	if !h.log.Enabled(context.Background(), least) {
		return
	}
	attrs := make([]slog.Attr, 0, 8)
	attrs = append(attrs,
		slog.String("client", h.clientText(c.Request)),
		slog.String("request_id", c.id[0]),
		slog.Int("status", c.status),
		slog.Int("bytes", c.bytes),
		slog.Int64("took_us", took.Microseconds()),
	)
	if c.span != nil {
		attrs = append(attrs, slog.String("trace_id", c.span.TraceID()))
	}
	if c.aborted {
		attrs = append(attrs, slog.Bool("aborted", true))
	}
	if c.Principal.Name != "" {
		attrs = append(attrs, slog.String("credential", c.Principal.Name))
	}
	if invalid := c.invalid; invalid != nil {
		if invalid.TokenID != 0 && c.Principal.Name == "" {
			attrs = append(attrs, slog.String("credential", invalid.Name))
		}
		if invalid.TokenID != 0 {
			attrs = append(attrs, slog.Int64("credential_id", invalid.TokenID))
		}
		attrs = append(attrs, slog.String("reason", invalid.Reason))
	}
	if c.conn != nil && c.conn.Subject() != "" {
		attrs = append(attrs, slog.String("client_certificate", Shorten(c.conn.Subject())))
	}
	if c.code != 0 {
		attrs = append(attrs, slog.Int("error_code", int(c.code)))
	}
	if c.cause != nil {
		attrs = append(attrs, slog.Any("error", c.cause))
	}
	// A Logger would look up the source line of this call for every request.
	line := slog.NewRecord(c.started.Add(took), level, "request", 0)
	line.AddAttrs(attrs...)
	_ = h.logOf(c.route, c.Request).Handle(context.Background(), line) // a log that fails cannot be logged
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
