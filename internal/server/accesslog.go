package server

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"plantstore/internal/auth"
)

// LevelAccess is the least level of a log at which requests that succeeded are
// logged, between debug and info: at info an operator has everything but these.
// Their lines have the level INFO, which every reader of logs knows.
const LevelAccess = slog.Level(-2)

func (d *door) logRequest(x *responseRecorder, r *http.Request, took time.Duration) {
	level, least := slog.LevelInfo, slog.LevelInfo
	switch {
	case x.cause != nil:
		level, least = slog.LevelError, slog.LevelError
	case x.status < http.StatusBadRequest:
		least = LevelAccess
	}
	if !d.log.Enabled(context.Background(), least) {
		return
	}
	attrs := make([]slog.Attr, 0, 8)
	attrs = append(attrs,
		slog.String("request_id", x.id[0]),
		slog.Int("status", x.status),
		slog.Int("bytes", x.bytes),
		slog.Int64("took_us", took.Microseconds()),
	)
	if x.who != "" {
		attrs = append(attrs, slog.String("credential", x.who))
	}
	if x.code != 0 {
		attrs = append(attrs, slog.Int("error_code", int(x.code)))
	}
	if x.cause != nil {
		attrs = append(attrs, slog.Any("error", x.cause))
	}
	// By the handler itself: a logger would look up its caller first, which is
	// always this line.
	line := slog.NewRecord(x.started.Add(took), level, "request", 0)
	line.AddAttrs(attrs...)
	_ = d.logOf(x, r).Handle(context.Background(), line) // there is nowhere to tell it
}

// logOf returns a handler that logs where a request came from and what it
// asked for, without a query. A connection that asks for the same again uses
// the same handler, in which that is formatted already.
func (d *door) logOf(x *responseRecorder, r *http.Request) slog.Handler {
	c := connOf(r)
	same := c != nil && x.route != nil && c.logged == x.route && c.loggedMethod == r.Method
	if same {
		return c.logTo
	}
	client, _, _ := net.SplitHostPort(r.RemoteAddr)
	path := d.loggedPath(r.URL.Path)
	if x.route != nil {
		path = x.route.path
	}
	to := d.log.Handler().WithAttrs([]slog.Attr{
		slog.String("client", client),
		slog.String("method", loggedMethod(r.Method)),
		slog.String("path", path),
	})
	if c != nil {
		c.logged, c.loggedMethod, c.logTo = x.route, r.Method, to
	}
	return to
}

// harmless returns a client's text as an answer to it may repeat it: not too
// long, and without what may be a secret in the wrong place.
func harmless(text string) string {
	const bytesMax = 100
	switch {
	case auth.LooksLikeSecret(text):
		return "(hidden: it may have a token)"
	case len(text) > bytesMax:
		return strings.ToValidUTF8(text[:bytesMax], "") + "…"
	}
	return text
}
