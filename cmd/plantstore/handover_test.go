package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"plantstore/client"
)

// TestHandOver promotes a standby while the owner waits for a client whose request is incomplete, for longer than
// --failover: the standby has every plant that the owner acknowledged, even the ones that were not copied before.
func TestHandOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := filepath.Join(dir, "a", "p.db")
	standbyDB := filepath.Join(dir, "b", "p.db")
	for _, path := range []string{db, standbyDB} {
		if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	shared := []string{"--backup-dir", t.TempDir(), "--failover", "1s", "--backup-lag", "1h"}
	owner := startServer(t, db, shared...)
	token := owner.creator(t)
	if _, err := owner.await(owner.stderr, `msg="backup made"`); err != nil {
		t.Fatal(err)
	}
	standby, err := startProcess(t.TempDir(), cleanEnviron(), append([]string{
		"serve", "--db", standbyDB, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--standby",
	}, shared...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(standby.kill)
	if _, err := standby.await(standby.stderr, `msg="ready as a standby"`); err != nil {
		t.Fatal(err)
	}
	const plants = 3
	for id := range plants {
		body := fmt.Sprintf(`{"id":%d,"name":"a"}`, id)
		if status, text, err := post(t.Context(), httpClient(1), owner.url, token, body); status != http.StatusOK {
			t.Fatalf("%d %s %v", status, text, err)
		}
	}
	c, err := net.Dial("tcp", strings.TrimPrefix(owner.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "POST /plants HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer "+token+
		"\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	plantstore(t, "promote", "--db", standbyDB)
	for id := range plants {
		plantstore(t, "get", fmt.Sprint(id), "--db", standbyDB)
	}
	if _, err := owner.await(owner.stderr, `msg="ready as a standby"`); err != nil {
		t.Fatal(err)
	}
	if aside, _ := filepath.Glob(db + "-set-aside-*"); len(aside) > 0 {
		t.Errorf("%s: the store was set aside; the log:\n%s", aside, owner.stderr)
	}
}

// TestHandOverWithTLS changes the roles of two servers with certificates of their own and client certificates. Each
// loads its new certificate in both roles, and a client with both addresses needs no other one.
func TestHandOverWithTLS(t *testing.T) {
	t.Parallel()
	first := newTLSFiles(t)
	dir := t.TempDir()
	second := &tlsFiles{first.authority, filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
	second.issue(t, "second")
	ca := filepath.Join(dir, "ca.pem")
	writeFileText(t, ca, string(first.authority.PEM))
	shared := []string{"--backup-dir", t.TempDir(), "--failover", "30s", "--client-ca", ca}
	serve := func(f *tlsFiles, flags ...string) *testServer {
		return startServer(t, filepath.Join(t.TempDir(), "a.db"), slices.Concat(shared, f.flags(), flags)...)
	}
	owner := serve(first)
	token := owner.creator(t)
	standby := serve(second, "--standby")
	certified := first.client(t)
	transport := certified.Transport.(*http.Transport)
	transport.DisableKeepAlives = true // a handshake for each request
	pair, err := tls.LoadX509KeyPair(first.cert, first.key)
	if err != nil {
		t.Fatal(err)
	}
	transport.TLSClientConfig.Certificates = []tls.Certificate{pair}
	c, err := client.New(owner.url, client.WithFallback(standby.url), client.WithToken(token),
		client.WithTLS(transport.TLSClientConfig), client.WithRetryFor(waitMax))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	created := int64(0)
	create := func() {
		t.Helper()
		created++
		if _, err := c.Create(t.Context(), client.NewPlant{ID: created, Name: "Rosa canina"}); err != nil {
			t.Fatal(err)
		}
	}
	reloads := map[*testServer]int{}
	renew := func(s *testServer, f *tlsFiles, name string) {
		t.Helper()
		f.issue(t, name)
		if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		reloads[s]++
		if _, err := s.await(s.stderr, fmt.Sprintf(`(?s)(msg="settings reloaded".*){%d}`, reloads[s])); err != nil {
			t.Fatal(err)
		}
		if got := servedName(t, certified, s.url); got != name {
			t.Errorf("the certificate of %s, want %s", got, name)
		}
		if _, err := s.await(s.stderr, "client_certificate="); err != nil {
			t.Error(err)
		}
		if _, _, err := post(t.Context(), first.client(t), s.url, token, "{}"); err == nil {
			t.Errorf("%s: a client without a certificate has a response", name)
		}
	}
	create()
	renew(owner, first, "first as the owner")
	renew(standby, second, "second as a standby")
	for range 2 {
		create()
		plantstore(t, "promote", "--db", standby.db)
		create()
		owner, standby = standby, owner
		if _, err := standby.await(standby.stderr, `msg="ready as a standby"`); err != nil {
			t.Fatal(err)
		}
		first, second = second, first
		renew(owner, first, "the owner after the change")
		renew(standby, second, "the standby after the change")
	}
	create()
	for id := range created {
		plantstore(t, "get", fmt.Sprint(id+1), "--db", owner.db)
	}
}
