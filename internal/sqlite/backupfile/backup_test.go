package backupfile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"plantstore/internal/sqlite"
	"plantstore/internal/sqlite/backupfile"
	"plantstore/internal/sqlite/sqlitetest"
)

var backups = flag.Int("backups", 10, "number of backups of TestBackupUnderLoad")

// TestBackupUnderLoad makes backups while plants are stored, and restores each of them. The restored store has every
// plant that was stored before the backup.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "plants.db")
	e := sqlitetest.Open(t, sqlite.Config{Path: path, Server: true})
	sqlitetest.Fill(t, e, rand.New(rand.NewPCG(2, 2)), 20)
	before, err := backupfile.Verify(t.Context(), path, nil)
	must(t, err)

	// The writer stores 0, 1, 2, … below the ids of fill, which are random.
	var mu sync.Mutex
	stored := int64(0) // guarded by mu
	ctx, stop := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	writing.Go(func() {
		for id := int64(0); ctx.Err() == nil; id += 10 {
			if err := sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(id, 10)); err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			stored = id + 10
			mu.Unlock()
		}
	})
	for i := range *backups {
		mu.Lock()
		storedBefore := stored
		mu.Unlock()
		backup := filepath.Join(dir, fmt.Sprintf("backup%d.db", i))
		m, err := backupfile.Backup(t.Context(), path, backup, "", noProgress)
		must(t, err)
		restored := filepath.Join(dir, fmt.Sprintf("restored%d.db", i))
		r, err := backupfile.Restore(t.Context(), backup, restored, false, noProgress)
		must(t, err)
		if r.MadeAt = m.MadeAt; r != m {
			t.Errorf("restored %+v, want %+v", r, m)
		}
		v, err := backupfile.Verify(t.Context(), restored, nil)
		must(t, err)
		if len(v.Faults) > 0 || v.Plants != m.Plants || m.Plants < before.Plants+storedBefore ||
			(m.Plants-before.Plants)%10 != 0 {
			t.Errorf("backup %d: %+v; stored before it: %d; manifest %+v", i, v, before.Plants+storedBefore, m)
		}
		for _, name := range []string{backup, backup + backupfile.ManifestSuffix, restored} {
			info, err := os.Stat(name)
			must(t, err)
			if info.Mode() != 0o600 {
				t.Errorf("%s: mode %v, want -rw-------", name, info.Mode())
			}
		}
		left, err := filepath.Glob(filepath.Join(dir, ".*"))
		if err != nil || len(left) > 0 {
			t.Errorf("temporary files were not removed: %v, %v", left, err)
		}
	}
	stop()
	writing.Wait()
	must(t, e.Close())
}

// TestBackupRefuses tests the errors of a backup, and that a failed backup leaves no file.
func TestBackupRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, to := filepath.Join(dir, "plants.db"), filepath.Join(dir, "to", "backup.db")
	must(t, os.Mkdir(filepath.Dir(to), 0o700))
	e := sqlitetest.Open(t, sqlite.Config{Path: path})
	must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(0, 10)))
	must(t, e.Close())
	mustWrite(t, filepath.Join(dir, "empty.db"), "")
	mustWrite(t, filepath.Join(dir, "text.db"), strings.Repeat("text", 1000))
	mustWrite(t, filepath.Join(dir, "existing.db"), "")

	for _, test := range []struct{ from, to, want string }{
		{"missing.db", to, "stat DIR/missing.db: no such file or directory"},
		{"empty.db", to, "DIR/empty.db contains no plant store yet"},
		{"text.db", to, "DIR/text.db is not a plant store: it is not an SQLite database"},
		{"plants.db", filepath.Join(dir, "existing.db"), "DIR/existing.db already exists; use a new file"},
		{"plants.db", path, "DIR/plants.db already exists; use a new file"},
		{
			"plants.db", filepath.Join(dir, "no", "backup.db"),
			"create a file in DIR/no: no such file or directory; create the directory, or use another one",
		},
	} {
		_, err := backupfile.Backup(t.Context(), filepath.Join(dir, test.from), test.to, "", noProgress)
		if err == nil {
			t.Errorf("%s: want %s", test.from, test.want)
			continue
		}
		got := strings.ReplaceAll(err.Error(), dir, "DIR")
		if got != test.want {
			t.Errorf("got  %s\nwant %s", got, test.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := backupfile.Backup(ctx, path, to, "", func(int64, int64) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	if left, err := os.ReadDir(filepath.Dir(to)); err != nil || len(left) > 0 {
		t.Errorf("files left: %v, %v", left, err)
	}
}

// TestRestoreRefuses shows that Restore changes nothing for a backup that contradicts its manifest, and replaces an
// existing store only if replace is set, and a served store never.
func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	source, backup := filepath.Join(dir, "source.db"), filepath.Join(dir, "backup.db")
	path := filepath.Join(dir, "plants.db")
	e := sqlitetest.Open(t, sqlite.Config{Path: source})
	must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(0, 10)))
	must(t, e.Close())
	m, err := backupfile.Backup(t.Context(), source, backup, "", noProgress)
	must(t, err)
	e = sqlitetest.Open(t, sqlite.Config{Path: path})
	must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(100, 3)))
	must(t, e.Close())
	good, err := os.ReadFile(backup)
	must(t, err)
	manifest, err := os.ReadFile(backup + ".json")
	must(t, err)
	old := sqlitetest.ReadFiles(t, path)

	for _, test := range []struct {
		name     string
		file     string
		manifest string // "": none
		want     string
	}{
		{
			"no manifest", string(good), "",
			"BACKUP.json: the manifest is missing, so nothing shows whether the backup is complete",
		},
		{"no JSON", string(good), "plants", "BACKUP.json is not the manifest of a backup: "},
		{
			"another format", string(good), `{"format": 2}`,
			"BACKUP.json has format 2, and this plantstore supports only format 1: use the plantstore that made the backup",
		},
		{"truncated", string(good[:len(good)-1]), string(manifest), "it has "},
		{
			"a flipped bit", string(good[:5000]) + string(good[5000]^1) + string(good[5001:]), string(manifest),
			"the backup is damaged: its SHA-256 is ",
		},
		{
			"another number", string(good), strings.Replace(string(manifest), `"plants": 10`, `"plants": 11`, 1),
			"the backup is damaged: it has 10 plants up to commit 1 of store ",
		},
	} {
		mustWrite(t, backup, test.file)
		mustRemove(t, backup+".json")
		if test.manifest != "" {
			mustWrite(t, backup+".json", test.manifest)
		}
		_, err := backupfile.Restore(t.Context(), backup, path, true, noProgress)
		want := strings.ReplaceAll(test.want, "BACKUP", backup)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", test.name, err, want)
		}
		now := sqlitetest.ReadFiles(t, path)
		if string(now[""]) != string(old[""]) || string(now["-mark"]) != string(old["-mark"]) {
			t.Errorf("%s: the store was changed", test.name)
		}
	}
	mustWrite(t, backup, string(good))
	mustWrite(t, backup+".json", string(manifest))

	if _, err := backupfile.Restore(t.Context(), backup, path, false, noProgress); !errors.Is(err, backupfile.ErrExists) {
		t.Errorf("over an existing store: %v, want %v", err, backupfile.ErrExists)
	}
	link := filepath.Join(dir, "link.db")
	must(t, os.Symlink("missing.db", link))
	if _, err := backupfile.Restore(t.Context(), backup, link, false, noProgress); !errors.Is(err, backupfile.ErrExists) {
		t.Errorf("over a link to nothing: %v, want %v", err, backupfile.ErrExists)
	}
	server := sqlitetest.Open(t, sqlite.Config{Path: path, Server: true})
	_, err = backupfile.Restore(t.Context(), backup, path, true, noProgress)
	if err == nil || !strings.Contains(err.Error(), "another plantstore serves") {
		t.Errorf("over a served store: %v", err)
	}
	must(t, sqlitetest.Insert(t.Context(), server, sqlitetest.Batch(200, 3)))
	killed := sqlitetest.ReadFiles(t, path)
	must(t, server.Close())

	killed.WriteTo(t, path) // as after a kill: its WAL must not change the restored store
	r, err := backupfile.Restore(t.Context(), backup, path, true, noProgress)
	must(t, err)
	if r != m {
		var text string
		if b, err := json.Marshal(r); err == nil {
			text = string(b)
		}
		t.Errorf("restored %s, want %+v", text, m)
	}
	v, err := backupfile.Verify(t.Context(), path, nil)
	if err != nil || len(v.Faults) > 0 || v.Plants != 10 {
		t.Errorf("restored: %+v, %v", v, err)
	}
	e = sqlitetest.Open(t, sqlite.Config{Path: path, Server: true})
	must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(300, 1)))
	must(t, e.Close())
}

// TestRestoreBesideNewStore shows that a restore without replace changes no file of a store that appears while the
// backup is copied.
func TestRestoreBesideNewStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, backup := filepath.Join(dir, "plants.db"), filepath.Join(dir, "backup.db")
	e := sqlitetest.Open(t, sqlite.Config{Path: path, Server: true})
	must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(0, 10)))
	_, err := backupfile.Backup(t.Context(), path, backup, "", noProgress)
	must(t, err)
	killed := sqlitetest.ReadFiles(t, path)
	must(t, e.Close())
	if len(killed["-wal"]) == 0 || len(killed["-mark"]) == 0 {
		t.Fatal("the store has no WAL or no mark, so this test shows nothing")
	}
	for suffix := range killed {
		mustRemove(t, path+suffix)
	}

	appear := sync.OnceFunc(func() { killed.WriteTo(t, path) })
	_, err = backupfile.Restore(t.Context(), backup, path, false, func(int64, int64) { appear() })
	if !errors.Is(err, backupfile.ErrExists) {
		t.Errorf("got %v, want %v", err, backupfile.ErrExists)
	}
	if !maps.EqualFunc(killed, sqlitetest.ReadFiles(t, path), bytes.Equal) {
		t.Error("the restore has changed a file of the store")
	}
}

// TestRestoreFailsAfterCheckpoint shows that a restore that fails after it has removed the old store's WAL has lost
// none of its plants.
func TestRestoreFailsAfterCheckpoint(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, backup := filepath.Join(dir, "plants.db"), filepath.Join(dir, "backup.db")
	e := sqlitetest.Open(t, sqlite.Config{Path: path, Server: true})
	must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(0, 10)))
	_, err := backupfile.Backup(t.Context(), path, backup, "", noProgress)
	must(t, err)
	must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(10, 20)))
	killed := sqlitetest.ReadFiles(t, path)
	must(t, e.Close())
	killed.WriteTo(t, path)

	mustRemove(t, path+"-mark")
	must(t, os.Mkdir(path+"-mark", 0o700)) // cannot be removed; restore removes the WAL first
	mustWrite(t, filepath.Join(path+"-mark", "file"), "")
	if _, err := backupfile.Restore(t.Context(), backup, path, true, noProgress); err == nil {
		t.Fatal("Restore succeeded")
	}
	if _, err := os.Stat(path + "-wal"); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the WAL exists, so this test shows nothing: %v", err)
	}
	mustRemove(t, path+"-mark")
	v, err := backupfile.Verify(t.Context(), path, nil)
	if err != nil || len(v.Faults) > 0 || v.Plants != 30 {
		t.Errorf("the old store: %+v, %v, want its 30 plants", v, err)
	}
}
