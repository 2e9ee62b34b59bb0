package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"plantstore/internal/s3/s3test"
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
	cmd := exec.CommandContext(t.Context(), "plantstore", args...)
	var out, errors bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, environ, &out, &errors
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errors.String()
}

// TestBucketCommands makes, verifies and restores a backup in a bucket, and tests the errors.
func TestBucketCommands(t *testing.T) {
	t.Parallel()
	s, environ := newBucket(t)
	dir := t.TempDir()
	noKeys := append(environ, "AWS_SECRET_ACCESS_KEY=")
	object := filepath.Join(s.Dir, s3test.Bucket, "plants", "monday.db")
	const monday = "s3://nursery-backups/plants/monday.db"
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
	for _, test := range []struct {
		before         func()
		environ        []string
		line           string
		code           int
		stdout, stderr string // regular expressions
	}{
		{nil, nil, "token create shop --no-expiry --create --db a.db", 0, `^pst_`, `^created token`},
		{
			nil, nil, "backup " + monday + " --db a.db --quiet", 0,
			`^` + monday + ` has 0 plants, up to commit \d+\n$`, `^$`,
		},
		{nil, nil, "backup " + monday + " --db a.db", 1, `^$`, `: ` + monday + ` already exists; use a new name\n$`},
		{
			nil, nil, "backup s3://nursery-backups/b.db --db a.db --json", 0,
			`^{"file":"s3://nursery-backups/b.db","format":1,`, `^$`,
		},
		{
			nil, nil, "verify " + monday, 0,
			`^` + monday + ` matches its manifest: 0 plants, last commit \d+, \d+ bytes; the plants were not checked\n$`, `^$`,
		},
		{
			nil, nil, "verify " + monday + " --json", 0,
			`^{"file":"` + monday + `","whole":true,"manifest_compared":true,"fault_count":0,"faults":\[\],"format":1,`, `^$`,
		},
		{nil, nil, "restore " + monday + " --db b.db", 0, `^b.db has the 0 plants of `, `^$`},
		{nil, nil, "restore " + monday + " --db b.db", 1, `^$`, `a store exists already; add --force to replace it\n$`},
		{nil, nil, "restore " + monday + " --db b.db --force", 0, `^b.db has the 0 plants of `, `^$`},
		{nil, nil, "audit list --db b.db", 0, `store.restore .*file=` + monday, `^$`},
		{nil, nil, "audit list --db a.db", 0, `store.backup .*file=` + monday + ` .*result=complete`, `^$`},
		{
			nil, nil, "verify s3://nursery-backups/none.db", 1,
			`^$`, `s3://nursery-backups/none.db: file does not exist\n$`,
		},
		{
			nil, nil, "restore s3://no-such-bucket/a.db --db c.db", 1,
			`^$`, `the bucket does not exist on http://127.*; create it or change the address\n$`,
		},
		{
			nil, nil, "backup s3://nursery-backups/c.db --db a.db --s3-endpoint http://127.0.0.1:1", 1,
			`^$`, `no response of the S3 server http://127.0.0.1:1: `,
		},
		{
			nil, noKeys, "backup s3://nursery-backups/c.db --db a.db", 1,
			`^$`, `there are no S3 keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY`,
		},
		{
			nil, nil, "backup s3://nursery-backups --db a.db", 2,
			`^$`, `is a bucket; name a backup in it, such as s3://nursery-backups/monday.db`,
		},
		{nil, nil, "backup s3://key:canary@nursery-backups/c.db --db a.db", 2, `^$`, `the address may have a password; `},
		{
			nil, nil, "backup s3://nursery-backups/c.db --db a.db --s3-endpoint http://key:canary@x", 2,
			`^$`, `the endpoint must have the form https://HOST`,
		},
		{
			nil, noKeys, "serve --db a.db --backup-dir s3://nursery-backups/plants", 2,
			`^$`, `^plantstore: backup-dir \(--backup-dir\): there are no S3 keys: `,
		},
		{
			nil, nil, "serve --db a.db --backup-dir s3://key:canary@nursery-backups", 2,
			`^$`, `the address may have a password; `,
		},
		{
			damage, nil, "verify " + monday, 1,
			`^its SHA-256 is .*; its manifest has .*\n$`, monday + ` is damaged: 1 fault\n$`,
		},
		{nil, nil, "restore " + monday + " --db c.db", 1, `^$`, `the backup is damaged: its SHA-256 is `},
		{
			remove, nil, "verify " + monday, 1,
			`^$`, monday + `.json: the manifest is missing, so nothing shows whether the backup is complete`,
		},
		{nil, nil, "restore " + monday + " --db c.db", 1, `^$`, monday + `.json: the manifest is missing, `},
		{nil, nil, "get 1 --db c.db", 1, `^$`, `c.db`}, // no store was created
	} {
		if test.before != nil {
			test.before()
		}
		if test.environ == nil {
			test.environ = environ
		}
		code, stdout, stderr := runIn(t, dir, test.environ, strings.Fields(test.line)...)
		for _, match := range []bool{
			code == test.code, regexp.MustCompile(test.stdout).MatchString(stdout),
			regexp.MustCompile(test.stderr).MatchString(stderr), !strings.Contains(stdout+stderr, "canary"),
		} {
			if !match {
				t.Errorf("%s: exit %d, want %d\nstdout %swant   %s\nstderr %swant   %s",
					test.line, code, test.code, stdout, test.stdout, stderr, test.stderr)
				break
			}
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("temporary files left: %v, %v", left, err)
	}
}

// TestSendsInTheClear tests which endpoints cause a warning.
func TestSendsInTheClear(t *testing.T) {
	t.Parallel()
	for endpoint, want := range map[string]bool{
		"": false, "https://s3.example": false, "http://s3.example": true, "http://192.0.2.1:9000": true,
		"http://127.0.0.1:9000": false, "http://[::1]:9000": false, "http://localhost": false,
		"http://localhost.example": true,
	} {
		if got := sendsInTheClear(endpoint); got != want {
			t.Errorf("%q: got %t, want %t", endpoint, got, want)
		}
	}
}

// TestServerWithoutTLS shows the warnings of a server and of a command. The address of the S3 server refuses
// connections.
func TestServerWithoutTLS(t *testing.T) {
	t.Parallel()
	_, environ := newBucket(t)
	environ = append(environ, "AWS_ENDPOINT_URL=http://0.0.0.0:1")
	dir := t.TempDir()
	p, err := startProcess(dir, environ, "serve", "--db", "a.db", "--listen", "127.0.0.1:0", "--admin-listen",
		"127.0.0.1:0", "--backup-dir", "s3://nursery-backups/plants")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	if _, err := p.await(p.stderr, `level=WARN msg="the S3 server has no TLS: others on the network can read and change `+
		`the backups; use https" endpoint=http://0.0.0.0:1\n`); err != nil {
		t.Error(err)
	}
	(&testServer{process: p}).stop(t)
	_, _, stderr := runIn(t, dir, environ, "verify", "s3://nursery-backups/a.db")
	const want = "warning: http://0.0.0.0:1 has no TLS: others on the network can read and change the backup; use https\n"
	if !strings.HasPrefix(stderr, want) {
		t.Errorf("verify: %s", stderr)
	}
}

// TestServeBacksUpToBucket tests the log, the metrics and the audit log of a server with scheduled backups in a bucket,
// which starts also while the S3 server is away.
func TestServeBacksUpToBucket(t *testing.T) {
	t.Parallel()
	s, environ := newBucket(t)
	dir := t.TempDir()
	serve := []string{
		"serve", "--db", "plants.db", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--print-tokens",
		"--admin-open", "--backup-dir", "s3://nursery-backups/plants/",
	}
	p, err := startProcess(dir, environ, serve...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	made, err := p.await(p.stderr, `msg="backup made" file=(s3://nursery-backups/plants/plants-\S+.db) `)
	if err != nil {
		t.Fatal(err)
	}
	(&testServer{process: p}).stop(t)
	code, stdout, stderr := runIn(t, dir, environ, "restore", made[1], "--db", "restored.db")
	if code != 0 || !strings.HasPrefix(stdout, "restored.db has the 0 plants of ") {
		t.Errorf("restore: %d, %s%s", code, stdout, stderr)
	}
	_, stdout, _ = runIn(t, dir, environ, "audit", "list", "--db", "plants.db")
	if !strings.Contains(stdout, "file="+made[1]) {
		t.Errorf("audit log:\n%s", stdout)
	}
	objects, err := s.Objects()
	if err != nil || len(objects) != 2 {
		t.Errorf("objects %v, %v", objects, err)
	}
	s.Kill()
	if p, err = startProcess(dir, environ, serve...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	if _, err := p.await(p.stderr, `level=ERROR msg="backup failed" `); err != nil {
		t.Error(err)
	}
	if _, err := p.await(p.stderr, readyLine); err != nil { // the two lines have no order
		t.Error(err)
	}
	(&testServer{process: p}).stop(t)
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
	p, err := startProcess(dir, environ, "serve", "--db", db, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
		"--log-level", "debug", "--pprof", "--backup-dir", "s3://nursery-backups/plants")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	if _, err := p.await(p.stderr, `msg="backup failed" .*InvalidToken`); err != nil {
		t.Fatal(err)
	}
	_, admin, _ := runIn(
		t, dir, environ, "token", "create", "operator", "--no-expiry", "--db", db, "--scope", operatorScopes)
	c["the token"] = strings.TrimSpace(admin)
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
