package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestUpgrade upgrades the stores that each version has written, on both engines.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	names := fixtureNames(t)
	if testing.Short() {
		names = []string{names[0], names[len(names)-1]}
	}
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		for _, name := range names {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				path := unpackSQLite(t, name)
				testUpgrade(t, path, readFacts(t, name).Stores[fixtureSQLite])
				if out := plantstore(t, "verify", "--db", path); !strings.Contains(out, "is undamaged: 5 plants, ") {
					t.Errorf("verify: %s", out)
				}
			})
		}
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		server := postgresServer(t)
		for _, name := range names {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				url, err := server.Database(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				loadPostgres(t, name, url)
				testUpgrade(t, url, readFacts(t, name).Stores[fixturePostgres])
			})
		}
	})
}

// testUpgrade migrates a store, compares its content with the output of the program that wrote it, and serves it.
func testUpgrade(t *testing.T, db string, f fixtureStore) {
	plantstore(t, "migrate", "--db", db)
	plants := plantstore(t, "export", "--format", "jsonl", "--db", db)
	if diff := cmp.Diff(strings.Join(fixturePlants, "\n")+"\n", plants); diff != "" {
		t.Errorf("plants (-want +got):\n%s", diff)
	}
	now := fixtureContent(t, "plantstore", db)
	wantMembers(t, f.Records, now.Records)
	wantMembers(t, f.Tokens, now.Tokens)
	if out := plantstore(t, "audit", "verify", "--expect", f.Head, "--db", db); !strings.Contains(out, " is undamaged: ") {
		t.Errorf("audit verify: %s", out)
	}

	s := startServer(t, db)
	for _, c := range []struct {
		secret, body string
		want         int
	}{
		{f.Active, fixturePlants[2], http.StatusOK},                  // a replay
		{f.Active, `{"id":1,"name":"other"}`, http.StatusBadRequest}, // 40041
		{f.Active, `{"id":2,"name":"new"}`, http.StatusOK},
		{f.Revoked, `{"id":3,"name":"refused"}`, http.StatusUnauthorized},
	} {
		if code, answer, err := post(t.Context(), httpClient(1), s.url, c.secret, c.body); code != c.want || err != nil {
			t.Errorf("%s: %d %s, %v; want %d", c.body, code, answer, err, c.want)
		}
	}
	s.stop(t)
	if got := strings.Count(plantstore(t, "export", "--format", "jsonl", "--db", db), "\n"); got != len(fixturePlants)+1 {
		t.Errorf("%d plants, want %d", got, len(fixturePlants)+1)
	}
}

// wantMembers compares JSON objects. A newer program may print more members. The state of a token depends on the date.
func wantMembers(t *testing.T, want, got []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("got %d objects, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
		return
	}
	for i := range want {
		var before, after map[string]json.RawMessage
		if err := errors.Join(json.Unmarshal([]byte(want[i]), &before), json.Unmarshal([]byte(got[i]), &after)); err != nil {
			t.Fatal(err)
		}
		for name, value := range before {
			if name != "state" && string(after[name]) != string(value) {
				t.Errorf("got %s\nwant %s with the value of %s", got[i], want[i], name)
			}
		}
	}
}

// TestNewerStore shows that every command refuses a store of a newer schema with exit code 1, and changes nothing.
func TestNewerStore(t *testing.T) {
	t.Parallel()
	name := fixtureNames(t)[0]
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		path := unpackSQLite(t, name)
		name := filepath.Base(path) // the messages have the directory without its symbolic links
		plantstore(t, "migrate", "--db", path)
		if err := execSQL(path, "PRAGMA user_version = 99"); err != nil {
			t.Fatal(err)
		}
		testNewerStore(t, path, name+" has schema 99, and this plantstore supports schemas up to ", func() string {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		})
		refuses(t, "plantstore", name+" has schema 99", "verify", "--db", path)
		refuses(t, "plantstore", name+" has schema 99", "backup", filepath.Join(t.TempDir(), "backup.db"), "--db", path)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := database(t)
		loadPostgres(t, name, url)
		plantstore(t, "migrate", "--db", url)
		executeSQL(t, url, "UPDATE public.plantstore SET version = 99")
		testNewerStore(t, url, "it has schema 99, and this plantstore supports schemas up to ", func() string {
			return dumpPostgres(t, url)
		})
	})
}

func testNewerStore(t *testing.T, db, message string, read func() string) {
	before := read()
	plants := filepath.Join(t.TempDir(), "plants.jsonl")
	writeFileText(t, plants, fixturePlants[0]+"\n")
	for _, args := range [][]string{
		{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"},
		{"migrate"},
		{"get", "1"},
		{"list"},
		{"export"},
		{"import", plants},
		{"token", "create", "new", "--no-expiry"},
		{"token", "list"},
		{"token", "revoke", "nursery"},
		{"audit", "list"},
		{"audit", "verify"},
		{"webhook", "list"},
		{"move", "--from", db, "--to", filepath.Join(t.TempDir(), "other.db")},
	} {
		if args[0] != "move" {
			args = append(args, "--db", db)
		}
		refuses(t, "plantstore", message, args...)
	}
	if diff := cmp.Diff(before, read()); diff != "" {
		t.Errorf("a refused command changed the store:\n%s", diff)
	}
}

// refuses runs a program, which must exit with 1 and the message, and print nothing else.
func refuses(t *testing.T, program, message string, args ...string) {
	t.Helper()
	out, err := commandOutput(t, program, args...)
	var exit *exec.ExitError
	failed := errors.As(err, &exit) && exit.ExitCode() == exitFailure
	if !failed || !strings.Contains(out.stderr, message) || out.stdout != "" {
		t.Errorf("%s: %v\nstdout: %s\nstderr: %s\nwant exit code 1 and %q",
			strings.Join(args, " "), err, out.stdout, out.stderr, message)
	}
}

type outputs struct{ stdout, stderr string }

func commandOutput(t *testing.T, program string, args ...string) (outputs, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env, cmd.Dir = cleanEnviron(), t.TempDir()
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	return outputs{stdout.String(), stderr.String()}, err
}

// TestNextSchema runs the commands of a program with a schema more on stores in files that this program wrote.
func TestNextSchema(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it builds a program")
	}
	next := buildNext(t)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	plants, old, served := at("plants.jsonl"), at("old.db"), at("served.db")
	writeFileText(t, plants, strings.Join(fixturePlants, "\n")+"\n")
	for _, db := range []string{old, served} {
		plantstore(t, "token", "create", "nursery", "--no-expiry", "--create", "--db", db)
		plantstore(t, "import", plants, "--db", db)
	}
	before, err := os.ReadFile(old)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"get", "1"},
		{"list"},
		{"export"},
		{"import", plants},
		{"token", "create", "new", "--no-expiry"},
		{"token", "list"},
		{"token", "revoke", "nursery"},
		{"audit", "list"},
		{"webhook", "list"},
		{"move", "--from", old, "--to", at("new.db")},
	} {
		if args[0] != "move" {
			args = append(args, "--db", old)
		}
		refuses(t, next, "old.db has schema 1 and this plantstore needs schema 2: "+
			"stop the server of this store if one runs, then run plantstore migrate or start plantstore serve", args...)
	}
	out := runProgram(t, next, "verify", "--db", old)
	if !strings.Contains(out, "old.db is undamaged: 4 plants, 1 tokens") {
		t.Errorf("verify: %s", out)
	}
	runProgram(t, next, "backup", at("backup.db"), "--db", old)
	runProgram(t, next, "restore", at("backup.db"), "--db", at("restored.db"))
	if after, err := os.ReadFile(old); err != nil || !bytes.Equal(before, after) {
		t.Errorf("a command has changed the older store: %v", err)
	}
	for _, c := range []struct{ json, want string }{
		{"--json=false", old + ": migrated from schema 1 to 2\n"},
		{"--json=false", old + ": schema 2 is the newest; nothing to do\n"},
		{"--json", `{"db":"` + old + `","from":2,"to":2}` + "\n"},
	} {
		if out := runProgram(t, next, "migrate", c.json, "--db", old); out != c.want {
			t.Errorf("migrate %s: got %q, want %q", c.json, out, c.want)
		}
	}
	if out := runProgram(t, next, "audit", "list", "--db", old); !strings.Contains(out, "from_schema=1 to_schema=2") {
		t.Errorf("no entry of the migration:\n%s", out)
	}
	refuses(t, "plantstore", "old.db has schema 2, and this plantstore supports schemas up to 1", "list", "--db", old)

	s := startOther(t, next, served)
	if log := s.stderr.String(); !strings.Contains(log, `msg="schema migrated" from=1 to=2`) {
		t.Errorf("the log has no migration:\n%s", log)
	}
	s.stop(t)
}

// TestRollingUpgrade replaces servers of the schema before the newest one after the other. A client creates plants at
// both servers before and after each step.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it builds a program")
	}
	older, newer := rollingPrograms(t)
	url := database(t)
	secret := strings.TrimSpace(runProgram(t, older, "token", "create", "nursery", "--no-expiry", "--create", "--db", url))
	servers := []*testServer{startOther(t, older, url), startOther(t, older, url)}
	creates := 0
	createBoth := func() {
		t.Helper()
		for _, s := range servers {
			for range 20 {
				creates++
				body := fmt.Sprintf(`{"id":%d,"name":"plant"}`, creates)
				for range 2 { // the second request is a replay
					if code, answer, err := post(t.Context(), httpClient(1), s.url, secret, body); code != 200 || err != nil {
						t.Fatalf("%s: %d %s, %v; log:\n%s", body, code, answer, err, s.stderr)
					}
				}
			}
		}
	}
	createBoth()
	runProgram(t, newer, "migrate", "--db", url)
	createBoth() // two older servers on the newest schema
	out, err := commandOutput(t, older, "serve", "--db", url, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	if err == nil || !strings.Contains(out.stderr, "supports schemas up to") {
		t.Errorf("an older server starts on the newest schema: %v\n%s", err, out.stderr)
	}
	for i := range servers {
		servers[i].stop(t)
		servers[i] = startOther(t, newer, url)
		createBoth()
	}
	added := runProgram(t, newer, "token", "create", "added", "--no-expiry", "--db", url)
	code, _, err := post(t.Context(), httpClient(1), servers[0].url, strings.TrimSpace(added), `{"id":0,"name":"zero"}`)
	if code != http.StatusOK || err != nil {
		t.Errorf("a new token: %d, %v", code, err)
	}
	for _, s := range servers {
		s.stop(t)
	}
	if got := strings.Count(runProgram(t, newer, "export", "--format", "jsonl", "--db", url), "\n"); got != creates+1 {
		t.Errorf("%d plants, want %d", got, creates+1)
	}
}

// rollingPrograms returns the program that wrote a fixture of the schema before the newest, and this one. If there is
// no such fixture, it returns this program and one with a schema more.
func rollingPrograms(t *testing.T) (older, newer string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "new.db")
	plantstore(t, "token", "create", "new", "--no-expiry", "--create", "--db", path)
	newest, errSchema := queryInt(path, "PRAGMA user_version")
	this, err := exec.LookPath("plantstore")
	if err := errors.Join(errSchema, err); err != nil {
		t.Fatal(err)
	}
	var last facts
	for _, name := range fixtureNames(t) {
		if f := readFacts(t, name); f.Schema < newest && f.Schema >= last.Schema {
			last = f
		}
	}
	if last.Commit == "" {
		return this, buildNext(t)
	}
	return buildOlder(t, last.Commit), this
}

// buildNext builds this program with a migration more, which adds a column on both engines.
func buildNext(t *testing.T) string {
	t.Helper()
	dir, replace := t.TempDir(), map[string]string{}
	for path, text := range map[string]string{
		"internal/sqlite/dbfile/migrations/9999_next.sql": "ALTER TABLE tokens ADD COLUMN note TEXT;",
		"internal/postgres/migrations/9999_next.sql":      "ALTER TABLE tokens ADD COLUMN note text;",
	} {
		name := filepath.Join(dir, strings.ReplaceAll(path, "/", "_"))
		writeFileText(t, name, text)
		absolute, err := filepath.Abs(filepath.Join("../..", path))
		if err != nil {
			t.Fatal(err)
		}
		replace[absolute] = name
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlay, program := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "plantstore-next")
	writeFileText(t, overlay, string(text))
	build := exec.CommandContext(t.Context(), "go", "build", "-C", "../..", "-buildvcs=false", "-overlay", overlay,
		"-o", program, "./cmd/plantstore")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// buildOlder builds the program of a commit. It skips the test if the clone lacks the commit, unless CI is true. A
// shallow clone has no older commits, so the test is skipped there in any case.
func buildOlder(t *testing.T, commit string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "cat-file", "-e", commit+"^{commit}").CombinedOutput()
	shallow, _ := exec.CommandContext(t.Context(), "git", "rev-parse", "--is-shallow-repository").Output()
	if err != nil && (os.Getenv("CI") != "true" || string(shallow) == "true\n") {
		t.Skipf("the clone lacks commit %s: %v\n%s", commit, err, out)
	}
	dir := t.TempDir()
	archive, program := filepath.Join(dir, "sources.tar"), filepath.Join(dir, "plantstore-older")
	for _, args := range [][]string{
		{"git", "-C", "../..", "archive", "--output", archive, commit},
		{"tar", "-x", "-f", archive, "-C", dir},
		{"go", "build", "-C", dir, "-buildvcs=false", "-o", program, "./cmd/plantstore"},
	} {
		if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	return program
}
