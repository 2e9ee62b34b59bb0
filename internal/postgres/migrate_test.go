package postgres_test

import (
	"bytes"
	"errors"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/postgres"
	"plantstore/internal/store"
	"plantstore/internal/store/storetest"
)

const (
	newest = 1 // the newest schema of this program
	next   = 2 // the schema of nextSQL
)

// nextSQL is a migration to the next schema.
const nextSQL = "ALTER TABLE tokens ADD COLUMN note text; UPDATE tokens SET note = 'old'"

// olderDatabase returns the URL of a database with a store of the newest schema: three plants and a token. The store is
// older when the test has called AddMigration.
func olderDatabase(t testing.TB) string {
	t.Helper()
	url := database(t)
	e := place(url).Open(t)
	_, err := e.CreateToken(t.Context(), auth.Token{Name: "nursery", CreatedAt: time.Now()}, audit.Origin{})
	if err := errors.Join(err, insertBatch(t.Context(), e, plants(1, 3)), e.Close()); err != nil {
		t.Fatal(err)
	}
	return url
}

// plants returns creates of n plants with ascending ids.
func plants(id, n int64) (batch []store.Create) {
	for i := range n {
		rosa := plant.NewPlant{ID: id + i, Plant: plant.Plant{Name: "Rosa"}}
		batch = append(batch, store.Create{Plant: rosa, At: time.Now()})
	}
	return batch
}

func wantVersion(t testing.TB, url string, want int) {
	t.Helper()
	if got := count(t, url, "SELECT version FROM plantstore"); got != int64(want) {
		t.Errorf("schema %d, want %d", got, want)
	}
}

// migrations returns the number of entries of the audit log about a migration from the newest schema to the next.
func migrations(t testing.TB, url string) int64 {
	t.Helper()
	return count(t, url, `SELECT count(*) FROM plantstore_audit WHERE entry LIKE '%"store.migrate"%'
		AND entry LIKE '%"from_schema":"1"%' AND entry LIKE '%"to_schema":"2"%'`)
}

// TestMigrate shows that Open refuses an older schema without Config.Migrate, and that Migrate migrates it once.
func TestMigrate(t *testing.T) {
	url := olderDatabase(t)
	postgres.AddMigration(t, nextSQL)
	for _, c := range []postgres.Config{{}, {MustExist: true}, {Server: true}} {
		c.URL = url
		e, err := postgres.Open(t.Context(), c)
		if err == nil {
			_ = e.Close()
		}
		const prefix, want = "open the database test", "it has schema 1 and this plantstore needs schema 2: " +
			"run plantstore migrate or start plantstore serve; " +
			"servers of schema 1 keep running, but cannot start again after that"
		if err == nil || !strings.HasPrefix(err.Error(), prefix) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%+v:\ngot  %v\nwant %s", c, err, want)
		}
	}
	wantVersion(t, url, newest)

	for _, want := range []int{newest, next} { // the second time, the schema is the newest
		from, to, err := postgres.Migrate(t.Context(), postgres.Config{URL: url})
		if from != want || to != next || err != nil {
			t.Errorf("Migrate: %d, %d, %v; want %d, %d", from, to, err, want, next)
		}
	}
	wantVersion(t, url, next)
	if n := migrations(t, url); n != 1 {
		t.Errorf("the audit log has %d entries about it, want 1", n)
	}
	e := place(url).Open(t)
	defer e.Close()
	if rows, err := e.List(t.Context(), store.Query{From: math.MinInt64, Limit: 10}); err != nil || len(rows) != 3 {
		t.Errorf("after the migration: %v, %v", rows, err)
	}
	if tokens, err := e.Tokens(t.Context()); err != nil || len(tokens) != 1 || tokens[0].Name != "nursery" {
		t.Errorf("after the migration: %v, %v", tokens, err)
	}
}

// TestMigrateFails shows that a migration that fails changes nothing: the older program opens the store again.
func TestMigrateFails(t *testing.T) {
	url := olderDatabase(t)
	t.Run("migrate", func(t *testing.T) {
		postgres.AddMigration(t, nextSQL+"; INSERT INTO missing VALUES (1)")
		_, _, err := postgres.Migrate(t.Context(), postgres.Config{URL: url})
		const want = `migration next.sql: ERROR: relation "missing" does not exist`
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	})
	e := place(url).Open(t) // compares the columns with schema 1
	if err := errors.Join(insertBatch(t.Context(), e, plants(4, 1)), e.Close()); err != nil {
		t.Error(err)
	}
	if n := migrations(t, url); n != 0 {
		t.Errorf("the audit log has %d entries about a migration, want none", n)
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

// TestMigrateTogether starts servers on a store of the schema before the newest at the same time: one of them migrates
// it.
func TestMigrateTogether(t *testing.T) {
	url := olderDatabase(t)
	postgres.AddMigration(t, nextSQL)
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
			if err := errors.Join(insertBatch(t.Context(), e, plants(10+i, 1)), e.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	starting.Wait()
	wantVersion(t, url, next)
	if n := strings.Count(logged.String(), `msg="schema migrated" from=1 to=2`); n != 1 {
		t.Errorf("%d servers migrated it, want 1:\n%s", n, logged.String())
	}
	if n := count(t, url, `SELECT count(*) FROM plantstore_audit WHERE entry LIKE '%"store.migrate"%'`); n != 1 {
		t.Errorf("the audit log has %d entries about migrations, want 1", n)
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

// TestOlderServersRunOn shows that a running server of an older schema works after another server has migrated the
// store, even with statements that it has prepared before. docs/reference/schemas.md promises that servers of one
// schema run beside servers of the next.
func TestOlderServersRunOn(t *testing.T) {
	url := olderDatabase(t)
	older, err := postgres.Open(t.Context(), postgres.Config{URL: url, Server: true})
	if err != nil {
		t.Fatal(err)
	}
	defer older.Close()
	useAsServer(t, older, "before")
	postgres.AddMigration(t, nextSQL)
	if _, _, err := postgres.Migrate(t.Context(), postgres.Config{URL: url}); err != nil {
		t.Fatal(err)
	}
	useAsServer(t, older, "after")
	newer := place(url).Open(t)
	defer newer.Close()
	useAsServer(t, newer, "beside")
	useAsServer(t, older, "still")
	if n := count(t, url, "SELECT count(*) FROM plants"); n != 3+1 {
		t.Errorf("%d plants, want 4", n)
	}
}

// useAsServer calls the operations of a server, with new tokens of that name.
func useAsServer(t *testing.T, e storetest.Engine, name string) {
	t.Helper()
	ctx, by := t.Context(), audit.Origin{}
	id, err := e.CreateToken(ctx, auth.Token{Name: name, Hash: auth.HashOf(name), CreatedAt: time.Now()}, by)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	created, err := e.Insert(ctx, plants(4, 1)) // a replay, except for the first call
	if err != nil || len(created) != 1 {
		t.Errorf("%s: Insert: %+v, %v", name, created, err)
	}
	before, err := e.State(ctx)
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
	_, errRevoke := e.RevokeTokens(ctx, store.Selector{Name: name}, time.Now(), by)
	tokens, errTokens := e.Tokens(ctx)
	after, errState := e.State(ctx)
	records, errList := e.List(ctx, store.Query{From: math.MinInt64, Limit: 10})
	_, errSubject := e.PutSubject(ctx, auth.NewSubject("https://login.example", name, time.Now()), 10)
	errUsed := e.MarkUsed(ctx, []auth.Use{{TokenID: id, At: time.Now()}})
	errAudit := e.AppendAudit(ctx, audit.Event{Action: "x"})
	if err := errors.Join(errRevoke, errTokens, errState, errList, errSubject, errUsed, errAudit); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	if after.TokenChanges == before.TokenChanges || len(records) != 4 ||
		tokens[len(tokens)-1].Name != name || tokens[len(tokens)-1].RevokedAt.IsZero() {
		t.Errorf("%s: %+v, then %+v; %d plants; tokens %+v", name, before, after, len(records), tokens)
	}
}
