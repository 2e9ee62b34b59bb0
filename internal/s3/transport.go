package s3

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

// transport returns the transport of the requests: HTTP/1.1, the proxies of the environment, and limits.
func (c Config) transport() (*http.Transport, error) {
	const (
		dialMax = 10 * time.Second
		idleMax = 30 * time.Second
	)
	roots, err := c.roots()
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: dialMax}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &stallingConn{conn, c.StallMax}, nil
		},
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    dialMax,
		ResponseHeaderTimeout:  c.StallMax, // a server that sends a byte now and then never stalls
		IdleConnTimeout:        idleMax,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true, // the checksums are those of the stored bytes
	}, nil
}

// roots returns the certificates of CAFile, nil without one.
func (c Config) roots() (*x509.CertPool, error) {
	if c.CAFile == "" {
		return nil, nil //nolint:nilnil // the certificates of the system
	}
	err := refuseFIFO(c.CAFile)
	var text []byte
	if err == nil {
		text, err = os.ReadFile(c.CAFile)
	}
	if err != nil {
		return nil, fmt.Errorf("the certificates of the S3 server: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("the certificates of the S3 server: %s has no certificate in PEM form", c.CAFile)
	}
	return roots, nil
}

// stallingConn is a connection that fails when it has transferred nothing for a time. A write also moves the deadline
// of the pending read, because the response arrives after the whole request was sent.
type stallingConn struct {
	net.Conn

	max time.Duration
}

// Read implements net.Conn.
func (c *stallingConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.max)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// Write implements net.Conn. It writes in pieces, so that a slow connection that transfers some bytes does not fail.
func (c *stallingConn) Write(p []byte) (n int, err error) {
	const pieceBytes = 16 << 10
	for n < len(p) {
		if err := c.SetDeadline(time.Now().Add(c.max)); err != nil {
			return n, err
		}
		more, err := c.Conn.Write(p[n:min(len(p), n+pieceBytes)])
		n += more
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
