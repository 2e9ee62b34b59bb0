package move_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/move"
	"plantstore/internal/plant"
	"plantstore/internal/postgres"
	"plantstore/internal/postgres/pgtest"
	"plantstore/internal/sqlite"
	"plantstore/internal/sqlite/sqlitetest"
	"plantstore/internal/store"
	"plantstore/internal/store/storetest"
)

// server is the PostgreSQL server of all tests of the package; nil if PostgreSQL is not installed.
var server *pgtest.Server

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "16") // on PostgreSQL a move waits for a second
	os.Exit(pgtest.Around(m.Run, &server))
}

// place is a place for one store.
type place struct {
	open        func(context.Context) (storetest.Engine, error) // as a server does, and creates the store
	source      func(context.Context) (move.Source, error)
	destination func(context.Context) (move.Destination, error)
	run         func(t testing.TB, sql string) // as another program
}

// inFile returns a place in a file.
func inFile(t testing.TB) place {
	path := filepath.Join(t.TempDir(), "plantstore.db")
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	return place{
		open: func(ctx context.Context) (storetest.Engine, error) {
			return sqlite.Open(ctx, sqlite.Config{Path: path, Log: log})
		},
		source: func(ctx context.Context) (move.Source, error) {
			return sqlite.Open(ctx, sqlite.Config{Path: path, Log: log, MustExist: true, Move: true})
		},
		destination: func(ctx context.Context) (move.Destination, error) { return sqlite.Create(ctx, path) },
		run:         func(t testing.TB, sql string) { sqlitetest.Exec(t, path, sql) },
	}
}

// inPostgres returns a place in a database with the roles of docs/how-to/grant-postgresql-rights.md. A move connects as
// the owner, and a server as the server role.
func inPostgres(t testing.TB) place {
	t.Helper()
	if server == nil {
		t.Skip("PostgreSQL is not installed")
	}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	roles, err := server.Roles(t.Context(), "../../docs/how-to/grant-postgresql-rights.md", func(owner string) error {
		e, err := postgres.Open(t.Context(), postgres.Config{URL: owner, Log: log})
		if err != nil {
			return err
		}
		return e.Close()
	})
	must(t, err)
	owner := postgres.Config{URL: roles.Owner, Log: log}
	return place{
		open: func(ctx context.Context) (storetest.Engine, error) {
			return postgres.Open(ctx, postgres.Config{URL: roles.Server, Log: log})
		},
		source:      func(ctx context.Context) (move.Source, error) { return postgres.OpenSource(ctx, owner) },
		destination: func(ctx context.Context) (move.Destination, error) { return postgres.OpenDestination(ctx, owner) },
		run: func(t testing.TB, sql string) {
			t.Helper()
			c, err := pgx.Connect(t.Context(), roles.Owner)
			must(t, err)
			_, err = c.Exec(t.Context(), sql)
			must(t, errors.Join(err, c.Close(t.Context())))
		},
	}
}

// use calls do with the store, which it closes.
func (p place) use(t testing.TB, do func(storetest.Engine)) {
	t.Helper()
	e, err := p.open(t.Context())
	must(t, err)
	do(e)
	must(t, e.Close())
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

// config returns the Config of a move whose callbacks do nothing.
func config(from move.Source, to place) move.Config {
	return move.Config{
		From: from, OpenTo: to.destination, FromName: "the old one", ToName: "the new one",
		Progress: func(int64) {}, Compare: func() {},
	}
}

// run moves a store, after change has changed the Config.
func run(ctx context.Context, t testing.TB, from, to place, change func(*move.Config)) (move.Result, error) {
	t.Helper()
	s, err := from.source(t.Context())
	must(t, err)
	defer func() { must(t, s.Close()) }()
	c := config(s, to)
	if change != nil {
		change(&c)
	}
	return move.Run(ctx, c)
}

var start = time.Date(2026, 11, 21, 9, 30, 0, 123456000, time.UTC)

// plants returns n plants with ascending ids from first on.
func plants(first int64, n int) []store.Create {
	all := make([]store.Create, n)
	for i := range all {
		id := first + int64(i)
		all[i] = store.Create{
			Plant: plant.NewPlant{ID: id, Plant: plant.Plant{Name: fmt.Sprint("plant ", id)}},
			At:    start.Add(time.Duration(id%1000) * time.Microsecond),
		}
		if i%2 == 1 {
			all[i].Plant.Tag = plant.Tagged(fmt.Sprint("tag ", id%5))
		}
	}
	return all
}

// seed fills a store: with n plants and four with extreme values, with tokens in every state, subjects and a revoked
// JWT, and with webhooks, events, claimed deliveries and dead letters.
func seed(t testing.TB, s storetest.Engine, n int) {
	t.Helper()
	ctx, by := t.Context(), audit.Origin{}
	scopes, err := auth.ParseScopes("plants:create plants:read")
	must(t, err)
	tokens := []auth.Token{
		{ID: 1, Name: "first", Scopes: auth.ScopeCreate},
		{ID: 2, Name: "expires", Prefix: "pst_0abc", Scopes: scopes, ExpiresAt: start.Add(time.Hour)},
		{ID: 4, Name: "revoked", LastUsedAt: start.Add(time.Minute), RevokedAt: start.Add(2 * time.Minute)},
	}
	for i := range tokens {
		tokens[i].Hash, tokens[i].CreatedAt = auth.HashOf(tokens[i].Name), start
	}
	must(t, s.PutTokens(ctx, tokens))
	const issuer = "https://login.example"
	shop, err := s.PutSubject(ctx, auth.NewSubject(issuer, "shop", start), 100)
	must(t, err)
	revoked := auth.NewSubject(issuer, "other", start)
	revoked.RevokedAt = start
	for _, identity := range []auth.Token{revoked, auth.NewRevokedJWT(issuer, "a", time.Now())} {
		_, err = s.RevokeIdentity(ctx, identity, 100, by)
		must(t, err)
	}
	for rest := plants(1, n); len(rest) > 0; rest = rest[min(len(rest), 5000):] {
		insert(t, s, rest[:min(len(rest), 5000)]...)
	}
	_, err = s.SetWebhooks(ctx, []string{"https://a.example", "https://b.example"}, by)
	must(t, err)
	_, err = s.SetWebhooks(ctx, []string{"https://a.example"}, by)
	must(t, err)
	extreme := []plant.NewPlant{
		{ID: math.MinInt64, Plant: plant.Plant{Name: "lowest", Tag: plant.Tagged("")}},
		{ID: -1},
		{ID: 0, Plant: plant.Plant{Name: "zero", Tag: plant.Tagged("tag")}},
		{ID: math.MaxInt64, Plant: plant.Plant{Name: "highest, 日本語 🌱"}},
	}
	for i, p := range extreme {
		insert(t, s, store.Create{Plant: p, By: []int64{1, shop.ID, 4, 0}[i], At: start.Add(time.Duration(i))})
	}
	taken, err := s.TakeDeliveries(ctx, nil, store.Claim{Most: map[int64]int{1: 2}, Lease: time.Hour})
	must(t, err)
	_, err = s.TakeDeliveries(ctx, []store.DeliveryResult{
		{
			Webhook: 1, Plant: taken[0].Plant.ID, Since: taken[0].Since, Lease: taken[0].Lease, Dead: true, Attempts: 1,
			Reason: "status 500",
		},
	}, store.Claim{})
	must(t, err)
	insert(t, s, plants(math.MaxInt64-100, 2)...)
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

// content is the whole content of a store.
type content struct {
	Plants   []store.Row
	Tokens   []auth.Token
	Audit    []audit.Row
	Webhooks []store.Webhook
	Outbox   []store.OutboxRow
	MovedTo  string
}

func contentOf(t testing.TB, p place) (c content) {
	t.Helper()
	ctx := t.Context()
	s, err := p.source(ctx)
	must(t, err)
	for r, err := range s.Plants(ctx) {
		must(t, err)
		r.CreatedAt = r.CreatedAt.UTC()
		c.Plants = append(c.Plants, r)
	}
	for r, err := range s.OutboxRows(ctx) {
		must(t, err)
		r.Since, r.DueAt, r.DeadAt = r.Since.UTC(), r.DueAt.UTC(), r.DeadAt.UTC()
		c.Outbox = append(c.Outbox, r)
	}
	slices.SortStableFunc(c.Outbox, func(a, b store.OutboxRow) int { return int(a.Webhook - b.Webhook) })
	var errs [4]error
	c.Tokens, errs[0] = s.Tokens(ctx)
	c.Audit, errs[1] = s.AuditRows(ctx, 0, 1000)
	c.Webhooks, errs[2] = s.Webhooks(ctx)
	c.MovedTo, errs[3] = s.MovedTo(ctx)
	must(t, errors.Join(errors.Join(errs[:]...), s.Close()))
	return c
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b plant.Tag) bool { return a == b })); diff != "" {
		t.Errorf("%s (-want +got):\n%.3000s", what, diff)
	}
}
