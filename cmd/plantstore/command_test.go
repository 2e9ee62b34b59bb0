package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"plantstore/internal/config"
)

// TestHelp tests that every command and every flag has a help text, and that --help prints it.
func TestHelp(t *testing.T) {
	t.Parallel()
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		path := cmd.CommandPath()
		if cmd.Short == "" {
			t.Errorf("%s has no short help", path)
		}
		var out, stderr bytes.Buffer
		args := append(strings.Fields(path)[1:], "--help")
		code := run(t.Context(), args, config.NewEnvironment(nil), strings.NewReader(""), &out, &stderr)
		if code != exitOK || stderr.Len() > 0 {
			t.Errorf("%s --help: got %d and %q, want 0 and nothing", path, code, &stderr)
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			_, usage := pflag.UnquoteUsage(f)
			if f.Hidden { // a setting of the server that the command accepts and does not use
				return
			}
			if len(usage) < 5 || !strings.Contains(out.String(), "--"+f.Name) || !strings.Contains(out.String(), usage) {
				t.Errorf("%s --help does not explain --%s", path, f.Name)
			}
		})
		for _, sub := range cmd.Commands() {
			if !strings.Contains(out.String(), sub.Short) {
				t.Errorf("%s --help does not name %s", path, sub.Name())
			}
			check(sub)
		}
	}
	check(newRoot(&program{}))
}

// TestEverySettingHasThreeSources sets every setting by flag, environment and file. config prints the source.
func TestEverySettingHasThreeSources(t *testing.T) {
	t.Parallel()
	other := map[string]string{
		"db": "other.db", "listen": "127.0.0.1:1", "admin-listen": "127.0.0.1:1", "base-url": "https://plants.example",
		"cors-origins":    "https://plants.example",
		"trusted-proxies": "192.0.2.0/24", "admin-host": "metrics.example", "pprof": "true",
		"tls-cert": "cert.pem", "tls-key": "key.pem",
		"client-ca": "authority.pem", "insecure-listen": "true",
		"acme-domain": "plants.example", "acme-email": "operator@plants.example",
		"acme-directory":          "https://ca.example/directory",
		"connections-per-address": "7",
		"log-format":              "json", "log-level": "warn", "body-max": "2KiB",
		"request-timeout": "7s",
		"auth-failures":   "7", "credential-rate": "7", "credential-concurrency": "7",
		"backup-dir": "copies", "backup-every": "1d7h", "backup-keep": "3", "backup-lag": "7s",
		"backup-sync": "true", "restore-missing": "true", "take-over": "0123456789abcdef",
		"standby": "true", "failover": "7s",
		"require-sync-standby": "true",
		"audit-keep":           "7d",
		"oidc-issuer":          "https://login.example", "oidc-audience": "https://plants.example",
		"oidc-scopes": "plants.write=plants:create", "oidc-scope-claim": "scp", "oidc-name-claim": "client_id",
		"console-url": "https://console.example", "oidc-client-id": "console", "oidc-client-secret-file": "client.secret",
		"oidc-client-scopes": "openid", "oidc-console-claim": "roles", "oidc-console-grants": "gardeners=plants:read",
		"webhook-url": "https://plants.example/events", "webhook-secret-file": "webhook.secret",
		"webhook-allow-private": "true", "webhook-rate": "7",
		"heartbeat-url": "https://checks.example/xxxxx", "warning-url": "https://plants.example/xxxxx",
	}
	acme := []string{"--acme-domain=plants.example", "--acme-email=operator@plants.example"}
	needed := map[string][]string{ // settings that a setting requires
		"acme-domain": acme[1:], "acme-email": acme[:1], "acme-directory": acme,
		"tls-cert": {"--tls-key=key.pem"}, "tls-key": {"--tls-cert=cert.pem"},
		"client-ca":   {"--tls-cert=cert.pem", "--tls-key=key.pem"},
		"backup-sync": {"--backup-dir=copies"}, "restore-missing": {"--backup-dir=copies"},
		"take-over": {"--backup-dir=copies"}, "standby": {"--backup-dir=copies"}, "failover": {"--backup-dir=copies"},
	}
	for _, row := range new(config.Settings).AllSettings() {
		name := row.Name
		value, ok := other[name]
		if !ok {
			if name != "config" {
				t.Errorf("the test lacks a value of %s", name)
			}
			continue
		}
		file := t.TempDir() + "/settings.yaml"
		writeFileText(t, file, name+": "+value+"\n")
		for source, c := range map[string]struct{ args, environ []string }{
			"--" + name:           {args: []string{"--" + name + "=" + value}},
			config.Variable(name): {environ: []string{config.Variable(name) + "=" + value}},
			file:                  {args: []string{"--config", file}},
		} {
			var out, stderr bytes.Buffer
			args := slices.Concat([]string{"config"}, needed[name], c.args)
			code := run(t.Context(), args, config.NewEnvironment(c.environ), nil, &out, &stderr)
			if code != exitOK || !strings.Contains(out.String(), value) || !strings.Contains(out.String(), "# "+source+"\n") {
				t.Errorf("%s by %s: got %d and %s%s", name, source, code, &out, &stderr)
			}
		}
	}
}

// blockedReader is a reader without input, such as an idle terminal.
type blockedReader struct {
	reading chan struct{} // closed by Read
	end     <-chan struct{}
}

func (b blockedReader) Read([]byte) (int, error) {
	close(b.reading)
	<-b.end
	return 0, io.EOF
}

// blockedWriter is a writer such as a full pipe that is not read.
type blockedWriter struct {
	writing chan struct{} // closed by Write
	end     <-chan struct{}
}

func (b blockedWriter) Write([]byte) (int, error) {
	close(b.writing)
	<-b.end
	return 0, io.ErrClosedPipe
}

func TestInterruptEndsWaitForReader(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := dir + "/a.db"
	writeFileText(t, dir+"/plants.jsonl", somePlants(5000))
	var out, stderr bytes.Buffer
	load := []string{"import", dir + "/plants.jsonl", "--db", db, "--create"}
	if code := run(t.Context(), load, config.NewEnvironment(nil), nil, &out, &stderr); code != exitOK {
		t.Fatal(code, stderr.String())
	}
	for _, args := range [][]string{
		{"export", "--db", db},
		{"list", "--json", "--db", db},
		{"backup", "-", "--db", db},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		stdout := blockedWriter{writing: make(chan struct{}), end: t.Context().Done()}
		go func() { // ends with the first write
			<-stdout.writing
			cancel()
		}()
		var stderr bytes.Buffer
		code := run(ctx, args, config.NewEnvironment(nil), nil, stdout, &stderr)
		if code != exitInterrupted || stderr.String() != "plantstore: interrupted\n" {
			t.Errorf("%s: got %d and %q, want 130 and an interrupt", args, code, &stderr)
		}
	}
}

func TestInterruptEndsWaitForInput(t *testing.T) {
	t.Parallel()
	db := t.TempDir() + "/a.db"
	for _, args := range [][]string{
		{"import", "-", "--format", "csv", "--create", "--db", db},
		{"import", "-", "--format", "json", "--create", "--db", db, "--rejects", t.TempDir() + "/rejects"},
		{"token", "revoke", "--token-file", "-", "--db", db},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		stdin := blockedReader{reading: make(chan struct{}), end: t.Context().Done()}
		go func() { // ends with the first read
			<-stdin.reading
			cancel()
		}()
		var out, stderr bytes.Buffer
		code := run(ctx, args, config.NewEnvironment(nil), stdin, &out, &stderr)
		if code != exitInterrupted || !strings.HasSuffix(stderr.String(), "plantstore: interrupted\n") {
			t.Errorf("%s: got %d and %q, want 130 and an interrupt", args, code, &stderr)
		}
	}
}

// TestInterruptEndsOpen tests that an interrupt ends the wait for the writer of a FIFO.
func TestInterruptEndsOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo := dir + "/in.csv"
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, args := range [][]string{
		{"import", fifo, "--create", "--db", dir + "/a.db"},
		{"token", "revoke", "--token-file", fifo, "--db", dir + "/a.db"},
		{"config", "--config", fifo},
	} {
		var out, stderr bytes.Buffer
		code := run(ctx, args, config.NewEnvironment(nil), nil, &out, &stderr)
		if code != exitInterrupted || stderr.String() != "plantstore: interrupted\n" {
			t.Errorf("%s: got %d and %q, want 130 and an interrupt", args, code, &stderr)
		}
	}
	f, err := os.OpenFile(fifo, os.O_RDWR, 0) // ends the goroutines that wait for a writer
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

// TestConfigLimit tests the size limit of a settings file, with a file of unknown size.
func TestConfigLimit(t *testing.T) {
	t.Parallel()
	var out, stderr bytes.Buffer
	code := run(t.Context(), []string{"config", "--config", "/dev/zero"}, config.NewEnvironment(nil), nil, &out, &stderr)
	const want = "plantstore: config: /dev/zero is larger than 1048576 bytes; check --config\n"
	if code != exitUsage || stderr.String() != want {
		t.Errorf("got %d and %q, want 2 and %q", code, &stderr, want)
	}
}

// TestExamples tests that every command has examples, and that each is a valid call of the command.
func TestExamples(t *testing.T) {
	t.Parallel()
	groups := []string{ // print their help
		"plantstore", "plantstore token", "plantstore audit", "plantstore webhook", "plantstore completion",
	}
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		path := cmd.CommandPath()
		if cmd.Example == "" && !slices.Contains(groups, path) && cmd.Name() != "help" {
			t.Errorf("%s has no example", path)
		}
		for line := range strings.Lines(cmd.Example) {
			checkExample(t, path, line)
		}
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	check(newRoot(&program{}))
}

// checkExample parses the call of the program in a shell line.
func checkExample(t *testing.T, path, line string) {
	t.Helper()
	before, call, ok := strings.Cut(line, "plantstore ")
	call = strings.TrimSpace(strings.FieldsFunc(call, func(r rune) bool { return strings.ContainsRune("|>#)", r) })[0])
	if !ok || !strings.HasPrefix(line, "  ") {
		t.Errorf("%s: the example %q is not a call of the program, indented by two spaces", path, line)
		return
	}
	before = strings.TrimSpace(before)
	if before != "" && !strings.HasSuffix(before, "|") && !strings.HasSuffix(before, "(") {
		t.Errorf("%s: the example %q begins with %q", path, line, before)
	}
	cmd, args, err := newRoot(&program{}).Find(strings.Fields(strings.ReplaceAll(call, "'", "")))
	if err == nil {
		err = cmd.ParseFlags(args)
	}
	if err == nil {
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	if err != nil || cmd.CommandPath() != path {
		t.Errorf("%s: the example %q is a call of %s: %v", path, line, cmd.CommandPath(), err)
	}
}
