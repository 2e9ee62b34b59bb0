package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

var (
	fixtureVersion = flag.String("fixture", "", "write the fixture of this version with -program")
	fixtureProgram = flag.String("program", "plantstore", "path of the program that writes the fixture")
	fixtureCommit  = flag.String("commit", "", "commit that -program was built from")
)

const (
	fixtures        = "testdata/stores" // a directory for each version
	fixtureSQLite   = "plantstore.db.gz"
	fixturePostgres = "plantstore.sql"
	fixtureFacts    = "facts.json"
)

// fixturePlants are the plants of every fixture, as the client sent them.
var fixturePlants = []string{
	`{"id":-9223372036854775808,"name":"first"}`,
	`{"id":-1,"name":"Weißdorn","tag":"\"hedge\", 2 m"}`,
	`{"id":1,"name":"ばら 🌹","tag":""}`,
	`{"id":9223372036854775807,"name":"last","tag":"edge"}`,
}

// facts describes the stores of a fixture. The secrets open nothing but the fixture.
type facts struct {
	Program string                  `json:"program"` // output of its version command
	Commit  string                  `json:"commit"`  // that the program was built from
	Schema  int64                   `json:"schema"`
	Stores  map[string]fixtureStore `json:"stores"` // by the name of the file
}

// fixtureStore has the secrets of two tokens of a store, and its content as the program printed it: a JSON object for
// each plant and token.
type fixtureStore struct {
	Active  string   `json:"active"`
	Revoked string   `json:"revoked"`
	Records []string `json:"records"`
	Tokens  []string `json:"tokens"`
	Head    string   `json:"head"` // the audit log's
}

// fixtureNames returns the versions with a fixture.
func fixtureNames(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(fixtures, "*", fixtureFacts))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	var names []string
	for _, path := range paths {
		names = append(names, filepath.Base(filepath.Dir(path)))
	}
	return names
}

func readFacts(t *testing.T, name string) facts {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(fixtures, name, fixtureFacts))
	var f facts
	if err := errors.Join(err, json.Unmarshal(text, &f)); err != nil {
		t.Fatal(err)
	}
	return f
}

// unpackSQLite writes the SQLite store of a fixture to a new file.
func unpackSQLite(t *testing.T, name string) string {
	t.Helper()
	packed, err := os.ReadFile(filepath.Join(fixtures, name, fixtureSQLite))
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	store, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "plantstore.db")
	writeFileText(t, path, string(store))
	return path
}

// loadPostgres executes the dump of a fixture in an empty database.
func loadPostgres(t *testing.T, name, url string) {
	t.Helper()
	dump, err := os.ReadFile(filepath.Join(fixtures, name, fixturePostgres))
	if err != nil {
		t.Fatal(err)
	}
	executeSQL(t, url, string(dump))
}

func executeSQL(t *testing.T, url, statements string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Exec(t.Context(), statements)
	if err := errors.Join(err, c.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// dumpPostgres returns the statements that create the store of a database.
func dumpPostgres(t *testing.T, url string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "pg_dump", "--inserts", "--no-owner", "--no-privileges", url)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	dump, err := cmd.Output()
	if err != nil {
		t.Fatalf("pg_dump: %v\n%s", err, &stderr)
	}
	// \restrict has a random argument and belongs to psql. Servers before 17 do not know transaction_timeout.
	return regexp.MustCompile(`(?m)^(--.*|\\.*|SET transaction_timeout.*|)\n`).ReplaceAllString(string(dump), "")
}

// TestWriteFixture writes the fixture of a version, with -fixture. It uses only commands of every version.
func TestWriteFixture(t *testing.T) {
	if *fixtureVersion == "" {
		t.Skip("no -fixture")
	}
	program, err := exec.LookPath(*fixtureProgram)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(fixtures, *fixtureVersion)
	if err := os.Mkdir(dir, 0o750); err != nil {
		t.Fatalf("the fixture of a released version never changes: %v", err)
	}
	version, _, _ := strings.Cut(runProgram(t, program, "version"), "\n")
	f := facts{Program: version, Commit: *fixtureCommit, Stores: map[string]fixtureStore{}}

	path := filepath.Join(t.TempDir(), "plantstore.db")
	f.Stores[fixtureSQLite] = fillFixture(t, program, path)
	if f.Schema, err = queryInt(path, "PRAGMA user_version"); err != nil {
		t.Fatal(err)
	}
	store, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path + "-wal"); err == nil && info.Size() > 0 {
		t.Fatal("the stopped server has left a WAL")
	}
	writeFileText(t, filepath.Join(dir, fixtureSQLite), compressed(t, store))

	url := database(t)
	f.Stores[fixturePostgres] = fillFixture(t, program, url)
	writeFileText(t, filepath.Join(dir, fixturePostgres), dumpPostgres(t, url))
	text, err := json.MarshalIndent(f, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	writeFileText(t, filepath.Join(dir, fixtureFacts), string(text)+"\n")
}

func compressed(t *testing.T, text []byte) string {
	t.Helper()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write(text)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return packed.String()
}

// fillFixture creates a store with the plants and tokens of a fixture.
func fillFixture(t *testing.T, program, db string) fixtureStore {
	t.Helper()
	create := func(name string, args ...string) string {
		args = append([]string{"token", "create", name, "--create", "--db", db}, args...)
		return strings.TrimSpace(runProgram(t, program, args...))
	}
	active, revoked := create("nursery", "--no-expiry"), create("lost", "--no-expiry")
	create("guest", "--expires", "90d")
	runProgram(t, program, "token", "revoke", "lost", "--db", db)

	s := startOther(t, program, db)
	for _, body := range fixturePlants {
		if code, answer, err := post(t.Context(), httpClient(1), s.url, active, body); code != 200 || err != nil {
			t.Fatalf("%s: %d %s, %v", body, code, answer, err)
		}
	}
	s.stop(t)
	f := fixtureContent(t, program, db)
	f.Active, f.Revoked = active, revoked
	return f
}

// fixtureContent returns the content of a store.
func fixtureContent(t *testing.T, program, db string) fixtureStore {
	t.Helper()
	lines := func(args ...string) []string {
		out := runProgram(t, program, append(args, "--json", "--db", db)...)
		return strings.Split(strings.TrimSpace(out), "\n")
	}
	var log struct{ Head string }
	if err := json.Unmarshal([]byte(lines("audit", "verify")[0]), &log); err != nil {
		t.Fatal(err)
	}
	return fixtureStore{Records: lines("list"), Tokens: lines("token", "list"), Head: log.Head}
}

// runProgram runs a program of another version and returns its standard output.
func runProgram(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = cleanEnviron()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, &stderr)
	}
	return string(out)
}

// startOther starts a server of another version with the flags that all versions have. It is killed at the end of the
// test if it still runs.
func startOther(t *testing.T, program, db string) *testServer {
	t.Helper()
	p, err := newProcess(t.TempDir(), cleanEnviron(),
		"serve", "--db", db, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Path = program
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	match, err := p.await(p.stderr, `msg=ready listen=(\S+)`)
	if err != nil {
		t.Fatal(err)
	}
	return &testServer{process: p, url: "http://" + match[1]}
}
