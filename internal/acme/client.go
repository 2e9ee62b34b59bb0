package acme

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

const (
	responseBytesMax = 1 << 20
	requestTimeMax   = 30 * time.Second
	pollMax          = 2 * time.Minute // for a validation and for the certificate
)

// newHTTPClient returns a client with limits on everything that a CA sends.
func newHTTPClient(roots *x509.CertPool) *http.Client {
	transport := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    10 * time.Second,
		ResponseHeaderTimeout:  requestTimeMax,
		IdleConnTimeout:        requestTimeMax,
		MaxIdleConns:           2,
		MaxResponseHeaderBytes: 64 << 10,
		ForceAttemptHTTP2:      true,
	}
	return &http.Client{
		Transport: limited{transport},
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
type limited struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" {
		return nil, fmt.Errorf("the CA names a URL that is not https: %.200q", r.URL.Redacted())
	}
	response, err := l.next.RoundTrip(r)
	if err == nil {
		response.Body = &boundedBody{response.Body, responseBytesMax}
	}
	return response, err
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
