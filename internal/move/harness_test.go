package move_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/auth"
	"plantstore/internal/move"
	"plantstore/internal/plant"
	"plantstore/internal/postgres"
	"plantstore/internal/postgres/pgtest"
	"plantstore/internal/sqlite"
	"plantstore/internal/store"
	"plantstore/internal/store/storetest"
)

// server is the PostgreSQL server of all tests of the package; nil if PostgreSQL is
// not installed.
var server *pgtest.Server

func TestMain(m *testing.M) { os.Exit(pgtest.Around(m.Run, &server)) }

// place opens an engine on a store that is empty at first.
type place func(t testing.TB) storetest.Engine

// inFile returns a store in a file.
func inFile(t testing.TB) place {
	path := filepath.Join(t.TempDir(), "plantstore.db")
	return func(t testing.TB) storetest.Engine {
		t.Helper()
		e, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
		return opened(t, e, err)
	}
}

// inPostgres returns a store in a database with the roles of
// docs/how-to/grant-postgresql-rights.md. The first engine connects as the owner, as a
// mover does; the others as the server role.
func inPostgres(t testing.TB) place {
	t.Helper()
	if server == nil {
		t.Skip("PostgreSQL is not installed")
	}
	open := func(t testing.TB, url string) (*postgres.Engine, error) {
		return postgres.Open(t.Context(), postgres.Config{URL: url, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	}
	roles, err := server.Roles(t.Context(), "../../docs/how-to/grant-postgresql-rights.md", func(owner string) error {
		e, err := open(t, owner)
		if err != nil {
			return err
		}
		return e.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	url := roles.Owner
	return func(t testing.TB) storetest.Engine {
		t.Helper()
		e, err := open(t, url)
		url = roles.Server
		return opened(t, e, err)
	}
}

func opened(t testing.TB, e storetest.Engine, err error) storetest.Engine {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// everyWay runs a test with every pair of engines. Their stores are empty.
func everyWay(t *testing.T, test func(t *testing.T, from, to place)) {
	places := []struct {
		name string
		make func(testing.TB) place
	}{{"file", inFile}, {"postgres", inPostgres}}
	for _, from := range places {
		for _, to := range places {
			t.Run(from.name+" to "+to.name, func(t *testing.T) {
				t.Parallel()
				test(t, from.make(t), to.make(t))
			})
		}
	}
}

var start = time.Date(2026, 11, 21, 9, 30, 0, 123456000, time.UTC)

func create(id int64, name string, tag plant.Tag) store.Create {
	return store.Create{
		Plant: plant.NewPlant{ID: id, Plant: plant.Plant{Name: name, Tag: tag}},
		At:    start.Add(time.Duration(id%1000) * time.Microsecond),
	}
}

// plants returns n plants with ascending ids from first on.
func plants(first int64, n int) []store.Create {
	all := make([]store.Create, n)
	for i := range all {
		id := first + int64(i)
		tag := plant.Tag{}
		if i%2 == 1 {
			tag = plant.Tagged(fmt.Sprint("tag ", id%5))
		}
		all[i] = create(id, fmt.Sprint("plant ", id), tag)
	}
	return all
}

// seed stores plants with extreme values, plants of several tokens, and tokens in
// every state.
func seed(t testing.TB, s storetest.Engine) {
	t.Helper()
	tokens := []auth.Token{
		{ID: 1, Name: "first", Scopes: auth.ScopeCreate},
		{
			ID: 2, Name: "expires", Prefix: "pst_0abc", Scopes: scopesOf(t, "plants:create plants:read"),
			ExpiresAt: start.Add(time.Hour),
		},
		{
			ID: 4, Name: "revoked", Scopes: scopesOf(t, "admin"),
			LastUsedAt: start.Add(time.Minute), RevokedAt: start.Add(2 * time.Minute),
		},
	}
	for i := range tokens {
		tokens[i].Hash, tokens[i].CreatedAt = auth.HashOf(tokens[i].Name), start
	}
	must(t, s.PutTokens(t.Context(), tokens))
	batch := []store.Create{
		create(math.MinInt64, "lowest", plant.Tagged("")),
		create(-1, "", plant.Tag{}),
		create(0, "zero", plant.Tagged("tag")),
		create(math.MaxInt64, "highest, 日本語 🌱", plant.Tag{}),
	}
	for i := range batch {
		batch[i].By = []int64{1, 2, 4, 0}[i]
	}
	insert(t, s, batch...)
}

func insert(t testing.TB, s storetest.Engine, batch ...store.Create) {
	t.Helper()
	outcomes, err := s.Insert(t.Context(), batch)
	must(t, err)
	for i, o := range outcomes {
		if !o.Created() {
			t.Fatalf("plant %d: %+v, want it created", batch[i].Plant.ID, o)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// scopesOf parses scopes.
func scopesOf(t testing.TB, text string) auth.Scopes {
	t.Helper()
	scopes, err := auth.ParseScopes(text)
	if err != nil {
		t.Fatal(err)
	}
	return scopes
}

// config returns the Config of a move whose callbacks do nothing.
func config(from, to storetest.Engine) move.Config {
	return move.Config{
		From: from, To: to, FromName: "the old one", ToName: "the new one",
		Progress: func(int64, int64) {}, Announce: func() {},
	}
}

// content is the whole content of a store.
type content struct {
	Plants []store.Row
	Tokens []auth.Token
	Move   store.MoveState
}

func contentOf(t testing.TB, s storetest.Engine) (c content) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	for from := int64(math.MinInt64); ; {
		rows, err := s.Plants(ctx, from, math.MaxInt64, 10_000)
		must(t, err)
		for i := range rows {
			rows[i].CreatedAt = rows[i].CreatedAt.UTC()
		}
		c.Plants = append(c.Plants, rows...)
		if len(rows) == 0 || rows[len(rows)-1].ID == math.MaxInt64 {
			break
		}
		from = rows[len(rows)-1].ID + 1
	}
	var err error
	c.Tokens, err = s.Tokens(ctx)
	must(t, err)
	state, err := s.State(ctx)
	must(t, err)
	c.Move = state.Move
	return c
}

// totals returns the totals of the content.
func (c content) totals() (t store.Totals) {
	var d store.Digester
	for _, r := range c.Plants {
		t.Plants++
		t.Digests += d.Plant(&r.NewPlant, r.CreatedAt, r.CreatedBy)
	}
	return t
}

func equal[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b plant.Tag) bool { return a == b })); diff != "" {
		t.Errorf("%s (-want +got):\n%.3000s", what, diff)
	}
}

var (
	movedAway = store.MoveState{Phase: store.Moved, Other: "the new one"}
	filled    = store.MoveState{Phase: store.Filling, Other: "the old one"}
)
