package sqlite_test

import (
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/sqlite"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// schema is what this program brings a store to.
const schema = 3

// olderStore makes the store that an older version wrote: three plants, a token,
// schema 1. With wal, its server was killed: the last plant is in the WAL alone.
func olderStore(t testing.TB, wal bool) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "older.db")
	statements, err := os.ReadFile("testdata/schema1.sql")
	must(t, err)
	if !wal {
		mustExec(t, path, string(statements))
		return path
	}
	begun, last, ok := strings.Cut(string(statements), `INSERT INTO "plants" VALUES(3,`)
	if !ok {
		t.Fatal("testdata/schema1.sql has no third plant")
	}
	mustExec(t, path, begun+"COMMIT; PRAGMA application_id = 1886154356; PRAGMA user_version = 1")
	c, err := sqlite3.Open(path)
	must(t, err)
	c.KeepWAL(true)
	must(t, errors.Join(c.Exec(`BEGIN; INSERT INTO "plants" VALUES(3,`+last), c.Close()))
	if info, err := os.Stat(path + "-wal"); err != nil || info.Size() == 0 {
		t.Fatalf("the store has no WAL: %v", err)
	}
	return path
}

// durable returns a store's files but for the shared memory of its readers.
func durable(t testing.TB, path string) files {
	t.Helper()
	f := readFiles(t, path)
	delete(f, "-shm")
	return f
}

// versionOf returns the schema of a store, and leaves its WAL where it is.
func versionOf(t testing.TB, path string) int64 {
	t.Helper()
	c, err := sqlite3.OpenReadOnly(path)
	must(t, err)
	version, err := c.QueryInt("PRAGMA user_version")
	must(t, errors.Join(err, c.Close()))
	return version
}

// wantOlderPlants fails the test unless the engine has what olderStore put in.
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

// TestOlderSchemaIsRead shows that all that only reads works on a store of an
// older schema, and changes no byte of it.
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
		if err := insertBatch(t.Context(), e, batchOf(9, 1)); err == nil || err.Error() != "the store is open for reading only" {
			t.Errorf("Insert into a store that is open for reading: %v", err)
		}
		must(t, e.Close())
		if v, err := sqlite.Verify(t.Context(), path, nil); err != nil || v.Faults != nil || v.Plants != 3 || v.Tokens != 1 {
			t.Errorf("Verify: %+v, %v", v, err)
		}
		backup, restored := filepath.Join(t.TempDir(), "backup.db"), filepath.Join(t.TempDir(), "restored.db")
		_, err := sqlite.Backup(t.Context(), path, backup, noProgress)
		must(t, err)
		_, err = sqlite.Restore(t.Context(), backup, restored, false, noProgress)
		must(t, err)
		if got := versionOf(t, restored); got != 1 {
			t.Errorf("the backup of a store of schema 1 was restored with schema %d", got)
		}
		if diff := cmp.Diff(before, durable(t, path)); diff != "" {
			t.Errorf("with a WAL: %v: the store was changed:\n%s", wal, diff)
		}
		if names, _ := filepath.Glob(path + "-[mst]*"); len(names) > 0 && !wal {
			t.Errorf("files beside the store: %v", names)
		}
	}
}

// TestOlderSchemaIsNotWritten shows that what writes to a store of an older
// schema and may not migrate it leaves it as it was, and says what to do.
func TestOlderSchemaIsNotWritten(t *testing.T) {
	t.Parallel()
	for _, wal := range []bool{false, true} {
		for _, c := range []sqlite.Config{{}, {MustExist: true}, {Server: true}} {
			path := olderStore(t, wal)
			before := durable(t, path)
			c.Path, c.Log = path, slog.New(slog.DiscardHandler)
			e, err := sqlite.Open(t.Context(), c)
			if err == nil {
				must(t, e.Close())
			}
			want := path + " has schema 1 and this plantstore needs schema 3: stop the server of this store if one runs, then run plantstore migrate or start plantstore serve"
			if err == nil || err.Error() != want {
				t.Errorf("%+v:\ngot  %v\nwant %s", c, err, want)
			}
			if diff := cmp.Diff(before, durable(t, path)); diff != "" {
				t.Errorf("%+v: the store was changed:\n%s", c, diff)
			}
		}
	}
}

// TestMigrate shows that a server and Migrate bring a store that an older
// version wrote to the newest schema, with all that it has.
func TestMigrate(t *testing.T) {
	t.Parallel()
	for _, wal := range []bool{false, true} {
		served := olderStore(t, wal)
		must(t, mustOpen(t, sqlite.Config{Path: served, Server: true, Migrate: true}).Close())
		migrated := olderStore(t, wal)
		for _, want := range []int{1, schema} { // the second time there is nothing to do
			from, to, err := sqlite.Migrate(t.Context(), migrated, slog.New(slog.DiscardHandler))
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

// TestMigrateRefuses shows that a store which is served, damaged, newer or not
// there is not migrated.
func TestMigrateRefuses(t *testing.T) {
	t.Parallel()
	migrate := func(path string) string {
		_, _, err := sqlite.Migrate(t.Context(), path, slog.New(slog.DiscardHandler))
		if err == nil {
			return ""
		}
		return strings.ReplaceAll(err.Error(), path, "PATH")
	}
	path := olderStore(t, false)
	lock, err := os.Create(path + "-serve") // as an older server holds it
	must(t, err)
	must(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
	if got, want := migrate(path), "another plantstore serves PATH: stop it first, or use another file with --db"; got != want {
		t.Errorf("beside a server:\ngot  %s\nwant %s", got, want)
	}
	must(t, lock.Close())
	mustExec(t, path, "PRAGMA user_version = 99")
	if got, want := migrate(path), "PATH has schema 99, and this plantstore supports schemas up to 3: use the plantstore that wrote it or a newer one"; got != want {
		t.Errorf("a newer store:\ngot  %s\nwant %s", got, want)
	}
	empty := filepath.Join(t.TempDir(), "empty.db")
	mustWrite(t, empty, "")
	for _, path := range []string{empty, filepath.Join(t.TempDir(), "missing.db")} {
		if got, want := migrate(path), "there is no store at PATH: name one with --db, or create one with plantstore serve"; got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", filepath.Base(path), got, want)
		}
	}
}
