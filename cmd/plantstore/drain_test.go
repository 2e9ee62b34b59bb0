package main

import (
	"encoding/pem"
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
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	const lineTime = 10 * time.Second // in which the client must read a line
	began := time.Now()
	s.stop(t)
	if took := time.Since(began); res.StatusCode != http.StatusOK || took > lineTime*8/10 {
		t.Errorf("status %d; the server ended after %s", res.StatusCode, took)
	}
}

// TestStopInterruptsAnOrder stops a server while it orders a certificate: the order ends before the listener of its
// challenges has closed, so the CA does not count a failure.
func TestStopInterruptsAnOrder(t *testing.T) {
	t.Parallel()
	ordering, interrupted := make(chan struct{}, 1), make(chan time.Time, 1)
	ca := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		ordering <- struct{}{}
		<-r.Context().Done()
		interrupted <- time.Now()
	}))
	defer ca.Close()
	dir := t.TempDir()
	roots := filepath.Join(dir, "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Certificate().Raw})
	if err := os.WriteFile(roots, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServer(t, filepath.Join(dir, "a.db"), "--acme-domain", "plants.example", "--acme-email", "a@plants.example",
		"--acme-directory", ca.URL+"/directory", "--acme-ca", roots)
	<-ordering
	match, err := s.await(s.stderr, ` listen=(\S+)`)
	if err != nil {
		t.Fatal(err)
	}
	client, err := net.Dial("tcp", match[1]) // an incomplete request, for which the server waits at its end
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	end := <-interrupted
	select {
	case <-s.ended:
		t.Errorf("the order ended with the server, at %s", end)
	default:
	}
	_ = client.Close()
	if code, err := s.wait(); err != nil || code != exitOK {
		t.Errorf("the server ended with %d, %v", code, err)
	}
	if strings.Contains(s.stderr.String(), "order failed") {
		t.Errorf("the log has a failed order:\n%s", s.stderr)
	}
}
