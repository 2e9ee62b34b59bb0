package main

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"plantstore/internal/certs/certstest"
	"plantstore/internal/oidc/oidctest"
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
	match, err := s.await(s.stdout, `\n(pst_\w+)\n`)
	if err != nil {
		t.Fatal(err)
	}
	return &reloadedServer{testServer: s, file: file, token: match[1]}
}

var reloadLine = regexp.MustCompile(`level=INFO msg="settings reloaded".*\n|level=ERROR msg="could not reload.*\n`)

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
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/plants", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return res.StatusCode, res.Header
}

// TestReload changes the settings of a running server one after the other, by SIGHUP. An open connection stays open.
func TestReload(t *testing.T) {
	t.Parallel()
	s := startReloaded(t, "log-level: access\n")
	client := httpClient(1)
	const plant = `{"id":1,"name":"Rosa canina"}`
	want := func(what string, got, want any) {
		t.Helper()
		if got != want {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	cors := func() string {
		t.Helper()
		_, header := s.send(t, client, plant, "Origin", "https://a.example")
		return header.Get("Access-Control-Allow-Origin")
	}
	want("CORS before", cors(), "")

	s.reload(t, "cors-origins: https://a.example\n", "changed=cors-origins\n", true)
	want("CORS", cors(), "https://a.example")

	s.reload(t, "body-max: 1KiB\nqueue-max: 10\n", "changed=cors-origins,body-max,queue-max\n", true)
	status, _ := s.send(t, client, `{"id":2,"name":"`+strings.Repeat("a", 2000)+`"}`)
	want("long body", status, 413)
	want("CORS after", cors(), "")

	s.reload(t, "credential-rate: 2\n", "changed=body-max,queue-max,credential-rate\n", true)
	_, header := s.send(t, client, plant)
	want("quota", header.Get("Ratelimit-Policy"), `"rate";q=2;w=1`)

	s.reload(t, "log-level: info\nlisten: 127.0.0.1:1\nheader-max: 8KiB\n", "changed=credential-rate,log-level\n", true)
	s.restart(t, "header-max") // --listen is on the command line
	lines := strings.Count(s.stderr.String(), "msg=request")
	s.send(t, client, plant)
	s.reload(t, "log-level: access\n", "changed=log-level\n", true)
	want("requests in the log", strings.Count(s.stderr.String(), "msg=request"), lines)
	s.stop(t)
}

// TestReloadKeepsCounts shows that a reload without a change of the limits keeps the counts of failed credentials.
func TestReloadKeepsCounts(t *testing.T) {
	t.Parallel()
	s := startReloaded(t, "auth-failures: 1\n")
	refused := func() int { return s.createWith(t, "pst_wrong", 1, "A").status }
	first, second := refused(), refused()
	s.reload(t, "auth-failures: 1\ncors-origins: https://a.example\n", "changed=cors-origins\n", true)
	if third := refused(); first != 401 || second != 429 || third != 429 {
		t.Errorf("got %d, %d, and %d after the reload, want 401, 429, 429", first, second, third)
	}
	s.reload(t, "auth-failures: 5\n", "changed=cors-origins,auth-failures\n", true)
	if fourth := refused(); fourth != 401 {
		t.Errorf("got %d with another limit, want 401", fourth)
	}
	s.stop(t)
}

// TestReloadRefused shows that a bad settings file changes nothing, and that its secrets are not in the log.
func TestReloadRefused(t *testing.T) {
	t.Parallel()
	s := startReloaded(t, "body-max: 1KiB\n")
	client := httpClient(1)
	for _, row := range []struct{ text, want string }{
		{"body-max: 2KiB\nbody-maximum: 1\n", `plantstore.yaml:2: unknown setting \"body-maximum\"`},
		{"body-max: [\n", "plantstore.yaml: yaml: "},
		{"body-max: 2KiB\nqueue-max: 0\n", "queue-max"},
		{"body-max: 2KiB\ncredential-burst: 2\n", "a burst needs a rate"},
		{"base-url: http://a:canary7secret@127.0.0.1\n", "base-url"},
		{"body-max: 2KiB\ntls-cert: /nowhere\n", "the private key is missing"},
		{"body-max: 2KiB\noidc-issuer: ftp://a\noidc-audience: a\n", "oidc-issuer"},
		{strings.Repeat("# long\n", 1<<18), "is larger than 1048576 bytes"},
	} {
		s.reload(t, row.text, row.want, true)
	}
	if got, _ := s.send(t, client, `{"id":2,"name":"`+strings.Repeat("a", 3000)+`"}`); got != 413 {
		t.Errorf("long body: got %d, want 413", got)
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

// TestReloadOfTLS changes the files of the certificate and of the client authorities by name. Open connections stay.
func TestReloadOfTLS(t *testing.T) {
	t.Parallel()
	first, second := newTLSFiles(t), newTLSFiles(t)
	text := func(f *tlsFiles) string { return fmt.Sprintf("tls-cert: %s\ntls-key: %s\n", f.cert, f.key) }
	s := startReloaded(t, text(first))
	old := first.client(t)
	if got, _ := s.send(t, old, `{"id":1,"name":"A"}`); got != 200 {
		t.Fatalf("before: got %d", got)
	}
	s.reload(t, text(&tlsFiles{cert: second.cert, key: first.key}), "private key does not match public key", true)
	s.reload(t, text(second), "changed=tls-cert,tls-key\n", true)
	if got, _ := s.send(t, second.client(t), `{"id":2,"name":"A"}`); got != 200 {
		t.Errorf("new connection: got %d", got)
	}
	if got, _ := s.send(t, old, `{"id":3,"name":"A"}`); got != 200 {
		t.Errorf("old connection: got %d", got)
	}
	address, config := strings.TrimPrefix(s.url, "https://"), &tls.Config{RootCAs: first.authority.Pool()}
	if _, err := tls.Dial("tcp", address, config); err == nil {
		t.Error("a new connection has the old certificate")
	}
	s.reload(t, "", "changed=\"\"\n", true)
	s.restart(t, "tls-cert,tls-key") // a listener does not lose its TLS
	if got, _ := s.send(t, second.client(t), `{"id":4,"name":"A"}`); got != 200 {
		t.Errorf("after the removal: got %d", got)
	}
	s.stop(t)
}

// TestReloadOfIssuer adds an issuer, replaces it and removes it.
func TestReloadOfIssuer(t *testing.T) {
	t.Parallel()
	var issuers [2]*oidctest.Issuer
	var texts, jwts [2]string
	for i := range issuers {
		issuer, stop := oidctest.Start()
		defer stop()
		issuer.Publish(oidctest.NewKeys().Published()...)
		issuers[i], jwts[i] = issuer, issuer.JWT(time.Now(), nil)
		texts[i] = fmt.Sprintf("oidc-issuer: %s\noidc-audience: %s\nauth-failures: 0\n", issuer.URL, oidctest.Audience)
	}
	s := startReloaded(t, "auth-failures: 0\n")
	admin := adminURL.FindStringSubmatch(s.stderr.String())[1]
	if got := s.createWith(t, jwts[0], 1, "A"); got != invalidAnswer {
		t.Errorf("no issuer: got %+v", got)
	}
	for i := range issuers {
		s.reload(t, texts[i], "changed=oidc-issuer", true)
		s.awaitAnswer(t, jwts[i], 1, "A", created("A"))
		if got := s.createWith(t, jwts[1-i], 1, "A"); got != invalidAnswer {
			t.Errorf("the other issuer: got %+v", got)
		}
	}
	s.reload(t, "auth-failures: 0\n", "changed=oidc-issuer,oidc-audience\n", true)
	if got := s.createWith(t, jwts[1], 1, "A"); got != invalidAnswer {
		t.Errorf("removed: got %+v", got)
	}
	get(t, admin+"/livez")
	s.stop(t)
}

// looker returns a reloader without a server, for looks at the settings file, and its log.
func looker(t *testing.T, file string) (*reloader, *bytes.Buffer) {
	t.Helper()
	s, flags := &settings{}, pflag.NewFlagSet("serve", pflag.ContinueOnError)
	s.bindStore(flags)
	s.bindServe(flags)
	p := &program{environ: map[string]string{"PLANTSTORE_CONFIG": file}}
	if err := s.loadFlags(t.Context(), p, flags); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	return &reloader{
		p: p, settings: s, servers: &httpServers{}, log: slog.New(slog.NewTextHandler(&log, nil)),
	}, &log
}

// TestChangeDuringStart changes the settings file after the server has read it, and before it looks at it for the first
// time: an engine can take long to open.
func TestChangeDuringStart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "plantstore.yaml")
	for next, want := range map[string]string{
		"log-level: info\n": "", "log-level: x\n": "log-level",
	} {
		writeFileText(t, file, "log-level: info\n")
		r, log := looker(t, file)
		writeFileText(t, file, next)
		if err := r.open(); err != nil {
			t.Fatal(err)
		}
		r.look(t.Context())
		if log.Len() > 0 {
			t.Errorf("%q: the first look loaded it:\n%s", next, log)
		}
		r.look(t.Context())
		if got := log.String(); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%q: log: got %q, want %q in it", next, got, want)
		}
	}
}

// TestFailedReloadIsRepeated looks at a settings file that names a missing file. The log has each error once, and a
// SIGHUP reports it again. There is a minute between two attempts at most.
func TestFailedReloadIsRepeated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, secret := filepath.Join(dir, "plantstore.yaml"), filepath.Join(dir, "secret")
	writeFileText(t, file, "")
	r, log := looker(t, file)
	if err := r.open(); err != nil {
		t.Fatal(err)
	}
	writeFileText(t, file, "webhook-url: https://plants.example/\nwebhook-secret-file: "+secret+"\n")
	want := func(lines int, text string) {
		t.Helper()
		got := log.String()
		if strings.Count(got, "could not reload") != lines || !strings.Contains(got, text) {
			t.Fatalf("want %d lines, with %q, got:\n%s", lines, text, got)
		}
		log.Reset()
	}
	r.look(t.Context())
	want(0, "")
	r.look(t.Context())
	want(1, "no such file")
	for range 200 {
		r.look(t.Context())
	}
	want(0, "")
	r.reload(t.Context()) // SIGHUP
	want(1, "no such file")
	for range 200 {
		r.look(t.Context())
	}
	writeFileText(t, secret, "whsec_x")
	for range time.Minute / reloadEvery {
		r.look(t.Context())
	}
	want(1, "secret 1 is not base64")
}

// TestSettingsBeforeKey writes the settings, the certificate and the key one after the other. The reload between the
// certificate and the key fails, and the server repeats it.
func TestSettingsBeforeKey(t *testing.T) {
	t.Parallel()
	first, second := newTLSFiles(t), newTLSFiles(t)
	text := func(f *tlsFiles) string { return fmt.Sprintf("tls-cert: %s\ntls-key: %s\n", f.cert, f.key) }
	s := startReloaded(t, text(first))
	key, err := os.ReadFile(second.key)
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(first.key)
	if err != nil {
		t.Fatal(err)
	}
	replaceFile(t, second.key, string(other))
	s.reload(t, text(second), "private key does not match public key", false)
	replaceFile(t, second.key, string(key))
	if line := s.nextLine(t); !strings.Contains(line, "changed=tls-cert,tls-key\n") {
		t.Errorf("got %s, want changed=tls-cert,tls-key", line)
	}
	s.stop(t)
}

// TestReloadDuringRenewal changes the settings while another program has replaced a certificate, but not its key. The
// server reloads the settings, and uses the pair when it is whole. SIGHUP reads it at once.
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
	s.reload(t, text+"body-max: 2KiB\n", "changed=body-max\n", false)
	s.reload(t, text+"body-max: 3KiB\n", "private key does not match public key", true)
	replaceFile(t, f.key, string(key))
	s.reload(t, text+"body-max: 3KiB\n", "changed=body-max\n", true)
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

// TestReloadOfSecretInFIFO reloads the settings of a server whose secret was in a FIFO at the start. The FIFO has no
// writer any more, so a read would delay the end of the server.
func TestReloadOfSecretInFIFO(t *testing.T) {
	t.Parallel()
	issuer, stop := oidctest.Start()
	t.Cleanup(stop)
	for name, row := range map[string]struct{ secret, text string }{
		"oidc-client-secret-file": {oidctest.ClientSecret, fmt.Sprintf(
			"oidc-issuer: %s\noidc-client-id: %s\noidc-console-grants: plant-admins=admin\n", issuer.URL, oidctest.ClientID)},
		"webhook-secret-file": {
			"whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 24)), "webhook-url: https://plants.example/\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fifo := filepath.Join(t.TempDir(), "fifo")
			if err := syscall.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			written := make(chan error, 1)
			go func() { written <- os.WriteFile(fifo, []byte(row.secret), 0) }()
			text := name + ": " + fifo + "\n" + row.text
			s := startReloaded(t, text)
			if err := <-written; err != nil {
				t.Fatal(err)
			}
			s.reload(t, text+"body-max: 2KiB\n", "the file is not a regular file; restart the server", true)
			s.stop(t)
		})
	}
}

// TestReloadKeepsKeys changes a setting of the issuer while the issuer is away: its JWTs stay valid.
func TestReloadKeepsKeys(t *testing.T) {
	t.Parallel()
	issuer, stop := oidctest.Start()
	defer stop()
	text := fmt.Sprintf("oidc-issuer: %s\noidc-audience: %s\n", issuer.URL, oidctest.Audience)
	s := startReloaded(t, text)
	jwt := issuer.JWT(time.Now(), nil)
	s.awaitAnswer(t, jwt, 1, "A", created("A"))
	issuer.Answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	s.reload(t, text+"oidc-scopes: [plants:create=plants:create]\n", "changed=oidc-scopes\n", true)
	if got := s.createWith(t, jwt, 1, "A"); got != created("A") {
		t.Errorf("got %+v", got)
	}
	s.stop(t)
}
