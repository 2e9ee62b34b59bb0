package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
