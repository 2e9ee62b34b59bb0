package backupfile_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"plantstore/internal/sqlite"
	"plantstore/internal/sqlite/backupfile"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/sqlite/sqlitetest"
)

// firstWrite calls do at its first write.
type firstWrite struct {
	bytes.Buffer
	do func()
}

func (w *firstWrite) Write(p []byte) (int, error) {
	if w.do != nil {
		w.do()
		w.do = nil
	}
	return w.Buffer.Write(p)
}

// TestBackupToSlowReader shows that the WAL does not grow during a slow BackupTo, that the temporary file has no name,
// and that the stream is a complete backup.
func TestBackupToSlowReader(t *testing.T) {
	t.Parallel()
	dir, spool := t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "plants.db")
	e := sqlitetest.Open(t, sqlite.Config{Path: path, Server: true})
	must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(0, 10)))
	out := &firstWrite{}
	out.do = func() {
		if names, err := os.ReadDir(spool); err != nil || len(names) > 0 {
			t.Errorf("the temporary directory has %v, %v, want no file", names, err)
		}
		must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(100, 10)))
		c, err := sqlite3.Open(path)
		must(t, err)
		if busy, err := c.QueryInt("PRAGMA wal_checkpoint(TRUNCATE)"); busy != 0 || err != nil {
			t.Errorf("could not truncate the WAL: %d, %v", busy, err)
		}
		must(t, c.Close())
	}
	m, err := backupfile.BackupTo(t.Context(), path, out, spool, nil)
	must(t, err)
	if m.Plants != 10 || m.Bytes != int64(out.Len()) {
		t.Errorf("got %+v, want 10 plants in %d bytes", m, out.Len())
	}
	restored := filepath.Join(dir, "restored.db")
	in := func() io.Reader { return bytes.NewReader(out.Bytes()) }
	got, err := backupfile.RestoreFrom(t.Context(), in(), &m, restored, false, nil, backupfile.Later{})
	must(t, err)
	if got != m {
		t.Errorf("restored %+v, want %+v", got, m)
	}
	alone, err := backupfile.RestoreFrom(t.Context(), in(), nil, restored, true, nil, backupfile.Later{})
	must(t, err)
	if alone.MadeAt = m.MadeAt; alone != m {
		t.Errorf("restored without a manifest %+v, want %+v", alone, m)
	}
}
