package s3

import (
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
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: dialMax}).DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    dialMax,
		IdleConnTimeout:        idleMax,
		MaxIdleConnsPerHost:    removesAtOnce,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true, // the checksums cover the stored bytes
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
