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

func (d *handler) logRequest(x *responseRecorder, r *http.Request, took time.Duration) {
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
	client, _, _ := net.SplitHostPort(r.RemoteAddr)
	attrs := make([]slog.Attr, 0, 10)
	attrs = append(attrs,
		slog.String("client", client),
		slog.String("method", loggedMethod(r.Method)),
		slog.String("path", d.loggedPath(r.URL.Path)),
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
	// The handler is called without its logger, which would look up the caller:
	// this line, for every request.
	line := slog.NewRecord(x.started.Add(took), level, "request", 0)
	line.AddAttrs(attrs...)
	_ = d.log.Handler().Handle(context.Background(), line) // a log that fails cannot be logged
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
