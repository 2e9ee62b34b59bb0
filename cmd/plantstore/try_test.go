package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestTryEnvironment runs try with the settings of another server in the environment: it uses none of them.
func TestTryEnvironment(t *testing.T) {
	t.Parallel()
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "plantstore.yaml")
	writeFileText(t, file, "unknown: setting\n")
	environ := append(cleanEnviron(), fileVariable+"="+file, "TMPDIR="+dir,
		"PLANTSTORE_DB=own.db", "PLANTSTORE_CONFIG=none.yaml",
		"PLANTSTORE_TLS_CERT=none.pem", "PLANTSTORE_BACKUP_DIR=none", "PLANTSTORE_UNKNOWN=1",
		"OTEL_EXPORTER_OTLP_ENDPOINT=wrong")
	p, err := startProcess(dir, environ, "try")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	url, err := p.await(p.stdout, `^curl -i (http://127\.0\.0\.1:\d+)/plants `)
	if err != nil {
		t.Fatal(err)
	}
	token, err := p.await(p.stdout, `Bearer (pst_\w+)`)
	if err != nil {
		t.Fatal(err)
	}
	status, body, err := post(context.Background(), httpClient(1), url[1], token[1], `{"id": 1, "name": "Rosa canina"}`)
	if want := `{"name":"Rosa canina"}`; err != nil || status != 200 || strings.TrimSpace(body) != want {
		t.Errorf("post: got %d, %q, %v, want 200, %q", status, body, err, want)
	}
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code, err := p.wait(); err != nil || code != exitOK {
		t.Errorf("try ended with %d, %v, want 0", code, err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("files after the end: %v, %v, want none", left, err)
	}
}

// TestSamples requires that each sample plant is a row of the excerpt whose sources are known.
func TestSamples(t *testing.T) {
	t.Parallel()
	excerpt, err := os.ReadFile(filepath.Join(excerpts, "ipni.csv"))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for line := range strings.Lines(string(excerpt)) {
		known[line] = true
	}
	for line := range strings.Lines(samples) {
		if !known[line] {
			t.Errorf("the sample plant %q is not in the excerpt", line)
		}
	}
}
