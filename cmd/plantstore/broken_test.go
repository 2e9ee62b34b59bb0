package main

import (
	"bufio"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestStoreFailsDuringDrain stops a server whose store fails at the last request: its exit code is that of a failed
// store and not that of SIGTERM.
func TestStoreFailsDuringDrain(t *testing.T) {
	t.Parallel()
	for !failDuringDrain(t) { // the drain ended before the request was complete
		t.Log("the server drained too early; repeating")
	}
}

// failDuringDrain stops a server, removes the table of its plants and completes a request. It returns false if the
// server did not wait for the request.
func failDuringDrain(t *testing.T) bool {
	t.Helper()
	db := filepath.Join(t.TempDir(), "a.db")
	s := startServer(t, db)
	token := s.creator(t)
	c, err := dialKept(s.listen(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const body = `{"id":1,"name":"Rosa canina"}`
	if _, err := fmt.Fprintf(c, "POST /plants HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n",
		c.RemoteAddr(), token, len(body)); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(c)
	if line, err := in.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("got %q, %v", line, err) // the server reads the body
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, err := s.await(s.stderr, `msg="shutting down`); err != nil {
		t.Fatal(err)
	}
	if err := execSQL(db, "PRAGMA busy_timeout = 60000; DROP TABLE plants"); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(c, body)
	response, _ := io.ReadAll(in)
	code, err := s.wait()
	if err != nil {
		t.Fatal(err)
	}
	log := s.stderr.String()
	if !strings.Contains(log, "no such table") {
		return false
	}
	const last = "plantstore: the store failed; see the log\n"
	if code != exitIO || !strings.HasSuffix(log, last) || !strings.Contains(string(response), "HTTP/1.1 503 ") {
		t.Errorf("the server ended with %d, want %d; the response: %q; the log:\n%s", code, exitIO, response, log)
	}
	return true
}
