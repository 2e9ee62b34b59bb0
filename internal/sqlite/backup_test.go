package sqlite_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/sqlite"
)

var backups = flag.Int("backups", 10, "backups that TestBackupUnderLoad makes")

func noProgress(int64, int64) {}

// TestBackupUnderLoad makes backups while plants are stored, restores each
// elsewhere, and looks for everything in it that was stored before it began.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "plants.db")
	e := mustOpen(t, sqlite.Config{Path: path, Server: true})
	fill(t, e, rand.New(rand.NewPCG(2, 2)), 20)
	before, err := sqlite.Verify(t.Context(), path, nil)
	must(t, err)

	// The writer stores 0, 1, 2, … below the ids of fill, which are random.
	var mu sync.Mutex
	stored := int64(0) // guarded by mu
	ctx, stop := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	writing.Go(func() {
		for id := int64(0); ctx.Err() == nil; id += 10 {
			if err := insertBatch(t.Context(), e, batchOf(id, 10)); err != nil {
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
		atLeast := stored
		mu.Unlock()
		backup := filepath.Join(dir, fmt.Sprintf("backup%d.db", i))
		m, err := sqlite.Backup(t.Context(), path, backup, noProgress)
		must(t, err)
		restored := filepath.Join(dir, fmt.Sprintf("restored%d.db", i))
		r, err := sqlite.Restore(t.Context(), backup, restored, false, noProgress)
		must(t, err)
		if r.MadeAt = m.MadeAt; r != m {
			t.Errorf("restored %+v, want %+v", r, m)
		}
		v, err := sqlite.Verify(t.Context(), restored, nil)
		must(t, err)
		if len(v.Faults) > 0 || v.Plants != m.Plants || m.Plants < before.Plants+atLeast || (m.Plants-before.Plants)%10 != 0 {
			t.Errorf("backup %d: %+v; stored before it: %d; manifest %+v", i, v, before.Plants+atLeast, m)
		}
		for _, name := range []string{backup, backup + sqlite.ManifestSuffix, restored} {
			info, err := os.Stat(name)
			must(t, err)
			if info.Mode() != 0o600 {
				t.Errorf("%s: mode %v, want that only its owner can read it", name, info.Mode())
			}
		}
		left, err := filepath.Glob(filepath.Join(dir, ".*"))
		if err != nil || len(left) > 0 {
			t.Errorf("temporary files stay: %v, %v", left, err)
		}
	}
	stop()
	writing.Wait()
	must(t, e.Close())
}

// TestBackupRefuses shows what a backup says when it cannot be, and that it
// leaves nothing behind.
func TestBackupRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, to := filepath.Join(dir, "plants.db"), filepath.Join(dir, "to", "backup.db")
	must(t, os.Mkdir(filepath.Dir(to), 0o700))
	e := mustOpen(t, sqlite.Config{Path: path})
	must(t, insertBatch(t.Context(), e, batchOf(0, 10)))
	must(t, e.Close())
	mustWrite(t, filepath.Join(dir, "empty.db"), "")
	mustWrite(t, filepath.Join(dir, "text.db"), strings.Repeat("text", 1000))
	mustWrite(t, filepath.Join(dir, "there.db"), "")

	for _, test := range []struct{ from, to, want string }{
		{"missing.db", to, "stat DIR/missing.db: no such file or directory"},
		{"empty.db", to, "DIR/empty.db contains no plant store yet"},
		{"text.db", to, "DIR/text.db is not a plant store: it is not an SQLite database"},
		{"plants.db", filepath.Join(dir, "there.db"), "DIR/there.db already exists; use a new file"},
		{"plants.db", path, "DIR/plants.db already exists; use a new file"},
		{"plants.db", filepath.Join(dir, "no", "backup.db"), "the directory of the backup: stat DIR/no: no such file or directory"},
	} {
		_, err := sqlite.Backup(t.Context(), filepath.Join(dir, test.from), test.to, noProgress)
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
	if _, err := sqlite.Backup(ctx, path, to, func(int64, int64) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Errorf("broken off: %v", err)
	}
	if left, err := os.ReadDir(filepath.Dir(to)); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v, %v", left, err)
	}
}

// TestRestoreRefuses shows that a backup which is not what its manifest says
// changes nothing, and that a store is replaced only as it may be.
func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	source, backup, path := filepath.Join(dir, "source.db"), filepath.Join(dir, "backup.db"), filepath.Join(dir, "plants.db")
	e := mustOpen(t, sqlite.Config{Path: source})
	must(t, insertBatch(t.Context(), e, batchOf(0, 10)))
	must(t, e.Close())
	m, err := sqlite.Backup(t.Context(), source, backup, noProgress)
	must(t, err)
	e = mustOpen(t, sqlite.Config{Path: path})
	must(t, insertBatch(t.Context(), e, batchOf(100, 3)))
	must(t, e.Close())
	good, err := os.ReadFile(backup)
	must(t, err)
	manifest, err := os.ReadFile(backup + ".json")
	must(t, err)
	old := readFiles(t, path)

	for _, test := range []struct {
		name     string
		file     string
		manifest string // "": none
		want     string
	}{
		{"no manifest", string(good), "", "BACKUP.json: the manifest is missing, so nothing shows whether the backup is complete"},
		{"no JSON", string(good), "plants", "BACKUP.json is not the manifest of a backup: "},
		{"another format", string(good), `{"format": 2}`, "BACKUP.json has format 2, and this plantstore supports only format 1: use the plantstore that made the backup"},
		{"cut", string(good[:len(good)-1]), string(manifest), "BACKUP is damaged: it has "},
		{"a bit", string(good[:5000]) + string(good[5000]^1) + string(good[5001:]), string(manifest), "BACKUP is damaged: its SHA-256 is "},
		{"another number", string(good), strings.Replace(string(manifest), `"plants": 10`, `"plants": 11`, 1), "BACKUP is damaged: it has 10 plants up to commit 1 of store "},
	} {
		mustWrite(t, backup, test.file)
		mustRemove(t, backup+".json")
		if test.manifest != "" {
			mustWrite(t, backup+".json", test.manifest)
		}
		_, err := sqlite.Restore(t.Context(), backup, path, true, noProgress)
		want := strings.ReplaceAll(test.want, "BACKUP", backup)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", test.name, err, want)
		}
		if now := readFiles(t, path); string(now[""]) != string(old[""]) || string(now["-mark"]) != string(old["-mark"]) {
			t.Errorf("%s: the store was changed", test.name)
		}
	}
	mustWrite(t, backup, string(good))
	mustWrite(t, backup+".json", string(manifest))

	if _, err := sqlite.Restore(t.Context(), backup, path, false, noProgress); !errors.Is(err, sqlite.ErrExists) {
		t.Errorf("onto a store: %v, want %v", err, sqlite.ErrExists)
	}
	server := mustOpen(t, sqlite.Config{Path: path, Server: true})
	if _, err := sqlite.Restore(t.Context(), backup, path, true, noProgress); err == nil || !strings.Contains(err.Error(), "another plantstore serves") {
		t.Errorf("under a server: %v", err)
	}
	must(t, insertBatch(t.Context(), server, batchOf(200, 3))) // it is not disturbed
	killed := readFiles(t, path)
	must(t, server.Close())

	killed.writeTo(t, path) // as if it had been killed: its WAL must not go into what is restored
	r, err := sqlite.Restore(t.Context(), backup, path, true, noProgress)
	must(t, err)
	if r != m {
		var text string
		if b, err := json.Marshal(r); err == nil {
			text = string(b)
		}
		t.Errorf("restored %s, want %+v", text, m)
	}
	v, err := sqlite.Verify(t.Context(), path, nil)
	if err != nil || len(v.Faults) > 0 || v.Plants != 10 {
		t.Errorf("restored: %+v, %v", v, err)
	}
	e = mustOpen(t, sqlite.Config{Path: path, Server: true}) // as the store it is
	must(t, insertBatch(t.Context(), e, batchOf(300, 1)))
	must(t, e.Close())
}

// TestRestoreFailsHalfWay shows that a restore which fails when the old store's
// WAL is gone already has not lost what was in it.
func TestRestoreFailsHalfWay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, backup := filepath.Join(dir, "plants.db"), filepath.Join(dir, "backup.db")
	e := mustOpen(t, sqlite.Config{Path: path, Server: true})
	must(t, insertBatch(t.Context(), e, batchOf(0, 10)))
	_, err := sqlite.Backup(t.Context(), path, backup, noProgress)
	must(t, err)
	must(t, insertBatch(t.Context(), e, batchOf(10, 20)))
	killed := readFiles(t, path)
	must(t, e.Close())
	killed.writeTo(t, path)

	mustRemove(t, path+"-mark")
	must(t, os.Mkdir(path+"-mark", 0o700)) // what cannot be removed, after the WAL
	mustWrite(t, filepath.Join(path+"-mark", "file"), "")
	if _, err := sqlite.Restore(t.Context(), backup, path, true, noProgress); err == nil {
		t.Fatal("Restore succeeded")
	}
	if _, err := os.Stat(path + "-wal"); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the WAL is still there, so this test shows nothing: %v", err)
	}
	mustRemove(t, path+"-mark")
	v, err := sqlite.Verify(t.Context(), path, nil)
	if err != nil || len(v.Faults) > 0 || v.Plants != 30 {
		t.Errorf("the old store: %+v, %v, want its 30 plants", v, err)
	}
}

// TestStartWritesNothing shows that a server can start on a store that has a
// token without writing, as on a disk that is full.
func TestStartWritesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plants.db")
	e := mustOpen(t, sqlite.Config{Path: path, Server: true})
	first := auth.Token{Name: "first", CreatedAt: time.Now()}
	for i, want := range []bool{true, false} {
		if created, err := e.CreateFirstToken(t.Context(), first); err != nil || created != want {
			t.Errorf("call %d: created %v, %v, want %v", i, created, err, want)
		}
	}
	must(t, e.Close())
	if v, err := sqlite.Verify(t.Context(), path, nil); err != nil || v.Commits != 1 {
		t.Errorf("%+v, %v, want one commit", v, err)
	}
}
