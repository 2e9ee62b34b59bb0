package syscalls

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plantstore/faults/rig"
)

// commandRows are the system calls of commands. Temporary files have random names, so most calls fail for any file.
var commandRows = []row{
	{"pwrite64", "EIO", fileAny},
	{"pwrite64", "ENOSPC", fileAny},
	{"pwrite64", "EIO", "db"},
	{"pwrite64", "ENOSPC", "db"},
	{"pwrite64", "EIO", "wal"},
	{"fsync", "EIO", fileAny},
	{"fdatasync", "EIO", fileAny},
	{"fdatasync", "EIO", "db"},
	{"fdatasync", "EIO", "wal"},
	{"pread64", "EIO", fileAny},
	{"ftruncate", "EIO", fileAny},
	{"mmap", "ENOMEM", "shm"},
	{"open", "EIO", fileAny},
	{"unlink", "EIO", fileAny},
	{"unlinkat", "EIO", fileAny},
	{"openat", "EIO", "mark"},
	{"openat", "EIO", "ticket"},
	{"openat", "EIO", fileDir},
	{"renameat", "EIO", fileAny},
}

var commandRowsLong = []row{
	{"fsync", "ENOSPC", fileAny},
	{"fdatasync", "ENOSPC", fileAny},
	{"ftruncate", "ENOSPC", fileAny},
	{"open", "ENOSPC", fileAny},
	{"flock", "EIO", fileAny},
	{"fstat", "EIO", fileAny},
	{"read", "EIO", "mark"},
	{"openat", "EIO", "serve"},
	{"openat", "EIO", "db"},
}

// backupRows are further system calls of backup and restore.
var backupRows = []row{
	{"openat", "EIO", fileAny},
	{"write", "ENOSPC", fileAny},
	{"read", "EIO", fileAny},
	{"copy_file_range", "EIO", fileAny},
}

// The ids of the file that import reads.
const importFirst, importLast = 100, 160

// place has the paths of one run of a command, in a directory of its own.
type place struct {
	store                   string // the prepared store that db is a copy of
	db, csv, backup, target string
}

func newPlace(t *testing.T, store string) place {
	t.Helper()
	db := copyStore(t, store)
	dir := filepath.Dir(filepath.Dir(db))
	return place{
		store: store, db: db,
		csv:    filepath.Join(dir, "plants.csv"),
		backup: filepath.Join(dir, "backups", "plants.backup"),
		target: filepath.Join(dir, "target", "plants.db"),
	}
}

// commandTest is a command with the checks after it.
type commandTest struct {
	name string
	args func(place) []string
	rows []row
	// prepare creates the files that the command needs; may be nil.
	prepare func(*testing.T, place)
	// path returns the store that the command opens.
	path func(place) string
	// after checks the files that the command left; done reports exit code 0.
	after func(t *testing.T, p place, stdout string, done bool)
}

func commandTests() []commandTest {
	db := func(p place) string { return p.db }
	target := func(p place) string { return p.target }
	return []commandTest{
		{"token create", func(p place) []string {
			return []string{"token", "create", "new", "--no-expiry", "--db", p.db}
		}, nil, nil, db, afterToken},
		{"import", func(p place) []string {
			return []string{"import", p.csv, "--db", p.db}
		}, nil, writeCSV, db, afterImport},
		{"backup", func(p place) []string {
			return []string{"backup", p.backup, "--db", p.db}
		}, backupRows, makeBackupDir, db, afterBackup},
		{"restore", func(p place) []string {
			return []string{"restore", p.backup, "--db", p.target}
		}, backupRows, makeBackup, target, afterRestore},
		{"restore --force", func(p place) []string {
			return []string{"restore", p.backup, "--db", p.db, "--force"}
		}, backupRows, makeBackup, db, afterRestoreForce},
	}
}

// TestCommand makes each system call fail in the commands that change or copy a store.
func TestCommand(t *testing.T) {
	prepare(t)
	for _, c := range commandTests() {
		rows := append(append([]row{}, commandRows...), c.rows...)
		if *long {
			rows = append(rows, commandRowsLong...)
		}
		for _, r := range rows {
			for _, store := range []string{storeClean, storeWAL} {
				if !*long && store == storeClean { // commands do more with a WAL
					continue
				}
				t.Run(strings.ReplaceAll(c.name, " ", "_")+"/"+r.name()+"/"+store, func(t *testing.T) {
					t.Parallel()
					r.each(t, kMax, func(t *testing.T, f fault) bool { return c.run(t, f, store) })
				})
			}
		}
	}
}

// run runs the command with a fault, and reports whether a call failed.
func (c commandTest) run(t *testing.T, f fault, store string) bool {
	t.Helper()
	p := newPlace(t, store)
	if c.prepare != nil {
		c.prepare(t, p)
	}
	trace := filepath.Join(t.TempDir(), "trace")
	out, errs, code := command(t, f.strace(store, c.path(p), trace), c.args(p)...)
	if straceFailed(t, errs) {
		return c.run(t, f, store)
	}
	in := readTrace(t, trace)
	t.Logf("%d calls failed; exit code %d: %s", in.calls, code, reason(errs))
	if !in.silent {
		checkEnd(t, errs, code)
	}
	if code != 0 && in.calls == 0 {
		t.Errorf("exit code %d without a failed call:\n%s", code, errs)
	}
	c.after(t, p, out, code == 0)
	return in.calls > 0
}

// checkStore verifies a store. It must have the prepared plants, and all of the added ones or, unless must is set, none
// of them.
func (p place) checkStore(t *testing.T, db string, added map[int64]string, must bool) {
	t.Helper()
	got, err := rig.Export(t, base.program, db)
	if err != nil {
		t.Error(err)
		return
	}
	want := map[int64]string{}
	for id := range preparedOf(p.store) {
		want[id+1] = nameOf(id + 1)
	}
	with := maps.Clone(want)
	maps.Copy(with, added)
	if !maps.Equal(got, with) && (must || !maps.Equal(got, want)) {
		t.Errorf("the store has %d plants, want %d prepared ones and %d added ones (required: %v)",
			len(got), len(want), len(added), must)
	}
	verify(t, "--db", db)
}

func afterToken(t *testing.T, p place, stdout string, done bool) {
	t.Helper()
	p.checkStore(t, p.db, nil, true)
	list, errs, code := command(t, nil, "token", "list", "--db", p.db)
	if code != 0 {
		t.Errorf("token list ended with %d: %s", code, errs)
	}
	stored := strings.Contains(list, "new")
	if (done || stdout != "") && !stored {
		t.Errorf("the command printed a token that is not stored; token list:\n%s", list)
	}
}

func importPlants() map[int64]string {
	plants := map[int64]string{}
	for id := int64(importFirst); id <= importLast; id++ {
		plants[id] = nameOf(id)
	}
	return plants
}

func writeCSV(t *testing.T, p place) {
	t.Helper()
	var text strings.Builder
	text.WriteString("id,name,tag\n")
	for id, name := range importPlants() {
		fmt.Fprintf(&text, "%d,%s,\n", id, name)
	}
	if err := os.WriteFile(p.csv, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// afterImport repeats the import, which must complete a partial one.
func afterImport(t *testing.T, p place, _ string, done bool) {
	t.Helper()
	p.checkStore(t, p.db, importPlants(), done)
	if _, errs, code := command(t, nil, "import", p.csv, "--db", p.db); code != 0 {
		t.Errorf("the repeated import ended with %d: %s", code, errs)
		return
	}
	p.checkStore(t, p.db, importPlants(), true)
}

func makeBackupDir(t *testing.T, p place) {
	t.Helper()
	for _, path := range []string{p.backup, p.target} {
		if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

func makeBackup(t *testing.T, p place) {
	t.Helper()
	makeBackupDir(t, p)
	if _, errs, code := command(t, nil, "backup", p.backup, "--db", p.db); code != 0 {
		t.Fatalf("backup ended with %d: %s", code, errs)
	}
}

// afterBackup restores the backup, if it exists.
func afterBackup(t *testing.T, p place, _ string, done bool) {
	t.Helper()
	p.checkStore(t, p.db, nil, true)
	if _, err := os.Stat(p.backup); err != nil {
		if done {
			t.Errorf("the backup ended with 0 and does not exist: %v", err)
		}
		return
	}
	verify(t, p.backup)
	if _, errs, code := command(t, nil, "restore", p.backup, "--db", p.target); code != 0 {
		t.Errorf("restore of the backup ended with %d: %s", code, errs)
		return
	}
	p.checkStore(t, p.target, nil, true)
}

// afterRestore checks a restored new store: it must be complete or must not exist, and a repeated restore must succeed.
func afterRestore(t *testing.T, p place, _ string, done bool) {
	t.Helper()
	if _, err := os.Stat(p.target); err == nil {
		p.checkStore(t, p.target, nil, true)
		return
	}
	if done {
		t.Error("the restore ended with 0 and the store does not exist")
	}
	if _, errs, code := command(t, nil, "restore", p.backup, "--db", p.target); code != 0 {
		t.Errorf("the repeated restore ended with %d: %s", code, errs)
		return
	}
	p.checkStore(t, p.target, nil, true)
}

// afterRestoreForce accepts the old and the restored store: both have the same plants.
func afterRestoreForce(t *testing.T, p place, _ string, _ bool) {
	t.Helper()
	p.checkStore(t, p.db, nil, true)
}
