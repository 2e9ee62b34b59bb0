package postgres_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/postgres"
	"plantstore/internal/postgres/pgtest"
	"plantstore/internal/store"
	"plantstore/internal/store/storetest"
)

// hostileDefaults are settings of sessions that an administrator may choose, and that would break a promise.
var hostileDefaults = []string{
	"array_nulls=off", "bytea_output=escape", "client_encoding=LATIN1", "client_min_messages=error",
	"datestyle=German", "default_transaction_isolation=serializable", "search_path=missing,elsewhere,public",
	"session_replication_role=replica", "standard_conforming_strings=off", "synchronous_commit=off",
	"timezone=Asia/Kathmandu", "transform_null_equals=on",
}

// alter sets settings, or all of hostileDefaults, with a prefix such as ALTER SYSTEM.
func alter(t testing.TB, at, prefix string) {
	t.Helper()
	c := connect(t, at) // one session, because later ones have the new defaults
	for _, setting := range hostileDefaults {
		name, value, _ := strings.Cut(setting, "=")
		if name != "search_path" {
			value = "'" + value + "'"
		}
		if _, err := c.Exec(t.Context(), prefix+" SET "+name+" = "+value); err != nil {
			t.Fatal(err)
		}
	}
}

const (
	sessionPort     = 6432
	transactionPort = 6433
)

// newPooled starts a server with settings, with poolers at both ports.
func newPooled(t *testing.T, settings ...string) *pgtest.Server {
	t.Helper()
	own := ownServer(t, settings...)
	for port, mode := range map[int]string{sessionPort: "session", transactionPort: "transaction"} {
		stop, err := own.Pooler(t.Context(), mode, port)
		if errors.Is(err, pgtest.ErrNoPooler) && os.Getenv("CI") != "true" {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
	}
	return own
}

// pooled returns the URL of a database behind a pooler. PgBouncer before version 1.21 has no prepared statements in
// transaction mode.
func pooled(at string, port int) string {
	return at + fmt.Sprintf("&port=%d&default_query_exec_mode=exec", port)
}

// TestPooler runs the suite of all engines through PgBouncer in transaction mode, on a server with hostile defaults.
// Two consecutive transactions of a connection have different sessions.
func TestPooler(t *testing.T) {
	t.Parallel()
	own := newPooled(t, hostileDefaults...)
	storetest.Run(t, func(t testing.TB) storetest.Store {
		url, err := own.Database(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return place(pooled(url, transactionPort))
	})
}

// observed is a table that records the settings of each transaction that writes into a table of the store. Its triggers
// run after the start of an engine, which refuses them.
const observed = `CREATE TABLE observed (relation text, settings text);
	CREATE FUNCTION observe() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		INSERT INTO public.observed VALUES (TG_TABLE_NAME, pg_catalog.concat_ws(' ',
			current_setting('synchronous_commit'), current_setting('client_min_messages'), current_setting('search_path')));
		RETURN NULL; END $$;
	DO $$ DECLARE name text; BEGIN
		FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'observed' LOOP
			EXECUTE format('CREATE TRIGGER observe AFTER INSERT OR UPDATE OR DELETE ON public.%I
				EXECUTE FUNCTION public.observe()', name);
			EXECUTE format('ALTER TABLE public.%I ENABLE ALWAYS TRIGGER observe', name);
		END LOOP;
	END $$`

// TestSettings changes the defaults of sessions in each way, and shows that every transaction that writes still has the
// settings that it needs.
func TestSettings(t *testing.T) {
	t.Parallel()
	own := newPooled(t)
	for _, test := range []struct {
		name   string
		before string // prefix of alter before the start; %s: the database
		reload bool
		port   int
		level  string // synchronous_commit of the database
		want   string
	}{
		{"database", "ALTER DATABASE %s", false, 0, "off", "on"},
		{"role", "ALTER ROLE postgres IN DATABASE %s", false, 0, "local", "on"},
		{"stronger", "ALTER DATABASE %s", false, 0, "remote_apply", "remote_apply"},
		{"pooler in session mode", "ALTER DATABASE %s", false, sessionPort, "remote_write", "on"},
		{"pooler in transaction mode", "ALTER DATABASE %s", false, transactionPort, "off", "on"},
		{"reload", "", true, 0, "off", "on"}, // the last one, because it changes the server
		{"pooler in transaction mode, reload", "", true, transactionPort, "off", "on"},
	} {
		t.Run(test.name, func(t *testing.T) { //nolint:paralleltest // in this order
			url, err := own.Database(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if test.before != "" {
				prefix := fmt.Sprintf(test.before, nameOf(t, url))
				alter(t, url, prefix)
				execute(t, url, prefix+" SET synchronous_commit = "+test.level)
			}
			at := url
			if test.port != 0 {
				at = pooled(url, test.port)
			}
			e, err := postgres.Open(t.Context(), postgres.Config{URL: at})
			if err != nil {
				t.Fatal(err)
			}
			execute(t, url, observed)
			if test.reload {
				alter(t, url, "ALTER SYSTEM")
				execute(t, url, "SELECT pg_reload_conf()")
			}
			writeEverything(t, e)
			if err := e.Close(); err != nil {
				t.Error(err)
			}
			checkObserved(t, url, test.want+` warning "public", pg_temp`)
		})
	}
}

// writeEverything writes into each table in each way, and compares what it has stored.
func writeEverything(t *testing.T, e *postgres.Engine) {
	t.Helper()
	ctx, at := t.Context(), time.Date(1969, 12, 31, 23, 59, 59, 123456000, time.UTC)
	create := func(from, to int64) (batch []store.Create) {
		for id := from; id < to; id++ {
			batch = append(batch, store.Create{Plant: plant.NewPlant{ID: id, Plant: plant.Plant{Name: "日本🌱"}}, At: at})
		}
		return batch
	}
	token := auth.Token{Name: "水", Hash: auth.HashOf("secret"), Scopes: auth.ScopeCreate, CreatedAt: at}
	id, errToken := e.CreateToken(ctx, token, audit.Origin{})
	err := errors.Join(errToken, e.MarkUsed(ctx, []auth.Use{{TokenID: id, At: at}}),
		insertBatch(ctx, e, create(0, 1)), insertBatch(ctx, e, create(10, 3000)))
	_, errHooks := e.SetWebhooks(ctx, someWebhook, audit.Origin{})
	err = errors.Join(err, errHooks, insertBatch(ctx, e, create(1, 2)), insertBatch(ctx, e, create(3000, 6000)),
		e.ACME().Save(ctx, "key", []byte{0, '\\', 255}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.TakeDeliveries(ctx, nil, store.Claim{Most: map[int64]int{1: 10}, Lease: time.Minute}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []int64{0, 1, 10, 3000} {
		r, err := e.Get(ctx, id)
		if _, tagged := r.Tag.Get(); err != nil || r.Name != "日本🌱" || tagged || !r.CreatedAt.Equal(at) {
			t.Errorf("plant %d: %+v, %v", id, r, err)
		}
		outcomes, err := e.Insert(ctx, create(id, id+1))
		if err != nil || !outcomes[0].Replayed {
			t.Errorf("the same plant %d again: %+v, %v", id, outcomes, err)
		}
	}
	value, err := e.ACME().Load(ctx, "key")
	if err != nil || !slices.Equal(value, []byte{0, '\\', 255}) {
		t.Errorf("certificate: %q, %v", value, err)
	}
}

// checkObserved checks the settings of every transaction that wrote, and that each table was written.
func checkObserved(t *testing.T, url, want string) {
	t.Helper()
	c := connect(t, url)
	const sql = "SELECT settings, string_agg(DISTINCT relation, ' ' ORDER BY relation) " +
		"FROM public.observed GROUP BY settings"
	var settings, relations string
	if err := c.QueryRow(t.Context(), sql).Scan(&settings, &relations); err != nil {
		t.Fatal(err)
	}
	const all = "plants plantstore plantstore_acme plantstore_audit plantstore_deliveries plantstore_outbox " +
		"plantstore_webhooks tokens"
	if settings != want || relations != all || count(t, url, "SELECT count(DISTINCT settings) FROM public.observed") != 1 {
		t.Errorf("%s wrote into %s, want only %s into %s", settings, relations, want, all)
	}
}

// TestCrash shows that a database that stops at once has every acknowledged plant, after a reload and behind a pooler
// in transaction mode. Without a wait for the disk, it would write them only after wal_writer_delay.
func TestCrash(t *testing.T) {
	t.Parallel()
	own := newPooled(t, "wal_writer_delay=10s")
	url, err := own.Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var engines []storetest.Engine
	for _, at := range []string{url, pooled(url, transactionPort)} {
		engines = append(engines, place(at).Open(t))
	}
	execute(t, url, "ALTER SYSTEM SET synchronous_commit = off")
	execute(t, url, "SELECT pg_reload_conf()")
	for i, e := range engines {
		for id := range int64(20) {
			batch := []store.Create{{Plant: plant.NewPlant{ID: 100*int64(i) + id}, At: time.Now()}}
			if err := insertBatch(t.Context(), e, batch); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := own.Crash(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := count(t, url, "SELECT count(*) FROM plants"); n != 40 {
		t.Errorf("%d plants are stored, want the 40 that were acknowledged", n)
	}
	for _, e := range engines {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestEncoding shows that a database that cannot store every plant is refused, and that the message has the remedy.
func TestEncoding(t *testing.T) {
	t.Parallel()
	for _, encoding := range []string{"LATIN1", "WIN1252", "EUC_JP", "SQL_ASCII"} {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			url := database(t)
			name := nameOf(t, url)
			other := strings.Replace(url, name, name+"other", 1)
			execute(t, url, "CREATE DATABASE "+name+"other ENCODING '"+encoding+"' LOCALE 'C' TEMPLATE template0")
			_, _, err := postgres.Migrate(t.Context(), postgres.Config{URL: other})
			if err == nil {
				t.Fatal("Migrate accepted it")
			}
			e, err := postgres.Open(t.Context(), postgres.Config{URL: other})
			if err == nil {
				_ = e.Close()
			}
			want := "the database has the encoding " + encoding + ", which cannot store every plant: create another one with "
			_, remedy, found := strings.Cut(errorText(err), want)
			if !found {
				t.Fatalf("got %v, want %q", err, want)
			}
			execute(t, url, "DROP DATABASE "+name+"other")
			execute(t, url, strings.Replace(remedy, " name ", " "+name+"other ", 1))
			if err := place(other + "&options=-c%20client_encoding%3DLATIN1").Open(t).Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPoolerKeepsStoresApart shows that two stores in one database, whose sessions a pooler in transaction mode shares,
// receive only their own plants.
func TestPoolerKeepsStoresApart(t *testing.T) {
	t.Parallel()
	own := newPooled(t)
	url, err := own.Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	schemas := []string{"south", "north"}
	execute(t, url, "CREATE SCHEMA south")
	execute(t, url, "CREATE SCHEMA north")
	execute(t, url, "ALTER DATABASE "+nameOf(t, url)+" SET search_path = north")
	engines := []storetest.Engine{
		place(pooled(url, transactionPort) + "&search_path=south").Open(t),
		place(pooled(url, transactionPort)).Open(t), // in a session in which the path is now south
	}
	var running sync.WaitGroup
	for i, e := range engines {
		running.Go(func() {
			for id := range int64(50) {
				batch := []store.Create{{Plant: plant.NewPlant{ID: id}, By: int64(i), At: time.Now()}}
				if err := insertBatch(t.Context(), e, batch); err != nil {
					t.Error(err)
				}
				r, err := e.PlantsByID(t.Context(), []int64{id}, 1<<20)
				if err != nil || len(r) != 1 || r[0].CreatedBy != int64(i) {
					t.Errorf("store %d has %+v, %v", i, r, err)
				}
			}
		})
	}
	running.Wait()
	for i, schema := range schemas {
		if n := count(t, url, fmt.Sprintf("SELECT count(*) FROM %s.plants WHERE created_by = %d", schema, i)); n != 50 {
			t.Errorf("schema %s has %d of its plants, want 50", schema, n)
		}
		if err := engines[i].Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestLockHasNoTimeout shows that the transaction of a move outlives the timeouts that end a transaction. The timeout
// begins after OpenSource, whose other transactions it may end, so the test needs a server of its own.
func TestLockHasNoTimeout(t *testing.T) {
	t.Parallel()
	url, err := ownServer(t).Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := place(url).Open(t).Close(); err != nil {
		t.Fatal(err)
	}
	m, err := postgres.OpenSource(t.Context(), postgres.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	control := connect(t, url)
	execute(t, url, "ALTER SYSTEM SET idle_in_transaction_session_timeout = '50ms'")
	execute(t, url, "SELECT pg_reload_conf()")
	for timeout := ""; timeout != "50ms"; { // sessions read it after a while, and with their next statement
		if err := control.QueryRow(t.Context(), "SHOW idle_in_transaction_session_timeout").Scan(&timeout); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.Tokens(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := control.Exec(t.Context(), "BEGIN"); err != nil {
		t.Fatal(err)
	}
	if _, err := control.WaitForNotification(t.Context()); err == nil { // until the timeout ends the control
		t.Fatal("the control received a notification")
	}
	if _, err := m.Tokens(t.Context()); err != nil {
		t.Errorf("after the timeout: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
