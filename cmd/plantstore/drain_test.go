package main

import (
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"plantstore/internal/plant"
	"plantstore/internal/sqlite"
	"plantstore/internal/store"
)

// TestStalledOperatorDoesNotDelayTheEnd stops a server while a client of a search reads nothing.
func TestStalledOperatorDoesNotDelayTheEnd(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "a.db")
	engine, err := sqlite.Open(t.Context(), sqlite.Config{Path: db})
	if err != nil {
		t.Fatal(err)
	}
	var plants []store.Create
	for id := range int64(6) { // together more than the buffers of a connection
		plants = append(plants, store.Create{
			Plant: plant.NewPlant{ID: id, Plant: plant.Plant{Name: strings.Repeat("x", store.PlantsBytes)}}, At: time.Now(),
		})
	}
	if _, err := engine.Insert(t.Context(), plants); err != nil {
		t.Fatal(err)
	}
	if err := engine.Close(); err != nil {
		t.Fatal(err)
	}
	secret := strings.TrimSpace(plantstore(t,
		"token", "create", "reader", "--scope", "plants:read", "--no-expiry", "--db", db))
	const lineTime = 10 * time.Second // in which the client must read a line
	// A machine that is slow for a moment may delay one end, and a server that waits for the client delays each of them.
	for range 3 {
		if took := stopWhileStalled(t, db, secret); took <= lineTime*8/10 {
			return
		}
	}
	t.Errorf("each server ended only after %s", lineTime*8/10)
}

// stopWhileStalled stops a server while a client of a search reads nothing, and returns the time until the end.
func stopWhileStalled(t *testing.T, db, secret string) time.Duration {
	t.Helper()
	s := startServer(t, db)
	match, err := s.await(s.stderr, `admin=(\S+)`)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, match[1]+"/api/v1/plants/search?name=x", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+secret)
	dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error { // the buffers must not hold a whole plant
		var fault error
		err := c.Control(func(fd uintptr) {
			fault = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 64<<10)
		})
		return errors.Join(err, fault)
	}}
	client := http.Client{Transport: &http.Transport{DialContext: dialer.DialContext}}
	defer client.CloseIdleConnections()
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.CopyN(io.Discard, res.Body, 64<<10); err != nil { // the server writes the first plant now
		s.stop(t)
		t.Logf("the machine was so slow that the client did not read in time: %v", err)
		return waitMax
	}
	began := time.Now()
	s.stop(t)
	if res.StatusCode != http.StatusOK {
		t.Errorf("status %d", res.StatusCode)
	}
	return time.Since(began)
}

// TestStopInterruptsAnOrder stops a server while it orders a certificate: the server does not wait for the CA, and
// counts no failure.
func TestStopInterruptsAnOrder(t *testing.T) {
	t.Parallel()
	ordering, interrupted := make(chan struct{}, 1), make(chan struct{}, 1)
	ca := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		ordering <- struct{}{}
		<-r.Context().Done()
		interrupted <- struct{}{}
	}))
	defer ca.Close()
	dir := t.TempDir()
	roots := filepath.Join(dir, "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Certificate().Raw})
	if err := os.WriteFile(roots, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServerIn(t, append(cleanEnviron(), "SSL_CERT_FILE="+roots), filepath.Join(dir, "a.db"),
		"--acme-domain", "plants.example", "--acme-email", "a@plants.example", "--acme-directory", ca.URL+"/directory")
	<-ordering
	s.stop(t)
	<-interrupted
	if strings.Contains(s.stderr.String(), "order failed") {
		t.Errorf("the log has a failed order:\n%s", s.stderr)
	}
}
