package main

import (
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

// content is the output of the commands that read a store of every schema.
type content struct{ plants, records, tokens string }

func contentOf(t *testing.T, db string) content {
	t.Helper()
	return content{
		plants:  plantstore(t, "export", "--format", "jsonl", "--db", db),
		records: plantstore(t, "list", "--json", "--db", db),
		tokens:  plantstore(t, "token", "list", "--json", "--db", db),
	}
}

// testUpgrade upgrades a store, compares its content, and serves it.
func testUpgrade(t *testing.T, db string, auth fixtureAuth) {
	before := contentOf(t, db)
	if want := strings.Join(fixturePlants, "\n") + "\n"; before.plants != want {
		t.Errorf("plants (-want +got):\n%s", cmp.Diff(want, before.plants))
	}
	for _, want := range []string{
		`{"kind":"token","id":1,"name":"nursery","state":"valid",`, `{"kind":"token","id":2,"name":"lost","state":"revoked",`,
		`{"kind":"token","id":3,"name":"guest",`,
	} {
		if !strings.Contains(withoutPrefixes(before.tokens), want) {
			t.Errorf("no token %s in:\n%s", want, before.tokens)
		}
	}
	entries := auditEntries(t, db)
	plantstore(t, "migrate", "--db", db)
	if diff := cmp.Diff(before, contentOf(t, db), cmp.AllowUnexported(content{})); diff != "" {
		t.Errorf("the migration changed (-before +after):\n%s", diff)
	}
	if out := plantstore(t, "audit", "verify", "--db", db); !strings.Contains(out, " is undamaged: ") {
		t.Errorf("audit verify: %s", out)
	}
	if after := auditEntries(t, db); !strings.HasPrefix(after, entries) {
		t.Errorf("the audit log begins with\n%s\nwant\n%s", after, entries)
	}

	s := startServer(t, db)
	for _, c := range []struct {
		secret, body string
		want         int
	}{
		{auth.Active, fixturePlants[2], http.StatusOK},                  // a replay
		{auth.Active, `{"id":1,"name":"other"}`, http.StatusBadRequest}, // 40041
		{auth.Active, `{"id":2,"name":"new"}`, http.StatusOK},
		{auth.Revoked, `{"id":3,"name":"refused"}`, http.StatusUnauthorized},
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

// withoutPrefixes removes the members that tokens have since schema 3.
func withoutPrefixes(tokens string) string {
	lines := strings.Split(tokens, "\n")
	for i, line := range lines {
		if before, after, ok := strings.Cut(line, `"prefix":"`); ok {
			_, after, _ = strings.Cut(after, `",`)
			lines[i] = before + after
		}
	}
	return strings.Join(lines, "\n")
}

// auditEntries returns the entries of the audit log, which a store has since schema 4.
func auditEntries(t *testing.T, db string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "plantstore", "audit", "list", "--json", "--db", db)
	cmd.Env = cleanEnviron()
	out, err := cmd.CombinedOutput()
	if err != nil && !strings.Contains(string(out), "older than the audit log") {
		t.Fatalf("audit list: %v\n%s", err, out)
	}
	if err != nil {
		return ""
	}
	return string(out)
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
		refuses(t, name+" has schema 99", "verify", "--db", path)
		refuses(t, name+" has schema 99", "backup", filepath.Join(t.TempDir(), "backup.db"), "--db", path)
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
		{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--print-tokens"},
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
		refuses(t, message, args...)
	}
	if diff := cmp.Diff(before, read()); diff != "" {
		t.Errorf("a refused command changed the store:\n%s", diff)
	}
}

// refuses runs the program, which must exit with 1 and the message, and print nothing else.
func refuses(t *testing.T, message string, args ...string) {
	t.Helper()
	out, err := commandOutput(t, "plantstore", args...)
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

// TestRollingUpgrade builds the program that wrote a fixture of the schema before the newest, and replaces its servers
// one after the other. A client creates plants at both servers before and after each step.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it builds an older program")
	}
	older := buildOlder(t, olderCommit(t))
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
	plantstore(t, "migrate", "--db", url)
	createBoth() // two older servers on the newest schema
	out, err := commandOutput(t, older, "serve", "--db", url, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	if err == nil || !strings.Contains(out.stderr, "supports schemas up to") {
		t.Errorf("an older server starts on the newest schema: %v\n%s", err, out.stderr)
	}
	for i := range servers {
		servers[i].stop(t)
		servers[i] = startServer(t, url)
		createBoth()
	}
	added := plantstore(t, "token", "create", "added", "--no-expiry", "--db", url)
	code, _, err := post(t.Context(), httpClient(1), servers[0].url, strings.TrimSpace(added), `{"id":0,"name":"zero"}`)
	if code != http.StatusOK || err != nil {
		t.Errorf("a new token: %d, %v", code, err)
	}
	for _, s := range servers {
		s.stop(t)
	}
	if got := strings.Count(plantstore(t, "export", "--format", "jsonl", "--db", url), "\n"); got != creates+1 {
		t.Errorf("%d plants, want %d", got, creates+1)
	}
}

// olderCommit returns the commit of a program of the newest schema before this one.
func olderCommit(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "new.db")
	plantstore(t, "token", "create", "new", "--no-expiry", "--create", "--db", path)
	newest, err := queryInt(path, "PRAGMA user_version")
	if err != nil {
		t.Fatal(err)
	}
	var older facts
	for _, name := range fixtureNames(t) {
		if f := readFacts(t, name); f.Schema < newest && f.Schema >= older.Schema {
			older = f
		}
	}
	return older.Commit
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
