// Package failpoints kills the program at named failpoints of the write path and of its commands, and checks the store
// afterwards.
package failpoints

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"plantstore/faults/rig"
)

// before inserts a failpoint before a line of the engine's sources.
func before(file, line, name string) rig.Weakness {
	return rig.Weakness{File: "internal/sqlite/" + file, Old: line, New: fmt.Sprintf("failpoint(%q)\n%s", name, line)}
}

// after inserts a failpoint after a line of the engine's sources.
func after(file, line, name string) rig.Weakness {
	return rig.Weakness{File: "internal/sqlite/" + file, Old: line, New: fmt.Sprintf("%s\nfailpoint(%q)\n", line, name)}
}

// failpoints are all failpoints.
var failpoints = []rig.Weakness{
	rig.Killer("internal/sqlite"),
	rig.Killer("internal/sqlite/dbfile"),
	rig.Killer("internal/sqlite/backupfile"),
	rig.Killer("internal/store"),
	before("transact.go",
		"	if err := traced(ctx, \"BEGIN\", func() error { return e.begin(ctx) }); err != nil {\n", "before begin"),
	after("transact.go", "	before := e.writer.TotalChanges()\n", "after begin"),
	after("insert.go", "	s := e.stmts.insert\n", "insert"),
	before("transact.go",
		"	err = traced(ctx, \"COMMIT\", func() error { return e.writer.Exec(\"COMMIT\") })\n", "before commit"),
	before("transact.go", "			e.updateMark(e.current.commit)\n", "after commit"),
	after("transact.go", "			e.updateMark(e.current.commit)\n", "after recording the commit"),
	before("checkpoint.go", "	frames, copied, err = conn.Checkpoint(sqlite3.Passive)\n", "before checkpoint"),
	after("checkpoint.go", "	frames, copied, err = conn.Checkpoint(sqlite3.Passive)\n", "after checkpoint"),
	before("dbfile/statements.go", "		before, _, err := TokenDigests(s.Conn, \"id = ?\", each[0])\n", "token write"),
	before("dbfile/statements.go", "		after, _, err := TokenDigests(s.Conn, \"id = ?\", each[0])\n", "token write"),
	{
		File: "internal/store/auditlog.go",
		Old:  "			_, err = t.Exec(\"UPDATE plantstore SET audit_sequence = $1, audit_hash = $2\", r.Sequence, r.Hash[:])\n",
		New: `failpoint("audit entry")
			_, err = t.Exec("UPDATE plantstore SET audit_sequence = $1, audit_hash = $2", r.Sequence, r.Hash[:])
`,
	},
	after("dbfile/schema.go", "	if err := c.Exec(m.SQL); err != nil {\n"+
		"		return fmt.Errorf(\"migration %s: %w\", m.File, err)\n	}\n", "migration"),
	before("engine.go", "	_, _, err := e.writer.Checkpoint(sqlite3.Truncate)\n", "start"),
	before("engine.go", "	return e.release()\n}\n\n// release", "shutdown"),
	rig.Killer("internal/safefile"),
	{
		File: "internal/safefile/safefile.go",
		Old:  "		err = f.Publish(replace)\n",
		New:  "		failpoint(\"before the manifest's rename\")\n		err = f.Publish(replace)\n",
	},
	before("backupfile/backup.go", "	if err := temp.Publish(false); err != nil {\n", "before the backup's rename"),
	after(
		"backupfile/backup.go", "		return m, errors.Join(err, os.Remove(to+ManifestSuffix))\n	}\n",
		"after the backup's rename",
	),
	before("backupfile/restore.go",
		"	for _, suffix := range append(slices.Clone(dbfile.SQLiteSuffixes), dbfile.MarkSuffix) {\n",
		"before the old store is removed"),
	{
		File: "internal/sqlite/backupfile/restore.go",
		Old:  "	return temp.Publish(replace)\n",
		New: `failpoint("before the store's rename")
			err = temp.Publish(replace)
			failpoint("after the store's rename")
			return err
`,
	},
}

// runKilled runs the program with a failpoint, which must kill it.
func runKilled(t *testing.T, program, point string, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, args...)
	command.Env = append(os.Environ(), "FAILPOINT="+point)
	out, err := command.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("%v was not killed at %q: %v\n%s", args, point, err, out)
	}
}

// run runs the program, which must succeed, and returns its standard output.
func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	var out, faults bytes.Buffer
	command := exec.CommandContext(t.Context(), program, args...)
	command.Stdout, command.Stderr = &out, &faults
	if err := command.Run(); err != nil {
		t.Fatalf("%v: %v\n%s%s", args, err, &out, &faults)
	}
	return out.String()
}

// checkStore verifies a store and returns its plants.
func checkStore(t *testing.T, program, db string) map[int64]string {
	t.Helper()
	run(t, program, "verify", "--db", db)
	plants, err := rig.Export(t, program, db)
	if err != nil {
		t.Fatal(err)
	}
	return plants
}

var long = flag.Bool("long", false, "kill at more counts of each failpoint")

// counts are the counts of a failpoint at which a server is killed.
func counts() []int {
	if *long {
		return []int{1, 2, 3, 4, 5, 8, 13, 21, 34, 55, 89, 144}
	}
	return []int{1, 30}
}

// TestServer kills a server under load at each failpoint and starts it again.
func TestServer(t *testing.T) {
	t.Parallel()
	program := rig.Build(t, failpoints...)
	for _, name := range []string{
		"before begin", "after begin", "insert", "before commit", "after commit", "after recording the commit",
		"before checkpoint", "after checkpoint",
	} {
		for _, count := range counts() {
			t.Run(fmt.Sprintf("%s %d", name, count), func(t *testing.T) {
				t.Parallel()
				db := filepath.Join(t.TempDir(), "plants.db")
				token := rig.Token(t, program, db, "a")
				acknowledged, sent := load(t, program, db, token, name, count)
				server, err := rig.Start(t, program, db, nil)
				if err != nil {
					t.Fatal(err)
				}
				if code := server.Stop(); code != 0 {
					t.Errorf("the next server ended with code %d:\n%s", code, server.Log())
				}
				stored := checkStore(t, program, db)
				for id, plant := range acknowledged {
					if stored[id] != plant {
						t.Errorf("plant %d was acknowledged as %q and is stored as %q", id, plant, stored[id])
					}
				}
				for id, plant := range stored {
					if sent[id] != plant {
						t.Errorf("plant %d is stored as %q and was sent as %q", id, plant, sent[id])
					}
				}
			})
		}
	}
}

// walBytesMax is the size of the WAL that the server does not exceed, so it begins a checkpoint before that.
const walBytesMax = 64 << 20

// load sends plants to a server until it is killed at a count of a failpoint. The long names cause checkpoints soon. It
// sends enough plants for the count on a slow machine too, and fails if the server survives them.
func load(t *testing.T, program, db, token, name string, count int) (acknowledged, sent map[int64]string) {
	t.Helper()
	point := fmt.Sprintf("%s:%d", name, count)
	server, err := rig.Start(t, program, db, []string{"env", "FAILPOINT=" + point})
	acknowledged, sent = map[int64]string{}, map[int64]string{}
	if errors.Is(err, rig.ErrEnded) {
		return acknowledged, sent // the start of a server runs a transaction, too
	}
	if err != nil {
		t.Fatal(err)
	}
	sentBytes, sentBytesMax := 0, (count+1)*walBytesMax
	var mu sync.Mutex // guards acknowledged, sent and sentBytes
	var clients sync.WaitGroup
	for client := range int64(4) {
		clients.Go(func() {
			c := rig.Client{Token: token}
			for id := client; ; id += 4 {
				name := strings.Repeat(fmt.Sprint("n", id, " "), 5000)
				mu.Lock()
				enough := sentBytes > sentBytesMax
				sent[id] = name
				sentBytes += len(name)
				mu.Unlock()
				if enough {
					return
				}
				outcome, status := c.Create(t.Context(), server.URL, id, name)
				if status == 0 {
					return // the server was killed
				}
				if outcome == rig.Stored {
					mu.Lock()
					acknowledged[id] = name
					mu.Unlock()
				}
			}
		})
	}
	clients.Wait()
	if sentBytes > sentBytesMax {
		t.Fatalf("the server was not killed at %q, after plants of %d MiB", point, sentBytes>>20)
	}
	<-server.Ended()
	return acknowledged, sent
}

// TestCommands kills commands at each of their failpoints. A second run of each command must succeed.
func TestCommands(t *testing.T) {
	t.Parallel()
	program := rig.Build(t, failpoints...)
	dir := t.TempDir()
	csv := filepath.Join(dir, "plants.csv")
	rows, want := []byte("id,name,tag\n"), map[int64]string{}
	for id := range int64(25_000) { // three batches
		rows = fmt.Appendf(rows, "%d,made %d,\n", id, id)
		want[id] = fmt.Sprint("made ", id)
	}
	if err := os.WriteFile(csv, rows, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, point := range []string{
		"before begin:2", "after begin:3", "insert:15000", "before commit:3", "after commit:2",
		"after recording the commit:3", "migration:1", "start:1", "shutdown:1",
	} {
		t.Run("import, "+point, func(t *testing.T) {
			db := filepath.Join(t.TempDir(), "plants.db")
			runKilled(t, program, point, "import", csv, "--create", "--db", db)
			run(t, program, "import", csv, "--create", "--db", db)
			if got := checkStore(t, program, db); !maps.Equal(got, want) {
				t.Errorf("%d plants are stored, want %d", len(got), len(want))
			}
		})
	}
	for _, point := range []string{"token write:1", "audit entry:1", "before commit:1", "after commit:1"} {
		t.Run("token create, "+point, func(t *testing.T) { testTokenCreate(t, program, csv, point) })
	}
	store := filepath.Join(dir, "plants.db")
	run(t, program, "import", csv, "--create", "--db", store)
	for _, point := range []string{
		"before the manifest's rename", "before the backup's rename", "after the backup's rename",
	} {
		t.Run("backup, "+point, func(t *testing.T) { testBackup(t, program, store, point) })
	}
	backup := filepath.Join(dir, "backup.db")
	run(t, program, "backup", backup, "--db", store)
	for _, point := range []string{
		"before the old store is removed", "before the store's rename", "after the store's rename",
	} {
		t.Run("restore, "+point, func(t *testing.T) {
			db := filepath.Join(t.TempDir(), "plants.db")
			few := filepath.Join(t.TempDir(), "few.csv")
			if err := os.WriteFile(few, []byte("id,name\n-1,old\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			run(t, program, "import", few, "--create", "--db", db)
			runKilled(t, program, point+":1", "restore", backup, "--force", "--db", db)
			if got := checkStore(t, program, db); !maps.Equal(got, want) && !maps.Equal(got, map[int64]string{-1: "old"}) {
				t.Errorf("%d plants are stored, want those of the old store or of the backup", len(got))
			}
			run(t, program, "restore", backup, "--force", "--db", db)
			if got := checkStore(t, program, db); !maps.Equal(got, want) {
				t.Errorf("%d plants are stored, want %d", len(got), len(want))
			}
		})
	}
}

// testTokenCreate kills a token create. The store has the token and its entry in the audit log, or none of them.
func testTokenCreate(t *testing.T, program, csv, point string) {
	t.Helper()
	db := filepath.Join(t.TempDir(), "plants.db")
	run(t, program, "import", csv, "--create", "--db", db)
	runKilled(t, program, point, "token", "create", "a", "--no-expiry", "--db", db)
	tokens := strings.Count(run(t, program, "token", "list", "--db", db), "plants:create")
	if committed := strings.HasPrefix(point, "after"); (tokens > 0) != committed {
		t.Errorf("the killed command stored %d tokens", tokens)
	}
	run(t, program, "token", "create", "b", "--no-expiry", "--db", db)
	if entries := strings.Count(run(t, program, "audit", "list", "--db", db), "token.create"); entries != tokens+1 {
		t.Errorf("%d entries for %d tokens", entries, tokens+1)
	}
	run(t, program, "audit", "verify", "--db", db)
	checkStore(t, program, db)
}

// testBackup kills a backup. If the backup exists, it must be complete.
func testBackup(t *testing.T, program, store, point string) {
	t.Helper()
	backup := filepath.Join(t.TempDir(), "backup.db")
	runKilled(t, program, point+":1", "backup", backup, "--db", store)
	if _, err := os.Stat(backup); err == nil {
		run(t, program, "restore", backup, "--db", filepath.Join(t.TempDir(), "restored.db"))
	}
	again := filepath.Join(t.TempDir(), "again.db")
	run(t, program, "backup", again, "--db", store)
	run(t, program, "restore", again, "--db", filepath.Join(t.TempDir(), "restored.db"))
}

// TestControl shows that TestServer detects a server that responds before it commits. The weakness delays the commit,
// so that the response arrives before the kill.
func TestControl(t *testing.T) {
	t.Parallel()
	early := rig.EarlyAnswer
	const commit = "\toutcomes, err := w.engine.Insert("
	early.New = strings.Replace(early.New, commit, "\ttime.Sleep(200 * time.Millisecond)\n"+commit, 1)
	if early.New == rig.EarlyAnswer.New {
		t.Fatalf("the weakness does not contain %q; adapt it to the source", commit)
	}
	program := rig.Build(t, append(failpoints[:len(failpoints):len(failpoints)], early)...)
	for attempt := range 5 {
		db := filepath.Join(t.TempDir(), "plants.db")
		token := rig.Token(t, program, db, "a")
		acknowledged, _ := load(t, program, db, token, "before commit", 4+attempt)
		stored := checkStore(t, program, db)
		for id := range acknowledged {
			if _, ok := stored[id]; !ok {
				return // detected
			}
		}
	}
	t.Error("a server that responds before it commits was not detected")
}
