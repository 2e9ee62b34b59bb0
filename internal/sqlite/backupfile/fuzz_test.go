package backupfile_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/sqlite/backupfile"
)

// FuzzManifest reads any text as a manifest. A manifest that is read has the supported format, and is the same after it
// was written.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"format":1,"made_at":"2026-01-02T03:04:05Z","store":"00ff","commits":2,"plants":1,"bytes":4096,` +
		`"sha256":"00"}`))
	f.Add([]byte(`{"format":2}`))
	f.Add([]byte(`{"format":1,"bytes":1e3,"made_at":"0001-01-01T00:00:00-24:00"}`))
	f.Add([]byte(`{"format":1,"made_at":"9999-12-31T23:00:00-23:00"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		path := filepath.Join(dir, "in.json")
		must(t, os.WriteFile(path, text, 0o600))
		m, err := backupfile.ReadManifest(path)
		if err != nil {
			return
		}
		if m.Format != 1 {
			t.Errorf("ReadManifest(%q): format %d", text, m.Format)
		}
		again := filepath.Join(dir, "out.json")
		must(t, m.Write(again))
		got, err := backupfile.ReadManifest(again)
		if diff := cmp.Diff(m, got); diff != "" || err != nil {
			t.Errorf("ReadManifest(%q), written and read again: %v (-first +again):\n%s", text, err, diff)
		}
	})
}
