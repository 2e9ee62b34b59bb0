package dbfile_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/sqlite"
	"plantstore/internal/sqlite/backupfile"
	"plantstore/internal/sqlite/dbfile"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/sqlite/sqlitetest"
	"plantstore/internal/store"
)

const (
	schema = 1 // the newest schema
	next   = 2 // the schema of nextSQL
)

// nextSQL is a migration to the next schema.
const nextSQL = "ALTER TABLE tokens ADD COLUMN note TEXT; UPDATE tokens SET note = 'old'"

// olderStore creates a store of the newest schema with three plants and a token. With wal, the last plant is only in
// the WAL, as after a kill of the server. The store is older when the test has called AddMigration.
func olderStore(t testing.TB, wal bool) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "older.db")
	e := sqlitetest.Open(t, sqlite.Config{Path: path})
	_, err := e.CreateToken(t.Context(), auth.Token{Name: "nursery", CreatedAt: time.Unix(0, 0)}, audit.Origin{})
	must(t, errors.Join(err, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(1, 2)), e.Close()))
	e = sqlitetest.Open(t, sqlite.Config{Path: path})
	must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(3, 1)))
	killed := sqlitetest.Durable(t, path)
	must(t, e.Close())
	if !wal {
		return path
	}
	if len(killed["-wal"]) == 0 {
		t.Fatal("the store has no WAL")
	}
	path = filepath.Join(t.TempDir(), "older.db")
	for suffix, content := range killed {
		must(t, os.WriteFile(path+suffix, content, 0o600))
	}
	return path
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

// TestOlderSchema shows that Verify, Backup and Restore accept a store of an older schema, that Open refuses it without
// Migrate, and that none of them changes it.
func TestOlderSchema(t *testing.T) {
	older := map[bool]string{false: olderStore(t, false), true: olderStore(t, true)}
	dbfile.AddMigration(t, nextSQL)
	for wal, path := range older {
		before := sqlitetest.Durable(t, path)
		v, err := backupfile.Verify(t.Context(), path, nil)
		if err != nil || v.Faults != nil || v.Plants != 3 || v.Tokens != 1 {
			t.Errorf("Verify: %+v, %v", v, err)
		}
		backup, restored := filepath.Join(t.TempDir(), "backup.db"), filepath.Join(t.TempDir(), "restored.db")
		_, err = backupfile.Backup(t.Context(), path, backup, "", noProgress)
		must(t, err)
		_, err = backupfile.Restore(t.Context(), backup, restored, false, noProgress)
		must(t, err)
		if got := versionOf(t, restored); got != schema {
			t.Errorf("the restored store has schema %d, want %d", got, schema)
		}
		for _, c := range []sqlite.Config{{}, {MustExist: true}, {ReadOnly: true}, {Server: true}} {
			c.Path = path
			e, err := sqlite.Open(t.Context(), c)
			if err == nil {
				must(t, e.Close())
			}
			want := path + " has schema 1 and this plantstore needs schema 2: stop the server of this store if one runs, " +
				"then run plantstore migrate or start plantstore serve"
			if err == nil || err.Error() != want {
				t.Errorf("%+v:\ngot  %v\nwant %s", c, err, want)
			}
		}
		if diff := cmp.Diff(before, sqlitetest.Durable(t, path)); diff != "" {
			t.Errorf("with a WAL: %v: the store was changed:\n%s", wal, diff)
		}
	}
}

// TestMigrate shows that a server and Migrate migrate a store of an older schema with all its plants and tokens, and
// that the audit log has one entry.
func TestMigrate(t *testing.T) {
	var served, migrated []string
	for _, wal := range []bool{false, true} {
		served, migrated = append(served, olderStore(t, wal)), append(migrated, olderStore(t, wal))
	}
	dbfile.AddMigration(t, nextSQL)
	by := audit.Origin{Actor: audit.Actor{Name: "ada"}}
	for _, path := range served {
		must(t, sqlitetest.Open(t, sqlite.Config{Path: path, Server: true, Migrate: true, By: by}).Close())
	}
	for _, path := range migrated {
		for _, want := range []int{schema, next} { // the second call changes nothing
			from, to, err := sqlite.Migrate(t.Context(), path, nil, by)
			if from != want || to != next || err != nil {
				t.Errorf("Migrate: %d, %d, %v; want %d, %d", from, to, err, want, next)
			}
		}
	}
	for _, path := range append(served, migrated...) {
		e := sqlitetest.Open(t, sqlite.Config{Path: path, MustExist: true})
		records, err := e.List(t.Context(), store.Query{From: math.MinInt64, Limit: 10})
		if len(records) != 3 || err != nil {
			t.Errorf("plants: %v, %v; want 3", records, err)
		}
		tokens, err := e.Tokens(t.Context())
		if len(tokens) != 1 || tokens[0].Name != "nursery" || err != nil {
			t.Errorf("tokens: %v, %v", tokens, err)
		}
		rows, err := e.AuditRows(t.Context(), 1, 10) // the first entry is about the token
		if len(rows) != 1 || err != nil {
			t.Fatalf("entries: %+v, %v; want one about the migration", rows, err)
		}
		for _, want := range []string{`"store.migrate"`, `"ada"`, `"from_schema":"1"`, `"to_schema":"2"`} {
			if !strings.Contains(rows[0].Text, want) {
				t.Errorf("the entry %s has no %s", rows[0].Text, want)
			}
		}
		must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(10, 2)))
		must(t, e.Close())
		if v, err := backupfile.Verify(t.Context(), path, nil); err != nil || v.Faults != nil || v.Plants != 5 {
			t.Errorf("Verify: %+v, %v", v, err)
		}
		if got := versionOf(t, path); got != next {
			t.Errorf("schema %d, want %d", got, next)
		}
	}
}

// TestMigrateFails shows that a migration that fails changes nothing: the older program opens the store again.
func TestMigrateFails(t *testing.T) {
	path := olderStore(t, false)
	t.Run("migrate", func(t *testing.T) {
		dbfile.AddMigration(t, nextSQL+"; INSERT INTO missing VALUES (1)")
		_, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Server: true, Migrate: true})
		const want = "migration next.sql: "
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	})
	e := sqlitetest.Open(t, sqlite.Config{Path: path})
	if rows, err := e.AuditRows(t.Context(), 0, 10); len(rows) != 1 || err != nil {
		t.Errorf("entries: %+v, %v; want one about the token", rows, err)
	}
	must(t, e.Close())
	if v, err := backupfile.Verify(t.Context(), path, nil); err != nil || v.Faults != nil || v.Plants != 3 {
		t.Errorf("Verify: %+v, %v", v, err)
	}
}

// TestMigrateRefuses shows that Migrate refuses a store that is served, newer or missing.
func TestMigrateRefuses(t *testing.T) {
	migrate := func(path string) string {
		_, _, err := sqlite.Migrate(t.Context(), path, nil, audit.Origin{})
		if err == nil {
			return ""
		}
		return strings.ReplaceAll(err.Error(), path, "PATH")
	}
	path := olderStore(t, false)
	dbfile.AddMigration(t, nextSQL)
	lock, err := os.Create(path + "-serve") // locked as by an older server
	must(t, err)
	must(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
	const served = "another plantstore serves PATH: stop it first, or use another file with --db"
	if got, want := migrate(path), served; got != want {
		t.Errorf("a served store:\ngot  %s\nwant %s", got, want)
	}
	must(t, lock.Close())
	for _, version := range []string{"99", "-1"} {
		sqlitetest.Exec(t, path, "PRAGMA user_version = "+version)
		want := "PATH has schema " + version + ", and this plantstore supports schemas up to 2: " +
			"use the plantstore that wrote it or a newer one"
		if got := migrate(path); got != want {
			t.Errorf("schema %s:\ngot  %s\nwant %s", version, got, want)
		}
	}
	empty := filepath.Join(t.TempDir(), "empty.db")
	mustWrite(t, empty, "")
	for _, path := range []string{empty, filepath.Join(t.TempDir(), "missing.db")} {
		const want = "there is no store at PATH"
		if got := migrate(path); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", filepath.Base(path), got, want)
		}
	}
}
