package sqlite_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/audit"
	"plantstore/internal/sqlite"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// schema is the newest schema.
const schema = 7

// olderStore creates a store of schema 1 with three plants and a token. With wal, the last plant
// is only in the WAL, as after a kill of the server.
func olderStore(t testing.TB, wal bool) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "older.db")
	statements, err := os.ReadFile("testdata/schema1.sql")
	must(t, err)
	if !wal {
		mustExec(t, path, string(statements))
		return path
	}
	first, last, ok := strings.Cut(string(statements), `INSERT INTO "plants" VALUES(3,`)
	if !ok {
		t.Fatal("testdata/schema1.sql has no third plant")
	}
	mustExec(t, path, first+"COMMIT; PRAGMA application_id = 1886154356; PRAGMA user_version = 1")
	c, err := sqlite3.Open(path)
	must(t, err)
	c.KeepWAL(true)
	must(t, errors.Join(c.Exec(`BEGIN; INSERT INTO "plants" VALUES(3,`+last), c.Close()))
	if info, err := os.Stat(path + "-wal"); err != nil || info.Size() == 0 {
		t.Fatalf("the store has no WAL: %v", err)
	}
	return path
}

// durable returns the files of a store except the shared memory of its readers.
func durable(t testing.TB, path string) files {
	t.Helper()
	f := readFiles(t, path)
	delete(f, "-shm")
	return f
}

// versionOf returns the schema of a store and keeps its WAL.
func versionOf(t testing.TB, path string) int64 {
	t.Helper()
	c, err := sqlite3.OpenReadOnly(path)
	must(t, err)
	version, err := c.QueryInt("PRAGMA user_version")
	must(t, errors.Join(err, c.Close()))
	return version
}

// wantOlderPlants checks that the engine has the plants and the token of olderStore.
func wantOlderPlants(t testing.TB, e *sqlite.Engine) {
	t.Helper()
	records, err := e.List(t.Context(), store.Query{From: math.MinInt64, Limit: 10})
	must(t, err)
	var names []string
	for _, r := range records {
		names = append(names, r.Name)
	}
	if diff := cmp.Diff([]string{"plant 1", "plant 2", "plant 3"}, names); diff != "" {
		t.Errorf("plants (-want +got):\n%s", diff)
	}
	tokens, err := e.Tokens(t.Context())
	must(t, err)
	if len(tokens) != 1 || tokens[0].Name != "nursery" {
		t.Errorf("tokens: %v", tokens)
	}
}

// TestOlderSchemaIsRead shows that all reading operations work on a store of an older schema and
// change no byte of it.
func TestOlderSchemaIsRead(t *testing.T) {
	t.Parallel()
	for _, wal := range []bool{false, true} {
		path := olderStore(t, wal)
		before := durable(t, path)
		e := mustOpen(t, sqlite.Config{Path: path, ReadOnly: true})
		wantOlderPlants(t, e)
		if r, err := e.Get(t.Context(), 2); err != nil || r.Name != "plant 2" {
			t.Errorf("Get: %v, %v", r, err)
		}
		err := insertBatch(t.Context(), e, batchOf(9, 1))
		if err == nil || err.Error() != "the store is open for reading only" {
			t.Errorf("Insert of a read-only engine: %v", err)
		}
		must(t, e.Close())
		if v, err := sqlite.Verify(t.Context(), path, nil); err != nil || v.Faults != nil || v.Plants != 3 || v.Tokens != 1 {
			t.Errorf("Verify: %+v, %v", v, err)
		}
		backup, restored := filepath.Join(t.TempDir(), "backup.db"), filepath.Join(t.TempDir(), "restored.db")
		_, err = sqlite.Backup(t.Context(), path, backup, noProgress)
		must(t, err)
		_, err = sqlite.Restore(t.Context(), backup, restored, false, noProgress)
		must(t, err)
		if got := versionOf(t, restored); got != 1 {
			t.Errorf("the restored store has schema %d, want 1", got)
		}
		if diff := cmp.Diff(before, durable(t, path)); diff != "" {
			t.Errorf("with a WAL: %v: the store was changed:\n%s", wal, diff)
		}
		if names, _ := filepath.Glob(path + "-[mst]*"); len(names) > 0 && !wal {
			t.Errorf("files beside the store: %v", names)
		}
	}
}

// TestOlderSchemaIsNotWritten shows that writing operations without Migrate refuse a store of an
// older schema and change nothing.
func TestOlderSchemaIsNotWritten(t *testing.T) {
	t.Parallel()
	for _, wal := range []bool{false, true} {
		for _, c := range []sqlite.Config{{}, {MustExist: true}, {Server: true}} {
			path := olderStore(t, wal)
			before := durable(t, path)
			c.Path = path
			e, err := sqlite.Open(t.Context(), c)
			if err == nil {
				must(t, e.Close())
			}
			want := path + " has schema 1 and this plantstore needs schema 7: stop the server of this store if one runs, " +
				"then run plantstore migrate or start plantstore serve"
			if err == nil || err.Error() != want {
				t.Errorf("%+v:\ngot  %v\nwant %s", c, err, want)
			}
			if diff := cmp.Diff(before, durable(t, path)); diff != "" {
				t.Errorf("%+v: the store was changed:\n%s", c, diff)
			}
		}
	}
}

// TestMigrate shows that a server and Migrate migrate a store of an older version with all its
// plants and tokens.
func TestMigrate(t *testing.T) {
	t.Parallel()
	for _, wal := range []bool{false, true} {
		served := olderStore(t, wal)
		must(t, mustOpen(t, sqlite.Config{Path: served, Server: true, Migrate: true}).Close())
		migrated := olderStore(t, wal)
		for _, want := range []int{1, schema} { // the second call changes nothing
			from, to, err := sqlite.Migrate(t.Context(), migrated, nil, audit.Origin{})
			if from != want || to != schema || err != nil {
				t.Errorf("Migrate: %d, %d, %v; want %d, %d", from, to, err, want, schema)
			}
		}
		for _, path := range []string{served, migrated} {
			e := mustOpen(t, sqlite.Config{Path: path, MustExist: true})
			wantOlderPlants(t, e)
			must(t, insertBatch(t.Context(), e, batchOf(10, 2)))
			must(t, e.Close())
			if v, err := sqlite.Verify(t.Context(), path, nil); err != nil || v.Faults != nil || v.Plants != 5 {
				t.Errorf("Verify: %+v, %v", v, err)
			}
			if got := versionOf(t, path); got != schema {
				t.Errorf("schema %d, want %d", got, schema)
			}
		}
	}
}

// TestMigrateRefuses shows that Migrate refuses a store that is served, newer or missing.
func TestMigrateRefuses(t *testing.T) {
	t.Parallel()
	migrate := func(path string) string {
		_, _, err := sqlite.Migrate(t.Context(), path, nil, audit.Origin{})
		if err == nil {
			return ""
		}
		return strings.ReplaceAll(err.Error(), path, "PATH")
	}
	path := olderStore(t, false)
	lock, err := os.Create(path + "-serve") // locked as by an older server
	must(t, err)
	must(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
	const served = "another plantstore serves PATH: stop it first, or use another file with --db"
	if got, want := migrate(path), served; got != want {
		t.Errorf("a served store:\ngot  %s\nwant %s", got, want)
	}
	must(t, lock.Close())
	mustExec(t, path, "PRAGMA user_version = 99")
	const newer = "PATH has schema 99, and this plantstore supports schemas up to 7: " +
		"use the plantstore that wrote it or a newer one"
	if got, want := migrate(path), newer; got != want {
		t.Errorf("a newer store:\ngot  %s\nwant %s", got, want)
	}
	empty := filepath.Join(t.TempDir(), "empty.db")
	mustWrite(t, empty, "")
	for _, path := range []string{empty, filepath.Join(t.TempDir(), "missing.db")} {
		const want = "there is no store at PATH: name one with --db, or create one with plantstore serve"
		if got := migrate(path); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", filepath.Base(path), got, want)
		}
	}
}
