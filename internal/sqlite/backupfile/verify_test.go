package backupfile_test

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/sqlite"
	"plantstore/internal/sqlite/backupfile"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/sqlite/sqlitetest"
)

var (
	damages    = flag.Int("damages", 100, "number of random damages of TestDamages")
	damageSeed = flag.Uint64("damage-seed", 0, "seed of TestDamages; 0: a random seed")
)

// content returns the plants and tokens of a store as text, with the error if it cannot be read.
func content(path string) string {
	c, err := sqlite3.OpenReadOnly(path)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	var text strings.Builder
	for _, sql := range []string{
		`SELECT concat_ws(' ', id, quote(name), quote(tag), created_at, created_by) FROM plants ORDER BY id`,
		`SELECT concat_ws(' ', id, quote(name), quote(hash), scopes, created_at,
			quote(expires_at), quote(revoked_at), quote(prefix)) FROM tokens ORDER BY id`,
	} {
		s, err := c.Prepare(sql)
		if err != nil {
			return err.Error()
		}
		for {
			ok, err := s.Step()
			if err != nil {
				text.WriteString(err.Error())
			}
			if err != nil || !ok {
				break
			}
			text.WriteString(s.Text(0) + "\n")
		}
		s.Close()
	}
	return text.String()
}

// integrity returns the result of SQLite's integrity check of a file.
func integrity(path string) string {
	c, err := sqlite3.OpenReadOnly(path)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	result, err := c.QueryText("PRAGMA integrity_check")
	if err != nil {
		return err.Error()
	}
	return result
}

// damage damages the files of a store at random and describes the damage.
func damage(random *rand.Rand, f, foreign sqlitetest.Files) string {
	names := slices.Sorted(maps.Keys(f))
	names = slices.DeleteFunc(names, func(s string) bool { return len(f[s]) == 0 || s == "-mark" })
	name := names[random.IntN(len(names))]
	b := bytes.Clone(f[name])
	f[name] = b
	switch random.IntN(8) {
	case 0:
		page := random.IntN((len(b)+4095)/4096) * 4096
		clear(b[page:min(page+4096, len(b))])
		return fmt.Sprintf("zeros at %d of %q", page, name)
	case 1:
		f[name] = b[:random.IntN(len(b))]
		return fmt.Sprintf("%q truncated to %d of %d", name, len(f[name]), len(b))
	case 2:
		delete(f, "-wal")
		return "no WAL"
	case 3:
		f["-wal"] = foreign["-wal"]
		return "the WAL of another store"
	case 4:
		if f["-shm"] = foreign["-shm"]; random.IntN(2) == 0 {
			delete(f, "-shm")
		}
		return "another -shm, or none"
	default:
		at, bit := random.IntN(len(b)), random.IntN(8)
		b[at] ^= 1 << bit
		return fmt.Sprintf("bit %d of byte %d of %q", bit, at, name)
	}
}

// TestDamages damages copies of a stopped and of a killed store at random. Either Verify detects the damage, or the
// whole content is unchanged. To show that this test can fail, some copies must pass SQLite's integrity check.
func TestDamages(t *testing.T) {
	t.Parallel()
	seed := *damageSeed
	if seed == 0 {
		seed = rand.Uint64() // not a secret
	}
	t.Logf("-damage-seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0)) // reproducible by the seed

	dir := t.TempDir()
	path := filepath.Join(dir, "plants.db")
	e := sqlitetest.Open(t, sqlite.Config{Path: path, Server: true})
	sqlitetest.Fill(t, e, random, 20)
	killed := sqlitetest.ReadFiles(t, path) // as after a kill, before a checkpoint
	must(t, e.Close())
	stopped := sqlitetest.ReadFiles(t, path)
	want := content(path)

	other := filepath.Join(dir, "other.db")
	o := sqlitetest.Open(t, sqlite.Config{Path: other, Server: true})
	sqlitetest.Fill(t, o, random, 5)
	foreign := sqlitetest.ReadFiles(t, other)
	must(t, o.Close())

	found, undetected := 0, 0
	for i := range *damages {
		f := maps.Clone([]sqlitetest.Files{killed, stopped}[i%2])
		description := damage(random, f, foreign)
		copied := filepath.Join(dir, fmt.Sprint(i, ".db"))
		f.WriteTo(t, copied)
		v, err := backupfile.Verify(t.Context(), copied, nil)
		f.WriteTo(t, copied)
		same := content(copied) == want
		f.WriteTo(t, copied)
		switch detected := err != nil || len(v.Faults) > 0; {
		case detected:
			found++
		case !same:
			t.Errorf("Verify does not detect damage %d: %s", i, description)
		}
		if !same && integrity(copied) == "ok" {
			undetected++
		}
		for _, suffix := range sqlitetest.Suffixes {
			_ = os.Remove(copied + suffix)
		}
	}
	t.Logf("%d of %d damages detected, the others are harmless; %d pass SQLite's integrity check",
		found, *damages, undetected)
	if undetected == 0 {
		t.Error("every damage fails SQLite's integrity check, so this test shows nothing")
	}
}

// TestVerify verifies an undamaged store: served, stopped, and without a commit mark.
func TestVerify(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plants.db")
	e := sqlitetest.Open(t, sqlite.Config{Path: path, Server: true})
	sqlitetest.Fill(t, e, rand.New(rand.NewPCG(1, 1)), 5)
	check := func(when string) {
		t.Helper()
		v, err := backupfile.Verify(t.Context(), path, nil)
		if err != nil || len(v.Faults) > 0 || v.Tokens != 3 || v.Plants == 0 || v.Commits != 8 {
			t.Errorf("%s: %+v, %v", when, v, err)
		}
	}
	check("served")
	must(t, e.Close())
	check("stopped")
	mustRemove(t, path+"-mark")
	check("without a mark")
	left, err := filepath.Glob(path + "-*")
	if err != nil || slices.Contains(left, path+"-wal") || slices.Contains(left, path+"-shm") {
		t.Errorf("files left: %v, %v", left, err)
	}
}

// TestVerifyNames tests the description of each kind of damage.
func TestVerifyNames(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ sql, want string }{
		{"UPDATE plants SET name = 'Tilia cordata' WHERE id = 7", "plant 7 does not match its digest"},
		{"UPDATE plants SET tag = '' WHERE id = 7", "plant 7 does not match its digest"},
		{"UPDATE plants SET created_by = 9 WHERE id = 7", "plant 7 does not match its digest"},
		{"DELETE FROM plants WHERE id = 7", "the store has 9 plants; 10 were stored"},
		{
			`DELETE FROM plants WHERE id = 7;
				INSERT INTO plants SELECT 77, name, tag, created_at, created_by, 1 FROM plants WHERE id = 8`,
			"plant 77 does not match its digest\na plant is missing and another one was added",
		},
		{"UPDATE tokens SET scopes = 'admin'", "a token was changed, removed or added by another program"},
		{"UPDATE tokens SET expires_at = 1", "a token was changed, removed or added by another program"},
		{"DELETE FROM tokens", "a token was changed, removed or added by another program"},
		{"UPDATE tokens SET last_used_at = 1", ""},
		{"CREATE INDEX i ON plants (name)", `schema 1: index "i" on "plants" is not part of it`},
		{
			"CREATE TRIGGER g AFTER INSERT ON tokens BEGIN DELETE FROM plants; END",
			`schema 1: trigger "g" on "tokens" is not part of it`,
		},
		{"CREATE TABLE other (a); CREATE INDEX i ON other (a)", ""},
		{
			"DELETE FROM plantstore",
			"could not read the state of the store: the store failed: the table plantstore has no row",
		},
		{
			"UPDATE plantstore SET commits = 1",
			"PATH has lost acknowledged plants: its last commit is 1, and commit 2 was acknowledged; " +
				"its WAL (PATH-wal) was removed, replaced or damaged. Put the WAL back or restore a backup; " +
				"to continue without the lost plants, remove PATH-mark",
		},
		{
			"UPDATE plantstore SET store = 1",
			"PATH is another store than before, or its WAL belongs to another store: if that is intended, remove PATH-mark",
		},
	} {
		path := filepath.Join(t.TempDir(), "plants.db")
		e := sqlitetest.Open(t, sqlite.Config{Path: path})
		token := auth.Token{Name: "a", Scopes: auth.ScopeCreate, CreatedAt: time.Now()}
		_, err := e.CreateToken(t.Context(), token, audit.Origin{})
		must(t, err)
		must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(0, 10)))
		must(t, e.Close())
		sqlitetest.Exec(t, path, test.sql)
		v, err := backupfile.Verify(t.Context(), path, nil)
		got := strings.ReplaceAll(strings.Join(v.Faults, "\n"), path, "PATH")
		if err != nil || got != test.want {
			t.Errorf("%s:\ngot  %s, %v\nwant %s", test.sql, got, err, test.want)
		}
	}
}

// TestVerifyLink verifies a store by a link in another directory: Verify uses the WAL and the mark beside the store.
func TestVerifyLink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, link := filepath.Join(dir, "plants.db"), filepath.Join(t.TempDir(), "link.db")
	must(t, os.Symlink(path, link))
	e := sqlitetest.Open(t, sqlite.Config{Path: path, Server: true})
	must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(0, 10)))
	before := sqlitetest.ReadFiles(t, path)
	must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(10, 10)))
	must(t, e.Close())
	for _, suffix := range []string{"", "-wal"} {
		must(t, os.WriteFile(path+suffix, before[suffix], 0o600))
	}
	v, err := backupfile.Verify(t.Context(), link, nil)
	must(t, err)
	if len(v.Faults) != 1 || !strings.Contains(v.Faults[0], "has lost acknowledged plants") {
		t.Errorf("%q: want the fault of the mark", v.Faults)
	}
	to := filepath.Join(dir, "backup.db")
	if _, err := backupfile.Backup(t.Context(), link, to, "", noProgress); err == nil || err.Error() != v.Faults[0] {
		t.Errorf("Backup: %v, want %s", err, v.Faults[0])
	}
}
