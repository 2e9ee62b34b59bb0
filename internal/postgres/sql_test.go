package postgres_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/postgres"
	"plantstore/internal/postgres/pgtest"
	"plantstore/internal/store"
	"plantstore/internal/store/storetest"
)

var update = flag.Bool("update", false, "write the list of statements")

const (
	sqlPage = "../../docs/explanation/sql.md"
	// statementsFile is there for the harness that parses the statements with the
	// grammar of another database, and for people.
	statementsFile = "../../faults/dialect/statements.sql"
)

// TestSQL has the engine do all that it can, and holds every statement that the
// database was sent against the list of docs/explanation/sql.md.
func TestSQL(t *testing.T) {
	t.Parallel()
	r := newRecorder(t)
	r.suite(t)
	r.fill(t)
	r.older(t)
	r.asynchronous(t)
	r.requireStandby(t)
	serving, away := r.statements(t)
	if t.Failed() {
		return // not everything was sent
	}
	nothingMissed(t, slices.Concat(serving, away))
	compareStatements(t, serving, away)

	list := readList(t)
	for _, sql := range serving {
		list.hold(t, sql, list.serving, list.names)
	}
	for _, sql := range away {
		list.hold(t, sql, list.serving, list.away, list.names)
	}
	for _, f := range slices.Concat(list.serving, list.away, list.names) {
		if !f.used {
			t.Errorf("%s lists `%s`, which no statement has", sqlPage, f.text)
		}
	}
}

// recorder is a PostgreSQL of its own that logs every statement.
type recorder struct {
	server *pgtest.Server
	away   map[string]bool // the databases that a store is moved away from
}

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	if server == nil {
		t.Skip("there is no PostgreSQL")
	}
	own, err := pgtest.Start(t.Context(), pgtest.Logging...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := own.Stop(); err != nil {
			t.Error(err)
		}
	})
	return &recorder{own, map[string]bool{}}
}

func (r *recorder) database(t testing.TB) string {
	t.Helper()
	url, err := r.server.Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return url
}

// awayTests of the suite do what is only done to a store that is moved away.
var awayTests = []string{"capture", "state", "lock"}

// suite runs the suite of all engines.
func (r *recorder) suite(t *testing.T) {
	places := make(chan string, 100) // newStore is called by several at once
	t.Run("suite", func(t *testing.T) {
		storetest.Run(t, func(t testing.TB) storetest.Store {
			at := r.database(t)
			if slices.Contains(awayTests, path.Base(t.Name())) {
				places <- at
			}
			return place(at)
		})
	})
	close(places)
	for at := range places {
		r.away[nameOf(t, at)] = true
	}
	if len(r.away) != len(awayTests) {
		t.Errorf("the suite has %d tests that move a store away, want %d: what are they called now?", len(r.away), len(awayTests))
	}
}

// nameOf returns which database a URL names.
func nameOf(t testing.TB, at string) string {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(u.Path, "/")
}

// fill does what plantstore move does to the store that it fills, with so many
// plants at once that it tries COPY, and again with plants that are there.
func (r *recorder) fill(t *testing.T) {
	e := place(r.database(t)).Open(t)
	batch := make([]store.Create, 2000)
	for i := range batch {
		batch[i] = store.Create{Plant: plant.NewPlant{ID: int64(i)}, At: time.Now()}
	}
	token := auth.Token{ID: 1, Name: "a", Scopes: auth.ScopeCreate, CreatedAt: time.Now()}
	for _, do := range []func(context.Context) error{
		func(ctx context.Context) error {
			disengage, err := e.Lock(ctx)
			if err == nil {
				disengage()
			}
			return err
		},
		func(ctx context.Context) error { _, err := e.Interrupted(ctx); return err },
		func(ctx context.Context) error {
			return e.SetMoveState(ctx, store.MoveState{}, store.MoveState{Phase: store.Filling, Other: "another"})
		},
		func(ctx context.Context) error { return e.PutTokens(ctx, []auth.Token{token}) },
		func(ctx context.Context) error { return insertBatch(ctx, e, batch) },
		func(ctx context.Context) error { return insertBatch(ctx, e, batch) },
		e.Reopen,
		func(context.Context) error { return e.Close() },
	} {
		if err := do(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// older starts a server on a store that a mover of an older version left, with
// another role that may create plants.
func (r *recorder) older(t *testing.T) {
	at := r.database(t)
	if err := place(at).Open(t).Close(); err != nil {
		t.Fatal(err)
	}
	execute(t, at, leftByOlder+"; CREATE ROLE server; GRANT INSERT ON plants TO server")
	r.away[nameOf(t, at)] = true
	e, err := postgres.Open(t.Context(), postgres.Config{URL: at, Server: true})
	if err == nil {
		err = e.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// asynchronous opens a store in a database that does not wait for its disk.
func (r *recorder) asynchronous(t *testing.T) {
	at := r.database(t)
	execute(t, at, "ALTER DATABASE "+nameOf(t, at)+" SET synchronous_commit = off")
	if err := place(at).Open(t).Close(); err != nil {
		t.Error(err)
	}
}

// requireStandby stores a plant as a server that requires a synchronous standby
// does. There is none, so what the database is asked after the COMMIT is asked
// when it has ceased to wait for one.
func (r *recorder) requireStandby(t *testing.T) {
	s := &standby{t, r.database(t)}
	if err := place(s.url).Open(t).Close(); err != nil { // makes the tables
		t.Fatal(err)
	}
	s.want()
	asked := make(chan struct{})
	log := slog.New(slog.NewTextHandler(&closer{text: "no synchronous standby", done: asked}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	e, err := postgres.Open(t.Context(), postgres.Config{URL: s.url, MustExist: true, Server: true, RequireSyncStandby: true, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- insertBatch(ctx, e, []store.Create{{Plant: plant.NewPlant{ID: 1}, At: time.Now()}})
	}()
	s.waiting(0)
	s.unwant()
	<-asked
	cancel()
	if err := <-done; !errors.Is(err, store.ErrOutcomeUnknown) {
		t.Errorf("got %v, want %v", err, store.ErrOutcomeUnknown)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// closer closes a channel at the first line of a log that has a text.
type closer struct {
	text string
	once sync.Once
	done chan struct{}
}

func (c *closer) Write(line []byte) (int, error) {
	if strings.Contains(string(line), c.text) {
		c.once.Do(func() { close(c.done) })
	}
	return len(line), nil
}

// statements returns the statements that were sent to stores, and those that were
// only sent to stores that were moved away.
func (r *recorder) statements(t *testing.T) (serving, away []string) {
	t.Helper()
	all, err := r.server.Statements(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	onlyAway := map[string]bool{}
	for _, s := range all {
		sql := oneLine(s.SQL)
		if s.Application != "plantstore" || sql == "" { // a test, or pgx looking whether a connection is alive
			continue
		}
		was, seen := onlyAway[sql]
		onlyAway[sql] = r.away[s.Database] && (was || !seen)
	}
	for _, sql := range slices.Sorted(maps.Keys(onlyAway)) {
		if onlyAway[sql] {
			away = append(away, sql)
		} else {
			serving = append(serving, sql)
		}
	}
	return serving, away
}

var comment = regexp.MustCompile(`--[^\n]*`)

// oneLine returns a statement without comments and line breaks. No string of ours
// has such.
func oneLine(sql string) string {
	return strings.Join(strings.Fields(comment.ReplaceAllString(sql, "")), " ")
}

// nothingMissed fails for a statement that stands in the engine's sources and
// was not sent.
func nothingMissed(t *testing.T, statements []string) {
	t.Helper()
	verb := regexp.MustCompile(`^(ALTER|CREATE|COPY|DELETE|DROP|GRANT|INSERT|LOCK|REVOKE|SELECT|SET|SHOW|TRUNCATE|UPDATE|WITH)\s`)
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), source, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for node := range ast.Preorder(tree) {
			literal, ok := node.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				continue
			}
			text, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			sql := oneLine(text)
			if verb.MatchString(sql) && !slices.ContainsFunc(statements, func(s string) bool { return strings.Contains(s, sql) }) {
				t.Errorf("%s has a statement that this test does not make it send: %s", source, sql)
			}
		}
	}
}

// compareStatements holds the file of statements against what was sent.
func compareStatements(t *testing.T, serving, away []string) {
	t.Helper()
	want := "-- Every statement that the engine for PostgreSQL sends. go test ./internal/postgres -run TestSQL -update writes it.\n\n-- Serving\n\n" +
		strings.Join(serving, "\n") + "\n\n-- Only while a store is moved away\n\n" + strings.Join(away, "\n") + "\n"
	if *update {
		if err := os.WriteFile(statementsFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(statementsFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(want, string(got)); diff != "" {
		t.Errorf("%s is not what is sent; go test ./internal/postgres -run TestSQL -update writes it (-sent +file):\n%s", statementsFile, diff)
	}
}

// list is what docs/explanation/sql.md lists.
type list struct{ serving, away, names []*feature }

// feature is one that a statement may have: words, operators and parentheses in a
// row.
type feature struct {
	text   string
	tokens []string
	name   bool // of a table or a column, which is no function
	used   bool
}

var (
	span = regexp.MustCompile("`([^`]+)`")
	// lexeme is a string, a name or word, a parameter, a number, an operator, or a
	// single character.
	lexeme = regexp.MustCompile(`'(?:[^']|'')*'|"[^"]*"|\w+|\$\d+|[-<>=!+*/%^&|~@#?:]+|\S`)
	free   = regexp.MustCompile(`^('.*|\$?\d+|[(),;.])$`) // what every statement may have
)

// answers are what a cell may begin with that says whether a database takes a
// feature. What is sent all the time has to be taken by all, as far as is known.
var answers = map[string][]string{
	headServing: {"yes", "since ", "partly: ", "not tried"},
	headAway:    {"yes", "since ", "partly: ", "not tried", "no"},
}

// The headings of docs/explanation/sql.md under which features are listed.
const (
	headServing = "Statements of every store"
	headAway    = "Statements of a move"
	headNames   = "Names"
)

// readList reads docs/explanation/sql.md: the code in the first cells of its tables.
func readList(t *testing.T) *list {
	t.Helper()
	page, err := os.ReadFile(sqlPage)
	if err != nil {
		t.Fatal(err)
	}
	l, heading := &list{}, ""
	parts := map[string]*[]*feature{headServing: &l.serving, headAway: &l.away, headNames: &l.names}
	for line := range strings.Lines(string(page)) {
		if text, ok := strings.CutPrefix(line, "## "); ok {
			heading = strings.TrimSpace(text)
		}
		part, cells := parts[heading], strings.Split(strings.Trim(line, "| \n"), " | ")
		if part == nil || !strings.HasPrefix(line, "| `") {
			continue
		}
		for _, code := range span.FindAllStringSubmatch(cells[0], -1) {
			*part = append(*part, newFeature(code[1], heading == headNames))
		}
		checkAnswers(t, cells, answers[heading])
	}
	return l
}

// checkAnswers looks whether a row has a word on each of the three databases.
func checkAnswers(t *testing.T, cells, answers []string) {
	t.Helper()
	if answers != nil && len(cells) != 5 {
		t.Errorf("%s: the row of %s has %d cells, want 5", sqlPage, cells[0], len(cells))
		return
	}
	for _, cell := range cells[2:] {
		if !slices.ContainsFunc(answers, func(answer string) bool { return strings.HasPrefix(cell, answer) }) {
			t.Errorf("%s says %q of %s: want one of %q", sqlPage, cell, cells[0], answers)
		}
	}
}

func newFeature(text string, name bool) *feature {
	f := &feature{text: text, tokens: tokens(text), name: name}
	if n := len(f.tokens); n > 1 && f.tokens[n-2] == "(" && f.tokens[n-1] == ")" {
		f.tokens = f.tokens[:n-1] // whatever is in the parentheses
	}
	return f
}

// tokens splits a statement. Words are in lower case, quoted or not; the body of a
// function is more of the statement.
func tokens(sql string) (all []string) {
	for _, text := range lexeme.FindAllString(sql, -1) {
		switch {
		case text[0] == '\'' && len(all) > 0 && all[len(all)-1] == "as":
			all = append(all, tokens(strings.ReplaceAll(strings.Trim(text, "'"), "''", "'"))...)
		case text[0] == '\'':
			all = append(all, text)
		default:
			all = append(all, strings.ToLower(strings.Trim(text, `"`)))
		}
	}
	return all
}

// hold fails for what a statement has that is in no part of the list.
func (l *list) hold(t *testing.T, sql string, parts ...[]*feature) {
	t.Helper()
	features := slices.Concat(parts...)
	slices.SortStableFunc(features, func(a, b *feature) int { return cmp.Compare(len(b.tokens), len(a.tokens)) })
	for rest := tokens(sql); len(rest) > 0; {
		at := slices.IndexFunc(features, func(f *feature) bool { return f.begins(rest) })
		switch {
		case at >= 0:
			features[at].used = true
			rest = rest[len(features[at].tokens):]
			continue
		case !free.MatchString(rest[0]):
			t.Errorf("%s does not list `%s` for\n%s", sqlPage, strings.Join(rest[:min(3, len(rest))], " "), sql)
		}
		rest = rest[1:]
	}
}

// begins tells whether the rest of a statement begins with a feature. A name that
// is followed by a parenthesis may be a function's: it has to be listed so.
func (f *feature) begins(rest []string) bool {
	n := len(f.tokens)
	if len(rest) < n || !slices.Equal(rest[:n], f.tokens) {
		return false
	}
	return !f.name || f.tokens[n-1] == "(" || len(rest) == n || rest[n] != "("
}
