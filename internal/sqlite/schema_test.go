package sqlite_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/sqlite"
	"plantstore/internal/sqlite/backupfile"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/sqlite/sqlitetest"
	"plantstore/internal/store"
)

// endless is a query that never ends.
const endless = "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) "

// endlessPlants completes endless to a view with the columns of plants.
const endlessPlants = "SELECT n AS id, 'a' AS name, NULL AS tag, 0 AS created_at, 0 AS created_by, 0 AS digest FROM r"

// hostile are changes of a schema, with the expected fault of each.
var hostile = []struct{ name, sql, want string }{
	{
		"a trigger that deletes",
		"CREATE TRIGGER evil AFTER INSERT ON plants BEGIN DELETE FROM plants WHERE id = new.id; END",
		`trigger "evil" on "plants" is not part of it`,
	},
	{
		"a trigger that never ends",
		"CREATE TRIGGER evil AFTER INSERT ON plants BEGIN SELECT count(*) FROM (" + endless + "SELECT n FROM r); END",
		`trigger "evil" on "plants" is not part of it`,
	},
	{
		"a trigger on tokens", "CREATE TRIGGER evil AFTER UPDATE ON tokens BEGIN DELETE FROM plants; END",
		`trigger "evil" on "tokens" is not part of it`,
	},
	{
		"a trigger on another table",
		"CREATE TABLE other (a); CREATE TRIGGER evil AFTER INSERT ON other BEGIN DELETE FROM plants; END",
		`trigger "evil" on "other" is not part of it`,
	},
	{
		"an endless view as plants", "ALTER TABLE plants RENAME TO p; CREATE VIEW plants AS " + endless + endlessPlants,
		`table "plants" is missing`,
	},
	{
		"an endless view as plantstore", "ALTER TABLE plantstore RENAME TO s; CREATE VIEW plantstore AS " + endless +
			"SELECT sum(n) AS store, 0 AS commits, 0 AS plants, 0 AS digests, " +
			"0 AS token_changes, 0 AS token_digests, '' AS moved_to FROM r",
		`table "plantstore" is missing`,
	},
	{
		"a view with the type of a table",
		"ALTER TABLE plants RENAME TO p; CREATE VIEW plants AS " + endless + endlessPlants +
			"; PRAGMA writable_schema = ON; UPDATE sqlite_schema SET type = 'table', rootpage = 2 WHERE name = 'plants'",
		"malformed database schema (plants)",
	},
	{"another view", "CREATE VIEW v AS " + endless + "SELECT * FROM r", `view "v" is not part of it`},
	{"a virtual table", "CREATE VIRTUAL TABLE v USING fts5 (a)", `table "v" is not an ordinary table`},
	{"a generated column", "CREATE TABLE other (a, b AS (a + 1))", `table "other" has a generated column`},
	{
		"a trigger with the type of a table", "CREATE TABLE other (a); " +
			"CREATE TRIGGER evil AFTER INSERT ON plants BEGIN DELETE FROM plants; END; PRAGMA writable_schema = ON; " +
			"UPDATE sqlite_schema SET type = 'table', tbl_name = 'evil', rootpage = 2 WHERE name = 'evil'",
		"malformed database schema (evil)",
	},
	{"an index", "CREATE INDEX i ON plants (name)", `index "i" on "plants" is not part of it`},
	{"a unique index", "CREATE UNIQUE INDEX i ON tokens (name)", `index "i" on "tokens" is not part of it`},
	{
		"an index with another table", "CREATE TABLE other (a); CREATE INDEX i ON plants (name); " +
			"PRAGMA writable_schema = ON; UPDATE sqlite_schema SET tbl_name = 'other' WHERE name = 'i'",
		"malformed database schema (i)",
	},
	{
		"an index on an expression", "CREATE TABLE other (a); CREATE INDEX i ON other (hex(zeroblob(a)))",
		`index "i" has an expression`,
	},
	{
		"a partial index", "CREATE TABLE other (a); CREATE INDEX i ON other (a) WHERE hex(zeroblob(a)) > ''",
		`index "i" has an expression`,
	},
	{"another column", "ALTER TABLE plants ADD COLUMN height INTEGER", `table "plants" differs from the schema`},
	{
		"a default", "ALTER TABLE tokens DROP COLUMN revoked_at; ALTER TABLE tokens ADD COLUMN revoked_at INTEGER DEFAULT 1",
		`table "tokens" differs from the schema`,
	},
	{"no tokens", "DROP TABLE tokens", `table "tokens" is missing`},
}

// hostileStore creates a store with plants and a token, and runs sql on it.
func hostileStore(t *testing.T, sql string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plants.db")
	e := sqlitetest.Open(t, sqlite.Config{Path: path})
	token := auth.Token{Name: "a", Scopes: auth.ScopeCreate, CreatedAt: time.Now()}
	_, err := e.CreateToken(t.Context(), token, audit.Origin{})
	must(t, err)
	must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(0, 10)))
	must(t, e.Close())
	sqlitetest.Exec(t, path, sql)
	return path
}

// manifestFor writes a matching manifest for a file, as an attacker would.
func manifestFor(t *testing.T, backup string, m backupfile.Manifest) {
	t.Helper()
	data, err := os.ReadFile(backup)
	must(t, err)
	m.Bytes, m.SHA256 = int64(len(data)), fmt.Sprintf("%x", sha256.Sum256(data))
	text, err := json.Marshal(m)
	must(t, err)
	must(t, os.WriteFile(backup+backupfile.ManifestSuffix, text, 0o600))
}

// TestHostileSchema shows that every operation refuses a store with a changed schema before code of the file runs.
func TestHostileSchema(t *testing.T) {
	t.Parallel()
	const timeout = 2 * time.Minute // for a loaded machine; an endless view never ends
	for _, test := range hostile {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			path := hostileStore(t, test.sql)
			before := sqlitetest.Durable(t, path)
			for _, c := range []sqlite.Config{{Server: true, Migrate: true}, {MustExist: true}, {ReadOnly: true}} {
				c.Path = path
				e, err := sqlite.Open(ctx, c)
				if err == nil {
					_, errList := e.List(ctx, store.Query{From: math.MinInt64, Limit: 10})
					must(t, e.Close())
					t.Fatalf("%+v: Open accepted it; List: %v", c, errList)
				}
				if !errors.Is(err, store.ErrBroken) || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%+v:\ngot  %v\nwant %s", c, err, test.want)
				}
			}
			v, err := backupfile.Verify(ctx, path, nil)
			if err != nil || !strings.Contains(strings.Join(v.Faults, "\n"), test.want) {
				t.Errorf("Verify:\ngot  %q, %v\nwant %s", v.Faults, err, test.want)
			}
			backup := filepath.Join(t.TempDir(), "backup.db")
			_, err = backupfile.Backup(ctx, path, backup, "", noProgress)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Backup:\ngot  %v\nwant %s", err, test.want)
			}
			manifestFor(t, path, backupfile.Manifest{Format: 1, Plants: 10, Commits: 2})
			restored := filepath.Join(t.TempDir(), "restored.db")
			_, err = backupfile.Restore(ctx, path, restored, false, noProgress)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Restore:\ngot  %v\nwant %s", err, test.want)
			}
			if _, err := os.Stat(restored); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("Restore left a store: %v", err)
			}
			if diff := cmp.Diff(before, sqlitetest.Durable(t, path)); diff != "" {
				t.Errorf("the store was changed:\n%s", diff)
			}
		})
	}
}

// TestForeignTables shows that a store may have tables of other programs without code.
func TestForeignTables(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{
		// the tables of Litestream
		"CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER); CREATE TABLE _litestream_lock (id INTEGER)",
		"CREATE TABLE other (a, b, UNIQUE (a)); CREATE INDEX i ON other (b DESC)",
		"CREATE TABLE other (a REFERENCES plants (id))",
		"CREATE TABLE other (a CHECK (a > 1)); PRAGMA ignore_check_constraints = ON; INSERT INTO other VALUES (0)",
		"CREATE TABLE other (a PRIMARY KEY) WITHOUT ROWID",
		"ANALYZE",
		"VACUUM",
	} {
		path := hostileStore(t, sql)
		e := sqlitetest.Open(t, sqlite.Config{Path: path, Server: true})
		must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(20, 10)))
		must(t, e.Close())
		if v, err := backupfile.Verify(t.Context(), path, nil); err != nil || v.Faults != nil || v.Plants != 20 {
			t.Errorf("%s: %+v, %v", sql, v, err)
		}
	}
}

// TestManyObjects shows that the number of objects in a file is limited.
func TestManyObjects(t *testing.T) {
	t.Parallel()
	var sql strings.Builder
	sql.WriteString("BEGIN;")
	for i := range 1001 {
		fmt.Fprintf(&sql, "CREATE TABLE other%d (a);", i)
	}
	path := hostileStore(t, sql.String()+"COMMIT")
	_, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, ReadOnly: true})
	if want := "it has more than 1000 tables and indexes"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// endlessTree links the pages of a table so that a scan has practically endless rows, without a cycle in the tree.
func endlessTree(t *testing.T, path, table string) {
	t.Helper()
	const pageBytes, levels, children = 4096, 8, 300
	c, err := sqlite3.Open(path)
	must(t, err)
	root, err := c.QueryInt("SELECT rootpage FROM sqlite_schema WHERE name = '" + table + "'")
	must(t, err)
	must(t, errors.Join(c.Exec("PRAGMA journal_mode = DELETE"), c.Close()))
	data, err := os.ReadFile(path)
	must(t, err)
	leaf := slices.Clone(data[(root-1)*pageBytes : root*pageBytes])
	pages := len(data) / pageBytes
	interior := func(child uint32) []byte { // https://sqlite.org/fileformat2.html#b_tree_pages
		page := make([]byte, pageBytes)
		page[0] = 5 // a table's
		binary.BigEndian.PutUint16(page[3:], children)
		binary.BigEndian.PutUint32(page[8:], child)
		at := pageBytes
		for i := range children {
			at -= 6
			binary.BigEndian.PutUint32(page[at:], child)
			page[at+4], page[at+5] = 0x81, byte(i&0x7f) // a key of two bytes
			binary.BigEndian.PutUint16(page[12+2*i:], uint16(at))
		}
		binary.BigEndian.PutUint16(page[5:], uint16(at))
		return page
	}
	copy(data[(root-1)*pageBytes:], interior(uint32(pages+1)))
	for level := range levels {
		data = append(data, interior(uint32(pages+level+2))...)
	}
	data = append(data, leaf...)
	binary.BigEndian.PutUint32(data[28:], uint32(len(data)/pageBytes))
	must(t, os.WriteFile(path, data, 0o600))
}

// TestEndlessTree shows that Verify ends on a table with an endless scan, and that the end of a context ends the scan.
func TestEndlessTree(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"plants", "tokens"} {
		path := hostileStore(t, "")
		mustRemove(t, path+"-mark")
		endlessTree(t, path, table)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // for a loaded machine
		defer cancel()
		v, err := backupfile.Verify(ctx, path, nil)
		faults := strings.Join(v.Faults, "\n")
		if err != nil || !strings.Contains(faults, "2nd reference to page") ||
			!strings.Contains(faults, "the rest was not read") {
			t.Errorf("%s: %v:\n%s", table, err, faults)
		}
	}
	path := hostileStore(t, "")
	endlessTree(t, path, "plants")
	e, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, ReadOnly: true})
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	noMatch := store.Query{From: math.MinInt64, Tag: plant.Tagged("no plant has this tag"), Limit: 1}
	if _, err := e.List(ctx, noMatch); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("List: %v, want %v", err, context.DeadlineExceeded)
	}
	must(t, e.Close())
}
