package server

import (
	"net/http"
	"time"

	"plantstore/internal/plant"
	"plantstore/internal/trace"
)

// responseRecorder is an http.ResponseWriter that records the response for the
// access log and the metrics.
type responseRecorder struct {
	http.ResponseWriter
	handler   *handler
	conn      *conn     // nil: not one of this package's listeners
	serving   bool      // between hasArrived and responds
	id        [1]string // the request id, as the value of a header
	status    int
	bytes     int    // of the body
	route     *route // nil: no route matches
	principal string // the name of the principal; empty: the request is not authenticated
	reason    string // why the credential is invalid; the client does not receive it
	code      plant.Code
	cause     error // of an internal error, which the client does not receive
	aborted   bool  // the handler ended in the middle of the response
	started   time.Time
	span      *trace.Span // nil: tracing is off, or the route is untraced
	ending    *ending     // nil: the request does not end before its function returns
}

// WriteHeader records the status.
func (rec *responseRecorder) WriteHeader(status int) {
	rec.begin(status)
	rec.ResponseWriter.WriteHeader(status)
}

func (rec *responseRecorder) begin(status int) {
	rec.status = status
	rec.responds()
	if rec.ending != nil {
		rec.ending.begin()
	}
}

// Write counts the bytes.
func (rec *responseRecorder) Write(p []byte) (int, error) {
	if rec.status == 0 {
		rec.begin(http.StatusOK)
	}
	if rec.ending != nil {
		if err := rec.ending.fault(); err != nil {
			return 0, err
		}
	}
	n, err := rec.ResponseWriter.Write(p)
	rec.bytes += n
	return n, err
}

// SetWriteDeadline implements the method of http.ResponseController.
func (rec *responseRecorder) SetWriteDeadline(at time.Time) error {
	if rec.ending != nil {
		return rec.ending.setWriteDeadline(at)
	}
	return http.NewResponseController(rec.ResponseWriter).SetWriteDeadline(at)
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (rec *responseRecorder) Unwrap() http.ResponseWriter { return rec.ResponseWriter }
