package postgres_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"plantstore/internal/plant"
	"plantstore/internal/postgres"
	"plantstore/internal/store"
)

// newest is the newest schema of this program.
const newest = 7

// olderDatabase returns the URL of a database with a store of that schema: three
// plants and a token.
func olderDatabase(t testing.TB, version int) string {
	t.Helper()
	url := database(t)
	files, err := filepath.Glob("migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files[:version] {
		sql, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		execute(t, url, string(sql))
	}
	execute(t, url, fmt.Sprintf(`UPDATE plantstore SET version = %d, token_changes = 1;
		INSERT INTO tokens (id, name, hash, scopes, created_at) VALUES (1, 'nursery', sha256('a'), 'plants:create', now());
		INSERT INTO plants SELECT id, 'plant ' || id, NULL, now(), 1 FROM generate_series(1, 3) AS id`, version))
	return url
}

func wantVersion(t testing.TB, url string, want int) {
	t.Helper()
	if got := count(t, url, "SELECT version FROM plantstore"); got != int64(want) {
		t.Errorf("schema %d, want %d", got, want)
	}
}

// TestOlderSchema shows that an engine that only reads works on an older schema, that
// others refuse it, and that only Config.Migrate changes it.
func TestOlderSchema(t *testing.T) {
	t.Parallel()
	for older := 1; older < newest; older++ {
		t.Run(fmt.Sprint(older), func(t *testing.T) {
			t.Parallel()
			testOlderSchema(t, older)
		})
	}
}

func testOlderSchema(t *testing.T, older int) {
	url := olderDatabase(t, older)
	e, err := postgres.Open(t.Context(), postgres.Config{URL: url, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	r, errGet := e.Get(t.Context(), 2)
	records, errList := e.List(t.Context(), store.Query{From: math.MinInt64, Limit: 10})
	tokens, errTokens := e.Tokens(t.Context())
	if err := errors.Join(errGet, errList, errTokens, e.Close()); err != nil {
		t.Error(err)
	}
	if r.Name != "plant 2" || len(records) != 3 || len(tokens) != 1 || tokens[0].Name != "nursery" {
		t.Errorf("read %v, %v, %v", r, records, tokens)
	}

	for _, c := range []postgres.Config{{}, {MustExist: true}, {Server: true}} {
		c.URL = url
		e, err := postgres.Open(t.Context(), c)
		if err == nil {
			_ = e.Close()
		}
		want := fmt.Sprintf("it has schema %d and this plantstore needs schema %d: "+
			"run plantstore migrate or start plantstore serve; "+
			"servers of schema %[1]d keep running, but cannot start again after that", older, newest)
		const prefix = "open the database test"
		if err == nil || !strings.HasPrefix(err.Error(), prefix) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%+v:\ngot  %v\nwant %s", c, err, want)
		}
	}
	wantVersion(t, url, older)

	for _, want := range []int{older, newest} { // the second time, the schema is the newest
		from, to, err := postgres.Migrate(t.Context(), postgres.Config{URL: url})
		if from != want || to != newest || err != nil {
			t.Errorf("Migrate: %d, %d, %v; want %d, %d", from, to, err, want, newest)
		}
	}
	wantVersion(t, url, newest)
	place := place(url).Open(t)
	defer place.Close()
	if rows, err := place.Plants(t.Context(), math.MinInt64, math.MaxInt64, 10); err != nil || len(rows) != 3 {
		t.Errorf("after the migration: %v, %v", rows, err)
	}
}

// TestMigrateEmpty shows that Migrate does not create a store.
func TestMigrateEmpty(t *testing.T) {
	t.Parallel()
	url := database(t)
	_, _, err := postgres.Migrate(t.Context(), postgres.Config{URL: url})
	if err == nil || !strings.Contains(err.Error(), "there is no store in it") {
		t.Errorf("got %v", err)
	}
	if n := count(t, url, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"); n != 0 {
		t.Errorf("%d tables, want none", n)
	}
}

// TestMigrateTogether starts servers on a store of the schema before the newest at the
// same time: one of them migrates it.
func TestMigrateTogether(t *testing.T) {
	t.Parallel()
	url := olderDatabase(t, newest-1)
	var mu sync.Mutex
	var logged bytes.Buffer
	log := slog.New(slog.NewTextHandler(lockedWriter{&mu, &logged}, nil))
	var starting sync.WaitGroup
	for i := range int64(8) {
		starting.Go(func() {
			e, err := postgres.Open(t.Context(), postgres.Config{URL: url, Server: true, Migrate: true, Log: log})
			if err != nil {
				t.Error(err)
				return
			}
			batch := []store.Create{{Plant: plant.NewPlant{ID: 10 + i, Plant: plant.Plant{Name: "Rosa"}}, At: time.Now()}}
			if err := errors.Join(insertBatch(t.Context(), e, batch), e.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	starting.Wait()
	wantVersion(t, url, newest)
	if n := strings.Count(logged.String(), fmt.Sprintf(`msg="schema migrated" from=%d to=%d`, newest-1, newest)); n != 1 {
		t.Errorf("%d servers migrated it, want 1:\n%s", n, logged.String())
	}
	if n := count(t, url, "SELECT count(*) FROM plants"); n != 11 {
		t.Errorf("%d plants, want 11", n)
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	to *bytes.Buffer
}

func (w lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}

// servers1 are the statements that a server of schema 1 prepares.
var servers1 = map[string]string{
	"insert": `INSERT INTO plants (id, name, tag, created_at, created_by)
		SELECT id, name, tag, created_at, created_by
		FROM unnest('{7}'::bigint[], '{seven}'::text[], '{NULL}'::text[], ARRAY[now()], '{1}'::bigint[])
			AS new (id, name, tag, created_at, created_by)
		ORDER BY id ON CONFLICT (id) DO NOTHING RETURNING id`,
	"existing": "SELECT id, name, tag, created_at, created_by FROM plants WHERE id = 2 FOR UPDATE",
	"list": `SELECT plants.id, coalesce(tokens.name, '') FROM plants
		LEFT JOIN tokens ON tokens.id = plants.created_by WHERE plants.id >= 1 ORDER BY plants.id LIMIT 9`,
	"changes": "SELECT token_changes FROM plantstore",
	"tokens":  "SELECT id, name, hash, scopes, created_at, expires_at, last_used_at, revoked_at FROM tokens ORDER BY id",
	"lock":    "SELECT one FROM plantstore FOR UPDATE",
	"revoke":  "UPDATE tokens SET revoked_at = now() WHERE name = 'nursery' AND revoked_at IS NULL RETURNING name",
	"changed": "UPDATE plantstore SET token_changes = token_changes + 1",
	"used":    "UPDATE tokens SET last_used_at = now() WHERE id = 1",
}

// serversLater are the statements that the servers of a later schema have instead.
var serversLater = map[int]map[string]string{
	2: {"changes": "SELECT token_changes, coalesce(held, '') FROM plantstore"},
}

// TestOlderServersRunOn shows that the statements of a running server of an older
// schema work after another server has migrated the store, also if they were prepared
// before. docs/reference/schemas.md promises that servers of one schema run beside
// those of the next.
func TestOlderServersRunOn(t *testing.T) {
	t.Parallel()
	for older := 1; older < newest; older++ {
		t.Run(fmt.Sprint(older), func(t *testing.T) {
			t.Parallel()
			statements := maps.Clone(servers1)
			for version := range older + 1 {
				maps.Copy(statements, serversLater[version])
			}
			testOlderServer(t, olderDatabase(t, older), statements)
		})
	}
}

func testOlderServer(t *testing.T, url string, statements map[string]string) {
	server := connect(t, url)
	run := func() {
		t.Helper()
		for name := range statements {
			rows, err := server.Query(t.Context(), name)
			if err == nil {
				rows.Close() // reads the remaining rows, which may end with an error
				err = rows.Err()
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for name, sql := range statements {
		if _, err := server.Prepare(t.Context(), name, sql); err != nil {
			t.Fatal(err)
		}
	}
	run()
	if _, _, err := postgres.Migrate(t.Context(), postgres.Config{URL: url}); err != nil {
		t.Fatal(err)
	}
	run()
	newer := place(url).Open(t)
	defer newer.Close()
	if state, err := newer.State(t.Context()); err != nil || state.TokenChanges != 3 || state.Move.Phase != "" {
		t.Errorf("the newer server: %+v, %v; want 3 changes of tokens", state, err)
	}
}
