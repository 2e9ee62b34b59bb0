package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"plantstore/internal/config"
)

// TestBackupRefusesTerminal tests that backup does not write to a terminal and that restore does not read from one.
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
	create := []string{"token", "create", "x", "--no-expiry", "--create", "--db", db}
	if code := run(t.Context(), create, config.NewEnvironment(nil), nil, &out, &stderr); code != exitOK {
		t.Fatal(code, stderr.String())
	}
	stderr.Reset()
	code := run(t.Context(), []string{"backup", "-", "--db", db}, config.NewEnvironment(nil), nil, terminal, &stderr)
	want := "plantstore: standard output is a terminal; redirect it to a pipe or a file\n"
	if code != exitUsage || stderr.String() != want {
		t.Errorf("backup: got %d and %q, want 2 and %q", code, &stderr, want)
	}
	stderr.Reset()
	restore := []string{"restore", "-", "--db", db + "2"}
	code = run(t.Context(), restore, config.NewEnvironment(nil), terminal, &out, &stderr)
	want = "plantstore: standard input is a terminal; pipe a backup into it or name a file\n"
	if code != exitUsage || stderr.String() != want {
		t.Errorf("restore: got %d and %q, want 2 and %q", code, &stderr, want)
	}
}
