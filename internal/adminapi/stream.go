package adminapi

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"time"

	"plantstore/internal/dump"
)

// Stream is a response whose client sets the pace. Each part must be accepted within a time.
type Stream struct {
	http.ResponseWriter

	control  *http.ResponseController
	ctx      context.Context //nolint:containedctx // the response's
	partTime time.Duration
}

// Stream returns the Stream of a response, which ends with a context.
func (a *API) Stream(ctx context.Context, w http.ResponseWriter) *Stream {
	return &Stream{w, http.NewResponseController(w), ctx, a.partTime}
}

// errNotAccepted wraps the error of a write: the client has disconnected, or stalls.
var errNotAccepted = errors.New("the client accepts no more")

// Write implements io.Writer.
func (s *Stream) Write(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	if err := s.control.SetWriteDeadline(time.Now().Add(s.partTime)); err != nil {
		return 0, fmt.Errorf("extend the write deadline: %w", err)
	}
	n, err := s.ResponseWriter.Write(p)
	if err != nil {
		err = fmt.Errorf("%w: %w", errNotAccepted, err)
	}
	return n, err
}

const ndjsonType = "application/x-ndjson"

// Attach starts a response with a file of plants, which a browser saves under a name.
func Attach(w http.ResponseWriter, format dump.Format, name string) {
	attach(w.Header(), map[dump.Format]string{
		dump.CSV: "text/csv; charset=utf-8", dump.JSONL: ndjsonType, dump.JSON: "application/json",
	}[format], name)
	w.WriteHeader(http.StatusOK)
}

func attach(h http.Header, mediaType, name string) {
	h.Set("Content-Type", mediaType)
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
}
