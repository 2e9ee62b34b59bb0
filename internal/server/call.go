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

// Call is a request and its response. It is an http.ResponseWriter that records the response for the access log and the
// metrics.
type Call struct {
	*http.Request
	http.ResponseWriter

	Principal auth.Principal // that the request is authenticated as; the zero value: it is not

	handler   *handler
	conn      *listen.Conn // nil: not of a listener of package listen
	forwarded netip.Addr   // the client that a trusted proxy has named; zero: none
	admitted  bool         // the credential is valid for the route
	charged   bool         // by checkForwarded
	serving   bool         // between hasArrived and responds
	aborted   bool         // the handler ended in the middle of the response
	scope     auth.Scopes  // that the request requires; 0: none
	id        [1]string    // the request id, as the value of a header
	status    int
	bytes     int           // size of the body
	route     *Route        // nil: no route matches
	invalid   *auth.Invalid // why the credential is invalid; nil: it is not; the client does not receive it
	code      plant.Code
	cause     error // internal error, which the client does not receive
	started   time.Time
	span      *trace.Span // nil: tracing is off, or the route is untraced
	ending    *ending     // nil: the request does not end before its function returns
}

// Header returns the header of the response.
func (c *Call) Header() http.Header { return c.ResponseWriter.Header() }

// secure reports whether the connection has TLS.
func (c *Call) secure() bool { return c.conn != nil && c.conn.Secure() }

// WriteHeader records the status.
func (c *Call) WriteHeader(status int) {
	c.begin(status)
	c.ResponseWriter.WriteHeader(status)
}

func (c *Call) begin(status int) {
	c.status = status
	c.responds()
	if c.conn != nil && (c.isBeyondLimit() || c.conn.Retired()) {
		c.Header()["Connection"] = []string{"close"}
	}
	if c.ending != nil {
		c.ending.begin()
	}
}

// isBeyondLimit counts a response to a client without a valid credential, and reports whether the server must close the
// connection of the client. That of a proxy stays open.
func (c *Call) isBeyondLimit() bool {
	return !c.admitted && !c.charged && !c.conn.Charge(c.forwarded) && !c.forwarded.IsValid()
}

// admit records that the credential is valid for the route.
func (c *Call) admit() {
	c.admitted = true
	if c.conn != nil {
		c.conn.Admit(c.forwarded, c.Principal.TokenID)
	}
}

// checkForwarded counts a forwarded request without a credential, and refuses it beyond the limit of its client: the
// server must not close the connection of the proxy.
func (c *Call) checkForwarded() error {
	header := c.Request.Header
	if !c.forwarded.IsValid() || c.conn == nil || len(header["Authorization"])+len(header["Cookie"]) > 0 {
		return nil
	}
	if c.charged = true; c.conn.Charge(c.forwarded) {
		return nil
	}
	c.Header()["Retry-After"] = []string{retryAfterSeconds}
	return plant.Errorf(plant.CodeTooManyFailures,
		"this address sent too many requests without a valid credential; send it again with one")
}

// Write counts the bytes.
func (c *Call) Write(p []byte) (int, error) {
	if c.status == 0 {
		c.begin(http.StatusOK)
	}
	n, err := c.ResponseWriter.Write(p)
	c.bytes += n
	return n, err
}

// SetWriteDeadline implements the method of http.ResponseController.
func (c *Call) SetWriteDeadline(at time.Time) error {
	if c.ending != nil {
		return c.ending.setWriteDeadline(at)
	}
	return http.NewResponseController(c.ResponseWriter).SetWriteDeadline(at)
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (c *Call) Unwrap() http.ResponseWriter { return c.ResponseWriter }
