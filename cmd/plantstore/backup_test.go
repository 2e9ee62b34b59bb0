package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// A terminal is neither a place for a backup nor where one comes from.
func TestBackupRefusesTerminal(t *testing.T) {
	t.Parallel()
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	db := filepath.Join(t.TempDir(), "a.db")
	var out, stderr bytes.Buffer
	if code := run(t.Context(), []string{"token", "create", "x", "--no-expiry", "--create", "--db", db}, nil, nil, &out, &stderr); code != exitOK {
		t.Fatal(code, stderr.String())
	}
	stderr.Reset()
	code := run(t.Context(), []string{"backup", "-", "--db", db}, nil, nil, terminal, &stderr)
	if want := "plantstore: standard output is a terminal; redirect it to a pipe or a file\n"; code != exitUsage || stderr.String() != want {
		t.Errorf("backup: got %d and %q, want 2 and %q", code, &stderr, want)
	}
	stderr.Reset()
	code = run(t.Context(), []string{"restore", "-", "--db", db + "2"}, nil, terminal, &out, &stderr)
	if want := "plantstore: standard input is a terminal; pipe a backup into it or name a file\n"; code != exitUsage || stderr.String() != want {
		t.Errorf("restore: got %d and %q, want 2 and %q", code, &stderr, want)
	}
}
