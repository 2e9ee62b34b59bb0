package main

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"plantstore/internal/certs/certstest"
)

// reloadedServer is a server with a settings file.
type reloadedServer struct {
	*testServer
	file, token string
	lines       int    // lines of the log about reloads that nextLine has returned
	last        string // the line of the last call of reload
}

func startReloaded(t *testing.T, text string, flags ...string) *reloadedServer {
	t.Helper()
	file := filepath.Join(t.TempDir(), "plantstore.yaml")
	writeFileText(t, file, text)
	s := startServer(t, filepath.Join(t.TempDir(), "a.db"), append(flags, "--config", file)...)
	return &reloadedServer{testServer: s, file: file, token: s.creator(t)}
}

var reloadLine = regexp.MustCompile(`msg="(settings reloaded|could not reload the settings;).*\n`)

// reload replaces the settings file, sends SIGHUP unless the server must notice the change by itself, and waits for the
// line of the log, which must contain want.
func (s *reloadedServer) reload(t *testing.T, text, want string, hangup bool) {
	t.Helper()
	replaceFile(t, s.file, text)
	if hangup {
		if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	line := s.nextLine(t)
	for !strings.Contains(line, want) {
		if !strings.Contains(line, `changed=""`) && line != s.last {
			t.Fatalf("got %s, want %q in it", line, want)
		}
		line = s.nextLine(t) // the server noticed an earlier change before the SIGHUP, which repeated the reload
	}
	s.last = line
}

// replaceFile replaces a file in one step, because a server can read it at any time.
func replaceFile(t *testing.T, path, text string) {
	t.Helper()
	if err := certstest.Replace(path, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

// nextLine waits for the next line of the log about a reload.
func (s *reloadedServer) nextLine(t *testing.T) string {
	t.Helper()
	var lines []string
	if err := poll("line about the reload", func() bool {
		lines = reloadLine.FindAllString(s.stderr.String(), -1)
		return len(lines) > s.lines
	}); err != nil {
		t.Fatalf("%v:\n%s", err, s.stderr)
	}
	s.lines++
	return lines[s.lines-1]
}

// restart waits for the line about settings that wait for a restart.
func (s *reloadedServer) restart(t *testing.T, names string) {
	t.Helper()
	const line = `level=WARN msg="changed settings wait for a restart of the server" settings=`
	if _, err := s.await(s.stderr, line+names+`\n`); err != nil {
		t.Fatal(err)
	}
}

// send sends a create with further headers and returns the status and the headers of the response.
func (s *reloadedServer) send(
	t *testing.T, c *http.Client, body string, header ...string,
) (status int, headers http.Header) {
	t.Helper()
	r, err := newCreate(t.Context(), s.url, s.token, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	got, err := send(c, r)
	if err != nil {
		t.Fatal(err)
	}
	return got.status, got.header
}

// TestReload changes the settings of a running server by SIGHUP. An open connection stays open.
func TestReload(t *testing.T) {
	t.Parallel()
	s := startReloaded(t, "log-level: access\n")
	client := httpClient(1)
	const plant = `{"id":1,"name":"Rosa canina"}`
	policy := func() string {
		t.Helper()
		_, header := s.send(t, client, plant)
		return header.Get("Ratelimit-Policy")
	}
	if got := policy(); got != "" {
		t.Errorf("before: got the quota %q", got)
	}
	s.reload(t, "credential-rate: 2\n", "changed=credential-rate\n", true)
	if got, want := policy(), `"rate";q=2;w=1`; got != want {
		t.Errorf("got the quota %q, want %q", got, want)
	}
	s.reload(t, "log-level: info\nlisten: 127.0.0.1:1\nbody-max: 1KiB\n", "changed=credential-rate,log-level\n", true)
	s.restart(t, "body-max") // --listen is on the command line
	lines := strings.Count(s.stderr.String(), "msg=request")
	if status, _ := s.send(t, client, `{"id":2,"name":"`+strings.Repeat("a", 2000)+`"}`); status != 200 {
		t.Errorf("a body longer than the body-max of the file: got %d", status)
	}
	s.reload(t, "log-level: access\n", "changed=log-level\n", true)
	if after := strings.Count(s.stderr.String(), "msg=request"); after != lines {
		t.Errorf("the log has %d lines of requests, want %d", after, lines)
	}
	s.stop(t)
}

// TestReloadKeepsCounts shows that a reload without a change of the limits keeps the counts of failed credentials.
func TestReloadKeepsCounts(t *testing.T) {
	t.Parallel()
	s := startReloaded(t, "auth-failures: 1\n")
	refused := func() int { return s.createWith(t, "pst_wrong", 1, "A").status }
	first, second := refused(), refused()
	s.reload(t, "auth-failures: 1\ncredential-rate: 9\n", "changed=credential-rate\n", true)
	if third := refused(); first != 401 || second != 429 || third != 429 {
		t.Errorf("got %d, %d, and %d after the reload, want 401, 429, 429", first, second, third)
	}
	s.reload(t, "auth-failures: 5\n", "changed=auth-failures,credential-rate\n", true)
	if fourth := refused(); fourth != 401 {
		t.Errorf("got %d with another limit, want 401", fourth)
	}
	s.stop(t)
}

// TestReloadRefused shows that a bad settings file changes nothing, and that its secrets are not in the log.
func TestReloadRefused(t *testing.T) {
	t.Parallel()
	s := startReloaded(t, "")
	client := httpClient(1)
	for _, row := range []struct{ text, want string }{
		{"credential-rate: 2\nbody-maximum: 1\n", `plantstore.yaml:2: unknown setting \"body-maximum\"`},
		{"credential-rate: [\n", "plantstore.yaml: yaml: "},
		{"credential-rate: 2\nbackup-keep: 0\n", "backup-keep"},
		{"base-url: http://a:canary7secret@127.0.0.1\n", "base-url"},
		{"webhook-url: http://a:canary7secret@b.example/\nwebhook-secret-file: x\n", "a URL cannot have a user"},
		{"webhook-url: 'https://[::1/?canary7secret'\nwebhook-secret-file: x\n", "it is not a URL"},
		{"webhook-url: https://plants.example/\nwebhook-secret-file: /nowhere\n", "could not open the file"},
		{strings.Repeat("# long\n", 1<<18), "is larger than 1048576 bytes"},
	} {
		s.reload(t, row.text, row.want, true)
	}
	if _, header := s.send(t, client, `{"id":2,"name":"A"}`); header.Get("Ratelimit-Policy") != "" {
		t.Errorf("a refused quota is in force: %q", header.Get("Ratelimit-Policy"))
	}
	if err := os.Remove(s.file); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if _, err := s.await(s.stderr, `could not reload[^\n]*no such file`); err != nil {
		t.Fatal(err)
	}
	s.stop(t)
	if strings.Contains(s.stderr.String(), "canary7secret") {
		t.Errorf("the log has a password:\n%s", s.stderr)
	}
}

// TestReloadOfChangedFile shows that the server notices a change of the file without a signal.
func TestReloadOfChangedFile(t *testing.T) {
	t.Parallel()
	s := startReloaded(t, "")
	s.reload(t, "auth-failures: 1\n", "changed=auth-failures\n", false)
	s.reload(t, "auth-failures: x\n", "auth-failures", false)
	s.reload(t, "auth-failures: 2\n", "changed=auth-failures\n", false)
	s.stop(t)
	if n := strings.Count(s.stderr.String(), "could not reload"); n != 1 {
		t.Errorf("the log has %d lines about the bad file, want 1:\n%s", n, s.stderr)
	}
}

// TestReloadDuringRenewal sends SIGHUP while another program has replaced a certificate, but not its key. The server
// reloads the settings, and uses the pair when it is whole.
func TestReloadDuringRenewal(t *testing.T) {
	t.Parallel()
	f := newTLSFiles(t)
	text := fmt.Sprintf("tls-cert: %s\ntls-key: %s\n", f.cert, f.key)
	s := startReloaded(t, text)
	cert, key, err := f.authority.Issue(certstest.Leaf{Name: "renewed"})
	if err != nil {
		t.Fatal(err)
	}
	replaceFile(t, f.cert, string(cert))
	s.reload(t, text+"credential-rate: 5\n", "changed=credential-rate\n", true)
	const line = `could not reload the certificates[^\n]*private key does not match public key`
	if _, err := s.await(s.stderr, line); err != nil {
		t.Error(err)
	}
	replaceFile(t, f.key, string(key))
	s.reload(t, text, "changed=credential-rate\n", true)
	conn, err := tls.Dial("tcp", strings.TrimPrefix(s.url, "https://"), &tls.Config{RootCAs: f.authority.Pool()})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := conn.ConnectionState().PeerCertificates[0].Subject.CommonName; got != "renewed" {
		t.Errorf("after SIGHUP: got the certificate of %q, want renewed", got)
	}
	s.stop(t)
}
