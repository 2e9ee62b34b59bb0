package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"plantstore/internal/certs/certstest"
)

func cmdIssue(ts *testscript.TestScript, _ *script, args []string) error {
	authority, err := certstest.NewAuthority()
	if err != nil {
		return err
	}
	return authority.Write(certstest.Leaf{}, ts.MkAbs(args[0]+".pem"), ts.MkAbs(args[0]+".key"))
}

// tlsFiles are the files of a server with TLS.
type tlsFiles struct {
	authority *certstest.Authority
	cert, key string
}

func newTLSFiles(t *testing.T) *tlsFiles {
	t.Helper()
	authority, err := certstest.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	f := &tlsFiles{authority: authority, cert: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem")}
	f.issue(t, "first")
	return f
}

func (f *tlsFiles) issue(t *testing.T, name string) {
	t.Helper()
	if err := f.authority.Write(certstest.Leaf{Name: name}, f.cert, f.key); err != nil {
		t.Fatal(err)
	}
}

func (f *tlsFiles) flags() []string { return []string{"--tls-cert", f.cert, "--tls-key", f.key} }

// client returns a client that trusts the authority. It speaks HTTP/2 with servers that offer it.
func (f *tlsFiles) client(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: f.authority.Pool(), MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true,
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Timeout: waitMax, Transport: transport}
}

// TestTLS creates a plant over HTTPS, with the URL in the log.
func TestTLS(t *testing.T) {
	t.Parallel()
	f := newTLSFiles(t)
	s := startServer(t, filepath.Join(t.TempDir(), "a.db"), f.flags()...)
	token := s.creator(t)
	if !strings.HasPrefix(s.url, "https://127.0.0.1:") {
		t.Errorf("URL: got %s, want https", s.url)
	}
	status, body, err := post(t.Context(), f.client(t), s.url, token, `{"id":1,"name":"A"}`)
	if err != nil || status != http.StatusOK || body != `{"name":"A"}`+"\n" {
		t.Errorf("got %d %q, %v", status, body, err)
	}
	status, body, err = post(t.Context(), httpClient(1), "http"+strings.TrimPrefix(s.url, "https"), token, `{}`)
	const needsTLS = "Client sent an HTTP request to an HTTPS server.\n"
	if err != nil || status != http.StatusBadRequest || body != needsTLS {
		t.Errorf("plain HTTP: got %d %q, %v", status, body, err)
	}
	if admin := adminURL.FindStringSubmatch(s.stderr.String()); len(admin) == 0 {
		t.Errorf("the admin listener on loopback has no http URL:\n%s", s.stderr)
	}
	s.stop(t)
}

// TestTLSClientCertificates requires a certificate of the authority on the public listener.
func TestTLSClientCertificates(t *testing.T) {
	t.Parallel()
	f := newTLSFiles(t)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, f.authority.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServer(t, filepath.Join(t.TempDir(), "a.db"), append(f.flags(), "--client-ca", ca)...)
	if _, _, err := post(t.Context(), f.client(t), s.url, "x", `{}`); err == nil {
		t.Error("no client certificate: got no error")
	}
	c := f.client(t)
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		t.Fatal(err)
	}
	c.Transport.(*http.Transport).TLSClientConfig.Certificates = []tls.Certificate{pair}
	if status, _, err := post(t.Context(), c, s.url, "x", `{}`); err != nil || status != http.StatusUnauthorized {
		t.Errorf("with a client certificate: got %d, %v, want 401", status, err)
	}
	if _, err := s.await(s.stderr, `msg=request .* client_certificate="?CN=first`); err != nil {
		t.Error(err)
	}
	s.stop(t)
}

// TestTLSReload replaces the certificate while clients create plants. The server notices that without a signal. No
// request fails, open connections continue, and new ones receive the new certificate.
func TestTLSReload(t *testing.T) {
	t.Parallel()
	f := newTLSFiles(t)
	s := startServer(t, filepath.Join(t.TempDir(), "a.db"), f.flags()...)
	token := s.creator(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var load sync.WaitGroup
	var plants atomic.Int64
	awaitPlants := func(n int64) {
		n += plants.Load()
		if err := within(waitMax, func() (bool, error) { return t.Failed() || plants.Load() >= n, nil }); err != nil {
			t.Error(err)
		}
	}
	for i := range 4 {
		c := f.client(t)
		c.Transport.(*http.Transport).DisableKeepAlives = i < 2 // a handshake for each request
		load.Go(func() {
			for n := i; ctx.Err() == nil; n += 4 {
				status, body, err := post(t.Context(), c, s.url, token, fmt.Sprintf(`{"id":%d,"name":"A"}`, n))
				if err != nil || status != http.StatusOK {
					t.Errorf("plant %d: got %d %q, %v", n, status, body, err)
					return
				}
				plants.Add(1)
			}
		})
	}
	awaitPlants(100)
	kept := f.client(t)
	first := servedName(t, kept, s.url)
	f.issue(t, "second")
	if err := within(waitMax, func() (bool, error) {
		return servedName(t, f.client(t), s.url) == "second", nil
	}); err != nil {
		t.Error(err)
	}
	if again := servedName(t, kept, s.url); first != "first" || again != "first" {
		t.Errorf("open connection: got the certificates %q and %q, want first", first, again)
	}
	awaitPlants(100)
	cancel()
	load.Wait()
	s.stop(t)
}

// servedName returns the common name of the certificate of a server.
func servedName(t *testing.T, c *http.Client, url string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/healthz", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.Do(r)
	if err != nil {
		t.Error(err)
		return ""
	}
	_, err = io.Copy(io.Discard, response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		t.Error(err)
	}
	return response.TLS.PeerCertificates[0].Subject.CommonName
}

// TestTLSShutdown stops a server during requests: each accepted plant has its response and is stored.
func TestTLSShutdown(t *testing.T) {
	t.Parallel()
	f := newTLSFiles(t)
	db := filepath.Join(t.TempDir(), "a.db")
	s := startServer(t, db, f.flags()...)
	token := s.creator(t)
	c := f.client(t)
	var stored sync.Map
	var load sync.WaitGroup
	var responses atomic.Int64
	for i := range 20 {
		load.Go(func() {
			for n := i; ; n += 20 {
				status, _, err := post(t.Context(), c, s.url, token, fmt.Sprintf(`{"id":%d,"name":"A"}`, n))
				if err != nil || status != http.StatusOK {
					return // the server has stopped
				}
				stored.Store(n, true)
				responses.Add(1)
			}
		})
	}
	if err := within(waitMax, func() (bool, error) { return responses.Load() >= 200, nil }); err != nil {
		t.Error(err)
	}
	s.stop(t)
	load.Wait()
	listed := map[int]bool{}
	for line := range strings.Lines(plantstore(t, "list", "--json", "--db", db)) {
		var plant struct{ ID int }
		if err := json.Unmarshal([]byte(line), &plant); err != nil {
			t.Fatal(err)
		}
		listed[plant.ID] = true
	}
	acknowledged := 0
	for n := range stored.Range {
		acknowledged++
		if !listed[n.(int)] {
			t.Errorf("plant %d was acknowledged and is not stored", n)
		}
	}
	if acknowledged < 200 {
		t.Errorf("%d plants were acknowledged, want at least 200", acknowledged)
	}
}

// TestAdminTLS serves the admin listener with the same certificate on another address than loopback, under the names of
// the certificate.
func TestAdminTLS(t *testing.T) {
	t.Parallel()
	f := newTLSFiles(t)
	if err := f.authority.Write(certstest.Leaf{DNSNames: []string{"plants.example"}}, f.cert, f.key); err != nil {
		t.Fatal(err)
	}
	s := startServer(t, filepath.Join(t.TempDir(), "a.db"), append(f.flags(), "--admin-listen", "0.0.0.0:0")...)
	match, err := s.await(s.stderr, `admin=(https://127\.0\.0\.1:\d+)`)
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]int{
		"": http.StatusOK, "plants.example": http.StatusOK, "evil.example": http.StatusMisdirectedRequest,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, match[1]+"/livez", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		response, err := f.client(t).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != want || response.ProtoMajor != 1 ||
			response.Header.Get("Strict-Transport-Security") == "" {
			t.Errorf("Host %q: got %d %s %v, want %d", host, response.StatusCode, response.Proto, response.Header, want)
		}
	}
	s.stop(t)
}
