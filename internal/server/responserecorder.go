package server

import (
	"net/http"
	"net/netip"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/listen"
	"plantstore/internal/plant"
	"plantstore/internal/trace"
)

// responseRecorder is an http.ResponseWriter that records the response for the access log and the metrics. It also has
// the state of the request.
type responseRecorder struct {
	http.ResponseWriter
	handler   *handler
	conn      *listen.Conn // nil: not of a listener of package listen
	forwarded netip.Addr   // the client that a trusted proxy has named; zero: none
	admitted  bool         // the credential is valid for the route
	charged   bool         // by checkForwarded
	serving   bool         // between hasArrived and responds
	id        [1]string    // the request id, as the value of a header
	status    int
	bytes     int         // of the body
	route     *Route      // nil: no route matches
	scope     auth.Scopes // that the request requires; 0: none
	principal string      // the name of the principal; empty: the request is not authenticated
	reason    string      // why the credential is invalid; the client does not receive it
	code      plant.Code
	cause     error // of an internal error, which the client does not receive
	aborted   bool  // the handler ended in the middle of the response
	started   time.Time
	span      *trace.Span // nil: tracing is off, or the route is untraced
	ending    *ending     // nil: the request does not end before its function returns
}

// secure reports whether the connection has TLS.
func (rec *responseRecorder) secure() bool { return rec.conn != nil && rec.conn.Secure() }

// WriteHeader records the status.
func (rec *responseRecorder) WriteHeader(status int) {
	rec.begin(status)
	rec.ResponseWriter.WriteHeader(status)
}

func (rec *responseRecorder) begin(status int) {
	rec.status = status
	rec.responds()
	if rec.conn != nil && (rec.isBeyondLimit() || rec.conn.Retired()) {
		rec.Header()["Connection"] = []string{"close"}
	}
	if rec.ending != nil {
		rec.ending.begin()
	}
}

// isBeyondLimit counts a response to a client without a valid credential, and reports whether the server must close the
// connection of the client. That of a proxy stays open.
func (rec *responseRecorder) isBeyondLimit() bool {
	return !rec.admitted && !rec.charged && !rec.conn.Charge(rec.forwarded) && !rec.forwarded.IsValid()
}

// admit records that the credential is valid for the route.
func (rec *responseRecorder) admit(principal auth.Principal) {
	rec.admitted = true
	if rec.conn != nil {
		rec.conn.Admit(rec.forwarded, principal.TokenID)
	}
}

// checkForwarded counts a forwarded request without a credential, and refuses it beyond the limit of its client: the
// server must not close the connection of the proxy.
func (rec *responseRecorder) checkForwarded(r *http.Request) error {
	if !rec.forwarded.IsValid() || rec.conn == nil || len(r.Header["Authorization"])+len(r.Header["Cookie"]) > 0 {
		return nil
	}
	if rec.charged = true; rec.conn.Charge(rec.forwarded) {
		return nil
	}
	rec.Header()["Retry-After"] = []string{retryAfterSeconds}
	return plant.Errorf(plant.CodeTooManyFailures,
		"this address sent too many requests without a valid credential; send it again with one")
}

// Write counts the bytes.
func (rec *responseRecorder) Write(p []byte) (int, error) {
	if rec.status == 0 {
		rec.begin(http.StatusOK)
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
