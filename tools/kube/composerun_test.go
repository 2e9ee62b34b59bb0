package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"plantstore/internal/postgres/pgtest"
)

// TestComposeRun runs Plant Store with the variables of its service, on a PostgreSQL server without TLS, and Prometheus
// with the configuration of its service. Prometheus must read the metrics with the token and the name of the service.
func TestComposeRun(t *testing.T) {
	t.Parallel()
	need(t, "prometheus")
	if !inside(t) {
		return
	}
	hosts(t, podAddress+" plantstore\n127.0.0.1 postgres localhost\n")
	// As in the image of PostgreSQL: a password over TCP.
	access := readableFile(t, "access.conf", "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
	server, err := pgtest.Start(t.Context(), "listen_addresses=127.0.0.1", "hba_file="+access)
	if errors.Is(err, pgtest.ErrMissing) {
		need(t, "pg_ctlcluster")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	address, err := server.Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sql(t, address, "CREATE ROLE plants LOGIN PASSWORD 'geheim'")
	sql(t, address, "CREATE DATABASE plants OWNER plants")

	p, secrets := project(t), t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(secrets, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("pgpass", "postgres:5432:plants:plants:geheim\n")
	var env []string
	store := p.Services["plantstore"]
	for key, value := range store.Environment {
		env = append(env, key+"="+strings.Replace(*value, "/run/secrets", secrets, 1))
	}
	serve := startProgram(t, env, buildProgram(t), "serve")
	until(t, serve, func() error { return get(t, "http://"+podAddress+":8081/readyz", nil) })
	if out, err := programOutput(t, env, "health"); err != nil { // the health check of the service
		t.Errorf("plantstore health: %v: %s", err, out)
	}
	token, err := programOutput(t, env, "token", "create", "prometheus", "--scope", "metrics", "--expires", "365d")
	if err != nil {
		t.Fatalf("plantstore token create: %v", err)
	}
	write("prometheus-token", token)

	prometheus := p.Services["prometheus"]
	config, err := os.ReadFile(source(t, &prometheus, "/etc/prometheus/prometheus.yml"))
	if err != nil {
		t.Fatal(err)
	}
	const rules = "/etc/prometheus/plantstore.yml"
	write("prometheus.yml", strings.NewReplacer("/run/secrets", secrets, rules, source(t, &prometheus, rules),
		"scrape_interval: 15s", "scrape_interval: 1s").Replace(string(config)))
	args := make([]string, 0, len(prometheus.Command))
	for _, arg := range prometheus.Command {
		arg = strings.Replace(arg, "/etc/prometheus/prometheus.yml", filepath.Join(secrets, "prometheus.yml"), 1)
		args = append(args, strings.Replace(arg, "path=/prometheus", "path="+t.TempDir(), 1))
	}
	monitor := startProgram(t, os.Environ(), "prometheus", args...)
	until(t, monitor, func() error { return scraped(t, `up{job="plantstore",instance="plantstore:8081"} == 1`) })
	var loaded struct {
		Data struct{ Groups []json.RawMessage }
	}
	if err := get(t, "http://127.0.0.1:9090/api/v1/rules", &loaded); err != nil || len(loaded.Data.Groups) == 0 {
		t.Errorf("Prometheus has %d groups of rules, %v", len(loaded.Data.Groups), err)
	}
}

// hosts replaces /etc/hosts in the mount namespace of the test.
func hosts(t *testing.T, text string) {
	t.Helper()
	if err := syscall.Mount(readableFile(t, "hosts", text), "/etc/hosts", "", syscall.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
}

// readableFile writes a file that every user can read, and returns its path.
func readableFile(t *testing.T, name, text string) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, name)
	err := os.WriteFile(path, []byte(text), 0o644)
	if err := errors.Join(err, os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	return path
}

// startProgram starts a program. The end of the test kills it.
func startProgram(t *testing.T, env []string, path string, args ...string) *running {
	t.Helper()
	c := &running{cmd: exec.Command(path, args...), ended: make(chan struct{})}
	c.cmd.Env, c.cmd.Stderr, c.cmd.Dir = env, &c.stderr, t.TempDir()
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { c.err = c.cmd.Wait(); close(c.ended) }()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill() // or it has ended
		<-c.ended
	})
	return c
}

// programOutput returns the standard output of a command of the program.
func programOutput(t *testing.T, env []string, args ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), buildProgram(t), args...)
	command.Env = env
	out, err := command.Output()
	return string(out), err
}

// get decodes the JSON body of a response with the status 200.
func get(t *testing.T, address string, into any) error {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", address, response.Status, body)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(body, into)
}

// scraped returns nil if an expression has a result in Prometheus.
func scraped(t *testing.T, expression string) error {
	t.Helper()
	var result struct {
		Data struct{ Result []json.RawMessage }
	}
	if err := get(t, "http://127.0.0.1:9090/api/v1/query?query="+url.QueryEscape(expression), &result); err != nil {
		return err
	}
	if len(result.Data.Result) != 1 {
		return fmt.Errorf("%s has %d results", expression, len(result.Data.Result))
	}
	return nil
}
