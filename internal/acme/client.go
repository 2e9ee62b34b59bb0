package acme

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

const (
	responseBytesMax = 1 << 20
	requestTimeMax   = 30 * time.Second
	pollMax          = 2 * time.Minute // for a validation and for the certificate
)

// newTransport returns a transport with limits on everything that a CA sends.
func newTransport(roots *x509.CertPool) *limited {
	return &limited{next: &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    10 * time.Second,
		ResponseHeaderTimeout:  requestTimeMax,
		IdleConnTimeout:        requestTimeMax,
		MaxIdleConns:           2,
		MaxResponseHeaderBytes: 64 << 10,
		ForceAttemptHTTP2:      true,
	}}
}

// newHTTPClient returns a client of a transport.
func newHTTPClient(transport *limited) *http.Client {
	return &http.Client{
		Transport: transport,
		Timeout:   requestTimeMax,
		CheckRedirect: func(_ *http.Request, via []*http.Request) error {
			if len(via) > 3 {
				return errors.New("the CA redirects more than 3 times")
			}
			return nil
		},
	}
}

// limited bounds the responses of a CA, and refuses its URLs without TLS (RFC 8555 section 6.1).
type limited struct {
	next http.RoundTripper

	// retryAt is the latest time of a Retry-After in an error response, at most retryMax away. Only the goroutine of the
	// Source uses it.
	retryAt time.Time
}

// RoundTrip implements http.RoundTripper.
func (l *limited) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" {
		return nil, fmt.Errorf("the CA names a URL that is not https: %.200q", r.URL.Redacted())
	}
	response, err := l.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	response.Body = &boundedBody{response.Body, responseBytesMax}
	if at := retryAt(response); response.StatusCode >= http.StatusBadRequest && at.After(l.retryAt) {
		l.retryAt = at
	}
	return response, nil
}

// retryMax is the longest time for which a CA can postpone an order.
const retryMax = 24 * time.Hour

// retryAt returns the time of Retry-After (RFC 9110 section 10.2.3), at most retryMax away, or the zero time.
func retryAt(r *http.Response) time.Time {
	text := r.Header.Get("Retry-After")
	latest := time.Now().Add(retryMax)
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		return earlier(latest, time.Now().Add(time.Duration(seconds)*time.Second))
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return time.Time{}
	}
	return earlier(latest, at)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

var errResponseTooLarge = fmt.Errorf("the response of the CA is larger than %d bytes", responseBytesMax)

// boundedBody returns errResponseTooLarge instead of the byte after the limit.
type boundedBody struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, errResponseTooLarge
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left+1)])
	if b.left -= n; b.left < 0 {
		return n - 1, errResponseTooLarge
	}
	return n, err
}
