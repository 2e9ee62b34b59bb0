package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"plantstore/internal/config"
)

// Another user may choose the name of a file, for instance in a directory of backups.
func TestFileNamesAreEscaped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := func(end string) string { return filepath.Join(dir, "a\x1b[31m\n\u009b\u202e"+end) }
	db, backup := name(".db"), name("backup.db")
	for _, args := range [][]string{
		{"token", "create", "nursery", "--no-expiry", "--create", "--db", db, "-o", filepath.Join(dir, "token")},
		{"verify", db},
		{"backup", backup, "--db", db},
		{"verify", backup},
		{"restore", backup, "--db", name("restored.db")},
		{"migrate", "--db", db},
	} {
		var out, stderr bytes.Buffer
		if code := run(t.Context(), args, config.NewEnvironment(nil), nil, &out, &stderr); code != exitOK {
			t.Fatalf("%q: %d, %s", args, code, &stderr)
		}
		if text := out.String(); strings.Count(text, "\n") > 1 || strings.ContainsAny(text, "\x1b\u009b\u202e") {
			t.Errorf("%q printed %q", args, text)
		}
	}
}
