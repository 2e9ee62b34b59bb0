package acme

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

const (
	responseBytesMax = 1 << 20
	requestTimeMax   = 30 * time.Second
	pollMax          = 2 * time.Minute // for a validation and for the certificate
	retryMax         = 24 * time.Hour  // for which a CA can postpone an order
)

// limited is a transport that bounds the responses of a CA, and refuses its URLs without TLS (RFC 8555 section 6.1).
type limited struct {
	next *http.Transport

	// retryAt is the latest time of a Retry-After in an error response, at most retryMax away. Only the goroutine of the
	// Source uses it.
	retryAt time.Time
}

// newTransport returns a transport that verifies the TLS certificate of a CA with roots.
func newTransport(roots *x509.CertPool) *limited {
	next := http.DefaultTransport.(*http.Transport).Clone()
	next.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	next.MaxResponseHeaderBytes = 64 << 10
	return &limited{next: next}
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
	if at := retryAt(response.Header.Get("Retry-After")); response.StatusCode >= 400 && at.After(l.retryAt) {
		l.retryAt = at
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, responseBytesMax+1))
	if err == nil && len(body) > responseBytesMax {
		err = fmt.Errorf("the response of the CA is larger than %d bytes", responseBytesMax)
	}
	if err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

// retryAt returns the time of a header Retry-After (RFC 9110 section 10.2.3), at most retryMax away, or the zero time.
func retryAt(header string) time.Time {
	at, _ := http.ParseTime(header) // the zero time after an error
	if seconds, err := strconv.ParseUint(header, 10, 32); err == nil {
		at = time.Now().Add(time.Duration(seconds) * time.Second)
	}
	if latest := time.Now().Add(retryMax); at.After(latest) {
		return latest
	}
	return at
}
