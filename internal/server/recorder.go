package server

import (
	"net/http"
	"time"

	"plantstore/internal/plant"
)

// responseRecorder records how a request was answered, for the access log and the metrics.
type responseRecorder struct {
	http.ResponseWriter
	id      [1]string // as the value of a header
	status  int
	bytes   int
	route   *route // nil if there is none
	who     string // the name of the credential
	code    plant.Code
	cause   error // what an internal error hid from the client
	started time.Time
}

// WriteHeader records the status.
func (x *responseRecorder) WriteHeader(status int) {
	x.status = status
	x.ResponseWriter.WriteHeader(status)
}

// Write counts the bytes.
func (x *responseRecorder) Write(p []byte) (int, error) {
	if x.status == 0 {
		x.status = http.StatusOK
	}
	n, err := x.ResponseWriter.Write(p)
	x.bytes += n
	return n, err
}

// Unwrap lets http.ResponseController reach the connection's deadlines.
func (x *responseRecorder) Unwrap() http.ResponseWriter { return x.ResponseWriter }
