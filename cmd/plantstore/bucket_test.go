package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"plantstore/internal/config"
	"plantstore/internal/s3/s3test"
	"plantstore/internal/sqlite/dbfile"
)

// newBucket starts an S3 server, and returns it and the environment of programs that use it.
func newBucket(t *testing.T) (*s3test.Server, []string) {
	t.Helper()
	s, err := s3test.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s, s3Environ(s.Endpoint, s3test.AccessKey, s3test.SecretKey)
}

// s3Environ returns the environment of a program with these keys.
func s3Environ(endpoint, access, secret string) []string {
	return append(cleanEnviron(), "AWS_ENDPOINT_URL="+endpoint, "AWS_ACCESS_KEY_ID="+access,
		"AWS_SECRET_ACCESS_KEY="+secret, "AWS_SESSION_TOKEN=", "AWS_SHARED_CREDENTIALS_FILE="+os.DevNull,
		"AWS_CONFIG_FILE="+os.DevNull, "AWS_PROFILE=", "HTTP_PROXY=", "http_proxy=")
}

// runIn runs the program in a directory and returns its exit code and its output.
func runIn(t *testing.T, dir string, environ []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitMax)
	defer cancel()
	cmd := exec.CommandContext(ctx, "plantstore", args...)
	var out, errors bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, environ, &out, &errors
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errors.String()
}

// TestBuckets makes, verifies and restores backups in a bucket, by a server and by commands, with their errors. A
// server starts while the S3 server is away.
func TestBuckets(t *testing.T) {
	t.Parallel()
	s, environ := newBucket(t)
	environ = slices.Clip(environ)
	proxy, err := s3test.NewProxy(t.Context(), s.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	dir := t.TempDir()
	serve := func(environ []string) *testServer {
		t.Helper()
		p, err := startProcess(dir, environ, "serve", "--db", "a.db", "--listen", "127.0.0.1:0", "--admin-listen",
			"127.0.0.1:0", "--backup-dir", "s3://nursery-backups/plants/")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.kill)
		return &testServer{process: p}
	}
	server := serve(environ)
	made, err := server.await(server.stderr, `msg="backup made" file=(s3://nursery-backups/plants/a-\S+.db) `)
	if err != nil {
		t.Fatal(err)
	}
	server.stop(t)
	const monday = "s3://nursery-backups/monday.db"
	object := filepath.Join(s.Dir, s3test.Bucket, "monday.db")
	damage := func() {
		text, err := os.ReadFile(object)
		if err != nil {
			t.Fatal(err)
		}
		text[5000] ^= 1
		if err := os.WriteFile(object, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	remove := func() {
		if err := os.Remove(object + ".json"); err != nil {
			t.Fatal(err)
		}
	}
	var before map[string][]byte
	cut := func() {
		before = filesIn(t, dir)
		proxy.CutResponses(2 << 10)
	}
	withoutTLS := append(environ, "AWS_ENDPOINT_URL=http://0.0.0.0:1")
	const (
		fault      = `no response of the S3 server `
		inTheClear = `^warning: http://0.0.0.0:1 has no TLS: others on the network can read and change the backup; ` +
			`use https\nplantstore: `
	)
	for _, test := range []struct {
		before         func()
		environ        []string
		line           string
		code           int
		stdout, stderr string // regular expressions
	}{
		{nil, environ, "restore " + made[1] + " --db b.db", 0, `^b.db has the 0 plants of `, `^$`},
		{nil, environ, "audit list --db a.db", 0, `store.backup .*file=` + made[1] + ` .*result=complete`, `^$`},
		{
			nil, environ, "backup " + monday + " --db a.db --json", 0,
			`^{"file":"` + monday + `","format":1,`, `^$`,
		},
		{nil, environ, "backup " + monday + " --db a.db", 1, `^$`, `: ` + monday + ` already exists; use a new name\n$`},
		{
			nil, environ, "verify " + monday, 0,
			`^` + monday + ` matches its manifest: 0 plants, last commit \d+, \d+ bytes; the plants were not checked\n$`, `^$`,
		},
		{nil, environ, "restore " + monday + " --db b.db", 1, `^$`, `a store exists already; add --force to replace it\n$`},
		{nil, environ, "restore " + monday + " --db b.db --force", 0, `^b.db has the 0 plants of `, `^$`},
		{nil, environ, "audit list --db b.db", 0, `store.restore .*file=` + monday, `^$`},
		{
			nil, append(environ, "AWS_ENDPOINT_URL_S3=http://127.0.0.1:1"), "backup s3://nursery-backups/c.db --db a.db", 1,
			`^$`, fault + `http://127.0.0.1:1: `,
		},
		{
			nil, append(environ, "AWS_SECRET_ACCESS_KEY="), "serve --db a.db --backup-dir s3://nursery-backups/plants", 2,
			`^$`, `^plantstore: backup-dir \(--backup-dir\): there are no S3 keys: `,
		},
		{nil, withoutTLS, "verify " + monday, 1, `^$`, inTheClear},
		{nil, withoutTLS, "verify s3://nursery-backups", 1, `^$`, inTheClear},
		{
			cut, append(environ, "AWS_ENDPOINT_URL="+proxy.Endpoint), "restore " + monday + " --db b.db --force", 1,
			`^$`, fault,
		},
		{
			damage, environ, "verify " + monday, 1,
			`^its SHA-256 is .*; its manifest has .*\n$`, monday + ` is damaged: 1 fault\n$`,
		},
		{nil, environ, "restore " + monday + " --db c.db", 1, `^$`, `the backup is damaged: its SHA-256 is `},
		{
			remove, environ, "restore " + monday + " --db c.db", 1,
			`^$`, monday + `.json: the manifest is missing, so nothing shows whether the backup is complete`,
		},
	} {
		if test.before != nil {
			test.before()
		}
		code, stdout, stderr := runIn(t, dir, test.environ, strings.Fields(test.line)...)
		if code != test.code || !regexp.MustCompile(test.stdout).MatchString(stdout) ||
			!regexp.MustCompile(test.stderr).MatchString(stderr) {
			t.Errorf("%s: exit %d, want %d\nstdout %swant   %s\nstderr %swant   %s",
				test.line, code, test.code, stdout, test.stdout, stderr, test.stderr)
		}
	}
	if after := filesIn(t, dir); !maps.EqualFunc(before, after, bytes.Equal) {
		t.Errorf("the files before the failures: %q; after them, with other names or contents: %q",
			slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)))
	}
	server = serve(withoutTLS)
	for _, line := range []string{
		`level=WARN msg="the S3 server has no TLS: others on the network can read and change the backups; use https" ` +
			`endpoint=http://0.0.0.0:1\n`,
		`level=ERROR msg="backup failed" `, readyLine,
	} {
		if _, err := server.await(server.stderr, line); err != nil {
			t.Error(err)
		}
	}
	server.stop(t)
}

// TestSendsInTheClear tests which endpoints cause a warning.
func TestSendsInTheClear(t *testing.T) {
	t.Parallel()
	for endpoint, want := range map[string]bool{
		"": false, "https://s3.example": false, "http://s3.example": true, "http://192.0.2.1:9000": true,
		"http://127.0.0.1:9000": false, "http://[::1]:9000": false, "http://localhost": false,
		"http://localhost.example": true,
	} {
		if got := config.SendsInTheClear(endpoint); got != want {
			t.Errorf("%q: got %t, want %t", endpoint, got, want)
		}
	}
}

// TestS3KeysStaySecret searches the outputs of a server and of commands for the keys of S3, also if the S3 server
// returns the headers of the request in its errors.
func TestS3KeysStaySecret(t *testing.T) {
	t.Parallel()
	c := canaries{"the secret key": newCanary(), "the session token": newCanary()}
	hostile := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, "<Error><Code>InvalidToken</Code><Message>%s %v</Message></Error>",
			r.Header.Get("X-Amz-Security-Token"), r.Header)
	}))
	t.Cleanup(hostile.Close)
	dir := t.TempDir()
	db := filepath.Join(dir, "plants.db")
	environ := append(s3Environ(hostile.URL, "nursery", c["the secret key"]), "AWS_SESSION_TOKEN="+c["the session token"])
	_, admin, _ := runIn(
		t, dir, environ, "token", "create", "operator", "--no-expiry", "--db", db, "--create", "--scope", operatorScopes)
	c["the token"] = strings.TrimSpace(admin)
	const to = "s3://nursery-backups/plants"
	serve := []string{
		"serve", "--db", db, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
		"--log-level", "debug", "--pprof", "--backup-dir", to,
	}
	_, stdout, stderr := runIn(t, dir, environ, serve...) // only the owner of the backups starts without the bucket
	c.mustBeAbsent(t, "the first start", []byte(stdout+stderr))
	owned := dbfile.Origin{Timeline: "0123456789abcdef", Holder: true, Destination: to}
	if err := dbfile.WriteOrigin(db, owned); err != nil {
		t.Fatal(err)
	}
	p, err := startProcess(dir, environ, serve...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	if _, err := p.await(p.stderr, `msg="backup failed" .*InvalidToken`); err != nil {
		t.Fatal(err)
	}
	checkRuntime(t, c, &testServer{process: p}, c["the token"])
	for _, line := range []string{
		"backup s3://nursery-backups/a.db", "restore s3://nursery-backups/a.db --db b.db", "verify s3://nursery-backups/a.db",
		"config", "audit list",
	} {
		_, stdout, stderr := runIn(t, dir, append(environ, "PLANTSTORE_DB="+db), strings.Fields(line)...)
		c.mustBeAbsent(t, line, []byte(stdout+stderr))
	}
	for name, output := range filesIn(t, dir) {
		if len(output) > 0 {
			c.mustBeAbsent(t, name, output)
		}
	}
	if err := p.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	if _, err := p.wait(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	c.mustBeAbsent(t, "the output", []byte(p.stdout.String()+p.stderr.String()))
}
