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
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"plantstore/internal/audit"
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
	// statementsFile is the input of the harness that parses the statements with the grammar of another database.
	statementsFile = "../../faults/dialect/statements.sql"
)

// TestSQL makes the engine send every statement that it has, and compares the statements with the features that
// docs/explanation/sql.md lists.
func TestSQL(t *testing.T) {
	t.Parallel()
	r := newRecorder(t)
	r.suite(t)
	r.move(t)
	r.acme(t)
	r.citus(t)
	r.requireStandby(t)
	serving, moving := r.statements(t)
	if t.Failed() {
		return // some statements were not sent
	}
	checkComplete(t, slices.Concat(serving, moving))
	compareStatements(t, serving, moving)

	list := readList(t)
	for _, sql := range serving {
		list.check(t, sql, list.serving, list.names)
	}
	for _, sql := range moving {
		list.check(t, sql, list.serving, list.moving, list.names)
	}
	for _, f := range slices.Concat(list.serving, list.moving, list.names) {
		if !f.used {
			t.Errorf("%s lists `%s`, and no statement has it", sqlPage, f.text)
		}
	}
}

// recorder is a PostgreSQL server of its own that logs every statement.
type recorder struct {
	server *pgtest.Server
	moved  map[string]bool // the databases whose store is the source of a move
}

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	return &recorder{ownServer(t, pgtest.Logging...), map[string]bool{}}
}

func (r *recorder) database(t testing.TB) string {
	t.Helper()
	url, err := r.server.Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return url
}

// suite runs the suite of all engines.
func (r *recorder) suite(t *testing.T) {
	t.Run("suite", func(t *testing.T) {
		storetest.Run(t, func(t testing.TB) storetest.Store { return place(r.database(t)) })
	})
}

// nameOf returns the name of the database in a URL.
func nameOf(t testing.TB, at string) string {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(u.Path, "/")
}

// move moves a store, and opens it again. The batch is so large that the engine tries COPY, and the second time, its
// plants exist.
func (r *recorder) move(t *testing.T) {
	ctx := t.Context()
	from, to := r.database(t), r.database(t)
	r.moved[nameOf(t, from)] = true
	e := place(from).Open(t)
	batch := make([]store.Create, 2000)
	for i := range batch {
		batch[i] = store.Create{Plant: plant.NewPlant{ID: int64(i)}, At: time.Now()}
	}
	err := errors.Join(insertBatch(ctx, e, batch), insertBatch(ctx, e, batch), e.Close())
	if err != nil {
		t.Fatal(err)
	}
	source, errSource := postgres.OpenSource(ctx, postgres.Config{URL: from})
	destination, errDestination := postgres.OpenDestination(ctx, postgres.Config{URL: to})
	if err := errors.Join(errSource, errDestination); err != nil {
		t.Fatal(err)
	}
	_, errMoved := source.MovedTo(ctx)
	_, errTotals := destination.Totals(ctx)
	for _, err := range source.Plants(ctx) {
		errMoved = errors.Join(errMoved, err)
	}
	for _, err := range source.OutboxRows(ctx) {
		errMoved = errors.Join(errMoved, err)
	}
	some := []store.OutboxRow{{Plant: 1, Since: time.Now()}, {Webhook: 1, Plant: 1, Since: time.Now()}}
	if err := errors.Join(errMoved, errTotals,
		destination.PutPlants(ctx, []store.Row{{NewPlant: plant.NewPlant{ID: 1}, CreatedAt: time.Now()}}),
		destination.PutTokens(ctx, []auth.Token{{ID: 1, Name: "a", Scopes: auth.ScopeCreate, CreatedAt: time.Now()}}),
		destination.PutWebhooks(ctx, []store.Webhook{{ID: 1, URL: "https://a.example"}}),
		destination.PutOutbox(ctx, some), destination.Publish(ctx), destination.Close(),
		source.SetMovedTo(ctx, "another", audit.Event{}), source.Close()); err != nil {
		t.Fatal(err)
	}
}

// acme uses the storage of an ACME client, in the schema of the URL.
func (r *recorder) acme(t *testing.T) {
	e := place(r.database(t) + "&search_path=public").Open(t)
	storage := e.(*postgres.Engine).ACME()
	unlock, locked, err := storage.TryLock(t.Context())
	if err != nil || !locked {
		t.Fatal(locked, err)
	}
	unlock()
	if value, err := storage.Load(t.Context(), "key"); value != nil || err != nil {
		t.Errorf("got %q, %v, want nothing", value, err)
	}
	err = errors.Join(
		storage.Save(t.Context(), "key", []byte("value")), storage.Delete(t.Context(), "key"), e.Close())
	if err != nil {
		t.Error(err)
	}
}

// requireStandby stores a plant as a server that requires a synchronous standby. The requirement ends during the wait,
// so that the COMMIT succeeds and the check after it runs.
func (r *recorder) requireStandby(t *testing.T) {
	s := &standby{t, r.database(t)}
	if err := place(s.url).Open(t).Close(); err != nil { // creates the tables
		t.Fatal(err)
	}
	s.require()
	repeats := lineSignal{text: "no synchronous standby", seen: make(chan struct{}, 1)}
	log := slog.New(slog.NewTextHandler(repeats, &slog.HandlerOptions{Level: slog.LevelDebug}))
	e, err := postgres.Open(t.Context(), postgres.Config{
		URL: s.url, MustExist: true, Server: true, RequireSyncStandby: true, Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- insertBatch(ctx, e, []store.Create{{Plant: plant.NewPlant{ID: 1}, At: time.Now()}})
	}()
	s.waiting(0)
	s.release()
	<-repeats.seen
	cancel()
	if err := <-done; !errors.Is(err, store.ErrOutcomeUnknown) {
		t.Errorf("got %v, want %v", err, store.ErrOutcomeUnknown)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// lineSignal is a log that sends to seen for lines with a text, unless a value waits there.
type lineSignal struct {
	text string
	seen chan struct{} // capacity 1
}

func (l lineSignal) Write(line []byte) (int, error) {
	if strings.Contains(string(line), l.text) {
		select {
		case l.seen <- struct{}{}:
		default:
		}
	}
	return len(line), nil
}

// statements returns the statements that were sent to stores, and the statements that were sent only to the sources of
// moves.
func (r *recorder) statements(t *testing.T) (serving, moving []string) {
	t.Helper()
	all, err := r.server.Statements(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	onlyMoved := map[string]bool{}
	for _, s := range all {
		sql := oneLine(s.SQL)
		if s.Application != "plantstore" || sql == "" { // from a test, or a check by pgx that a connection is alive
			continue
		}
		was, seen := onlyMoved[sql]
		onlyMoved[sql] = r.moved[s.Database] && (was || !seen)
	}
	for _, sql := range slices.Sorted(maps.Keys(onlyMoved)) {
		if onlyMoved[sql] {
			moving = append(moving, sql)
		} else {
			serving = append(serving, sql)
		}
	}
	return serving, moving
}

var comment = regexp.MustCompile(`--[^\n]*`)

// oneLine returns a statement without comments and line breaks. No string literal of the engine contains these.
func oneLine(sql string) string {
	return strings.Join(strings.Fields(comment.ReplaceAllString(sql, "")), " ")
}

// checkComplete fails for a statement in the sources of the engine and of package store that was not sent.
func checkComplete(t *testing.T, statements []string) {
	t.Helper()
	verb := regexp.MustCompile(
		`^(ALTER|CREATE|COPY|DELETE|DROP|GRANT|INSERT|LOCK|REVOKE|SELECT|SET|SHOW|TRUNCATE|UPDATE|WITH)\s`)
	own, err := filepath.Glob("*.go")
	shared, errShared := filepath.Glob("../store/*.go")
	if err := errors.Join(err, errShared); err != nil {
		t.Fatal(err)
	}
	for _, source := range slices.Concat(own, shared) {
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
			sent := slices.ContainsFunc(statements, func(s string) bool { return strings.Contains(s, sql) })
			if verb.MatchString(sql) && !sent {
				t.Errorf("%s has a statement that this test does not send: %s", source, sql)
			}
		}
	}
}

// compareStatements compares the file of statements with the sent statements.
func compareStatements(t *testing.T, serving, moving []string) {
	t.Helper()
	want := "-- Every statement of the PostgreSQL engine.\n" +
		"-- go test ./internal/postgres -run TestSQL -update writes it.\n\n" +
		"-- Serving\n\n" + strings.Join(serving, "\n") + "\n\n" +
		"-- Only in the source of a move\n\n" + strings.Join(moving, "\n") + "\n"
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
		t.Errorf("%s is stale; go test ./internal/postgres -run TestSQL -update writes it (-sent +file):\n%s",
			statementsFile, diff)
	}
}

// list is the list of features on docs/explanation/sql.md.
type list struct{ serving, moving, names []*feature }

// feature is a sequence of words, operators and parentheses in a statement.
type feature struct {
	text   string
	tokens []string
	name   bool // it is the name of a table or a column, not of a function
	used   bool
}

var (
	span = regexp.MustCompile("`([^`]+)`")
	// lexeme is a string, a name or word, a parameter, a number, an operator, or a
	// single character.
	lexeme = regexp.MustCompile(`'(?:[^']|'')*'|"[^"]*"|\w+|\$\d+|[-<>=!+*/%^&|~@#?:]+|\S`)
	free   = regexp.MustCompile(`^('.*|\$?\d+|[(),;.])$`) // tokens that need no entry in the list
)

// answers are the beginnings of a cell about one feature of one database. Every
// database must support the statements of every store, as far as is known.
var answers = map[string][]string{
	headServing: {"yes", "since ", "partly: ", "not tried"},
	headMove:    {"yes", "since ", "partly: ", "not tried", "no"},
}

// The headings of docs/explanation/sql.md under which features are listed.
const (
	headServing = "Statements of every store"
	headMove    = "Statements of a move"
	headNames   = "Names"
)

// readList reads the code in the first cells of the tables on docs/explanation/sql.md.
func readList(t *testing.T) *list {
	t.Helper()
	page, err := os.ReadFile(sqlPage)
	if err != nil {
		t.Fatal(err)
	}
	l, heading := &list{}, ""
	parts := map[string]*[]*feature{headServing: &l.serving, headMove: &l.moving, headNames: &l.names}
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

// checkAnswers fails for a row without an answer for each of the three databases.
func checkAnswers(t *testing.T, cells, answers []string) {
	t.Helper()
	if answers != nil && len(cells) != 5 {
		t.Errorf("%s: the row of %s has %d cells, want 5", sqlPage, cells[0], len(cells))
		return
	}
	for _, cell := range cells[2:] {
		if !slices.ContainsFunc(answers, func(answer string) bool { return strings.HasPrefix(cell, answer) }) {
			t.Errorf("%s has %q for %s: want one of %q", sqlPage, cell, cells[0], answers)
		}
	}
}

func newFeature(text string, name bool) *feature {
	f := &feature{text: text, tokens: tokens(text), name: name}
	if n := len(f.tokens); n > 1 && f.tokens[n-2] == "(" && f.tokens[n-1] == ")" {
		f.tokens = f.tokens[:n-1] // any text may be in the parentheses
	}
	return f
}

// tokens splits a statement. It returns words in lower case and without quotes, and splits the body of a function too.
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

// check fails for a feature of a statement that no part of the list has.
func (l *list) check(t *testing.T, sql string, parts ...[]*feature) {
	t.Helper()
	features := slices.Concat(parts...)
	slices.SortStableFunc(features, func(a, b *feature) int { return cmp.Compare(len(b.tokens), len(a.tokens)) })
	for rest := tokens(sql); len(rest) > 0; {
		at := slices.IndexFunc(features, func(f *feature) bool { return f.isPrefixOf(rest) })
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

// isPrefixOf reports whether the rest of a statement starts with the feature. A name before a parenthesis may be a
// function's: the list has to name the function.
func (f *feature) isPrefixOf(rest []string) bool {
	n := len(f.tokens)
	if len(rest) < n || !slices.Equal(rest[:n], f.tokens) {
		return false
	}
	return !f.name || f.tokens[n-1] == "(" || len(rest) == n || rest[n] != "("
}
