// Package tls runs a server with TLS under h2spec, under testssl.sh, and under
// clients that flood it with frames and handshakes.
package tls

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plantstore/faults/rig"
	"plantstore/internal/certs/certstest"
)

var long = flag.Bool("long", false,
	"run more rounds, fail on slow responses, which the short form only logs, and run testssl.sh")

// target is a server with TLS.
type target struct {
	*rig.Server
	url, address string // of the public listener
	token        string
	authority    *x509.CertPool
	caFile       string // PEM file of the authority
}

func start(t *testing.T, program string, flags ...string) *target {
	t.Helper()
	authority, err := certstest.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key, db := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "plants.db")
	s := &target{authority: authority.Pool(), caFile: filepath.Join(dir, "ca.pem")}
	leaf := certstest.Leaf{NotAfter: time.Now().Add(90 * 24 * time.Hour)} // testssl.sh reports one that expires soon
	if err := errors.Join(
		authority.Write(leaf, cert, key), certstest.Replace(s.caFile, authority.PEM),
	); err != nil {
		t.Fatal(err)
	}
	s.token = rig.Token(t, program, db, "a")
	if s.Server, err = rig.Start(
		t, program, db, nil, append(flags, "--tls-cert", cert, "--tls-key", key)...,
	); err != nil {
		t.Fatal(err)
	}
	s.address = strings.TrimPrefix(s.URL, "http://")
	s.url = "https://" + s.address
	return s
}

// stop stops the server, which must end with code 0.
func (s *target) stop(t *testing.T) {
	t.Helper()
	if code := s.Stop(); code != 0 {
		t.Errorf("the server ended with code %d:\n%s", code, s.Log())
	}
}

// client returns a client of HTTP/2 or HTTP/1.1 with connections of its own.
func (s *target) client(t *testing.T, http2 bool) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: s.config(), Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(!http2)
	transport.Protocols.SetHTTP2(http2)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

func (s *target) config(protocols ...string) *tls.Config {
	return &tls.Config{
		RootCAs: s.authority, NextProtos: protocols, ServerName: "localhost", MinVersion: tls.VersionTLS12,
	}
}

// post sends a plant. It returns an error unless the response is 200.
func (s *target) post(ctx context.Context, c *http.Client, id int64) error {
	body := fmt.Appendf(nil, `{"id":%d,"name":"made"}`, id)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/plants", bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	r.Header.Set("Content-Type", "application/json")
	response, err := c.Do(r)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	if err = errors.Join(err, response.Body.Close()); err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("plant %d: status %d", id, response.StatusCode)
	}
	return err
}
