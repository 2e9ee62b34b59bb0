package postgres_test

import (
	"errors"
	"fmt"
	"math"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/postgres"
	"plantstore/internal/postgres/pgtest"
	"plantstore/internal/store"
	"plantstore/internal/store/storetest"
)

// newRole creates a role that may log in and has only the rights of PUBLIC. It returns its name, and the URL of the
// database for the role. The role stays until the server stops: other databases of the server may have grants for it.
func newRole(t testing.TB, at, prefix string) (name, url string) {
	t.Helper()
	name = prefix + "_" + nameOf(t, at)
	execute(t, at, "CREATE ROLE "+name+" LOGIN")
	return name, strings.Replace(at, "//postgres@", "//"+name+"@", 1)
}

// foreignStore creates a store of another role in the schema in which the server expects its own. A read of it runs
// code of that role with the rights of the reader.
const foreignStore = `
	CREATE TABLE public.ran (role text);
	GRANT ALL ON public.ran TO PUBLIC;
	CREATE FUNCTION public.evil() RETURNS boolean LANGUAGE plpgsql AS
		$evil$BEGIN INSERT INTO public.ran VALUES (current_user); RETURN true; END$evil$;
	CREATE TABLE public.plants (id bigint PRIMARY KEY, name text NOT NULL, tag text,
		created_at timestamptz NOT NULL, created_by bigint NOT NULL);
	CREATE TABLE public.tokens (id bigint PRIMARY KEY, name text NOT NULL, hash bytea NOT NULL UNIQUE,
		scopes text NOT NULL,
		created_at timestamptz NOT NULL, expires_at timestamptz, last_used_at timestamptz, revoked_at timestamptz);
	CREATE TABLE public.plantstore (one boolean PRIMARY KEY CHECK (one),
		version bigint NOT NULL, token_changes bigint NOT NULL, moved_to text);
	INSERT INTO public.plantstore VALUES (true, 2, 0);
	INSERT INTO public.tokens (id, name, hash, scopes, created_at) VALUES (1, 'evil', '\x66', 'admin', now());
	GRANT ALL ON public.plants, public.tokens, public.plantstore TO PUBLIC;
	ALTER TABLE public.plantstore ENABLE ROW LEVEL SECURITY;
	CREATE POLICY evil ON public.plantstore USING (public.evil())`

// TestForeignTables shows that Open refuses the tables of another role before it reads them, even if the connection's
// role is a member of that role: before PostgreSQL 15, every role that may log in could make another one a member of
// itself.
func TestForeignTables(t *testing.T) {
	t.Parallel()
	url := database(t)
	execute(t, url, "GRANT CREATE ON SCHEMA public TO PUBLIC") // the default before PostgreSQL 15
	evil, attacker := newRole(t, url, "mallory")
	role, own := newRole(t, url, "plants")
	if _, err := connect(t, attacker).Exec(t.Context(), foreignStore); err != nil {
		t.Fatal(err)
	}
	execute(t, url, "GRANT "+evil+" TO "+role) // the other role could do that before PostgreSQL 15
	for user, at := range map[string]string{role: own, "postgres": url} {
		e, err := postgres.Open(t.Context(), postgres.Config{URL: at})
		if err == nil {
			_ = e.Close()
		}
		want := `table "public"."plants" is owned by role "` + evil + `", which can read and change everything in it; ` +
			`allowed are this connection's role "` + user + `" and the owner of the database "postgres": ` +
			`drop the table, or if it is yours, connect as its owner or change the owner`
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("as %s:\ngot  %v\nwant %s", user, err, want)
		}
	}
	if n := count(t, url, "SELECT count(*) FROM ran"); n != 0 {
		t.Errorf("code of the other role ran %d times", n)
	}
}

// TestForeignTrigger shows that Open refuses every trigger that another role can create with the right TRIGGER: its
// function or its condition runs as the role that creates a plant or a token.
func TestForeignTrigger(t *testing.T) {
	t.Parallel()
	const (
		function  = "CREATE FUNCTION public.%[1]s() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';"
		condition = "CREATE FUNCTION public.evil(tokens) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RETURN false; END';"
	)
	for name, sql := range map[string]string{
		"function": fmt.Sprintf(function, "evil") +
			"CREATE TRIGGER steal BEFORE INSERT ON tokens FOR EACH ROW EXECUTE FUNCTION public.evil()",
		"condition": condition + `CREATE TRIGGER steal BEFORE INSERT ON tokens FOR EACH ROW WHEN (public.evil(NEW))
			EXECUTE FUNCTION suppress_redundant_updates_trigger()`, // a function of the connection's role
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := database(t)
			if err := place(url).Open(t).Close(); err != nil {
				t.Fatal(err)
			}
			evil, attacker := newRole(t, url, "mallory")
			execute(t, url, "GRANT CREATE ON SCHEMA public TO PUBLIC; GRANT TRIGGER ON tokens TO "+evil)
			if _, err := connect(t, attacker).Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
			e, err := postgres.Open(t.Context(), postgres.Config{URL: url})
			if err == nil {
				_ = e.Close()
			}
			want := `trigger "steal" on "public"."tokens" was not created by Plant Store, ` +
				`and runs code as this connection's role "postgres": drop the trigger`
			if err == nil || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}

// TestSchemaIsPinned shows that an engine keeps to the schema of its first connection, even when another role creates
// the same tables in an earlier schema of the search_path.
func TestSchemaIsPinned(t *testing.T) {
	t.Parallel()
	url := database(t)
	const schema = `Nursery "one", 'two'`
	execute(t, url, "GRANT CREATE ON SCHEMA public TO PUBLIC; CREATE SCHEMA "+pgx.Identifier{schema}.Sanitize())
	execute(t, url, "ALTER DATABASE "+nameOf(t, url)+" SET search_path = "+pgx.Identifier{schema}.Sanitize()+", public")
	if err := place(url).Open(t).Close(); err != nil { // creates the tables in the schema
		t.Fatal(err)
	}
	execute(t, url, "ALTER DATABASE "+nameOf(t, url)+" SET search_path = public, "+pgx.Identifier{schema}.Sanitize())
	e := place(url).Open(t)
	token := auth.Token{Name: "ours", Hash: auth.HashOf("ours"), Scopes: auth.ScopeCreate, CreatedAt: time.Now()}
	if _, err := e.CreateToken(t.Context(), token, audit.Origin{}); err != nil {
		t.Fatal(err)
	}
	_, attacker := newRole(t, url, "mallory")
	if _, err := connect(t, attacker).Exec(t.Context(), foreignStore); err != nil {
		t.Fatal(err)
	}
	execute(t, url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "+
		"WHERE application_name = 'plantstore' AND datname = current_database()")
	_, _ = e.Tokens(t.Context()) // fails on the closed connection; the next call opens a new one
	if tokens, err := e.Tokens(t.Context()); err != nil || len(tokens) != 1 || tokens[0].Name != "ours" {
		t.Fatalf("tokens: %v, %v", tokens, err)
	}
	batch := []store.Create{{Plant: plant.NewPlant{ID: 9}, At: time.Now()}}
	if err := errors.Join(insertBatch(t.Context(), e, batch), e.Close()); err != nil {
		t.Error(err)
	}
	_, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	if err == nil || !strings.Contains(err.Error(), `is owned by role "mallory_`) {
		t.Errorf("Open with the other tables first in the search_path: %v", err)
	}
}

// restricted is a store whose roles have only the rights that docs/how-to/grant-postgresql-rights.md grants.
type restricted struct {
	pgtest.Roles

	serverFrom int           // number of engines that are opened as the owner, before others as the server role
	opened     *atomic.Int32 // number of engines
}

func (r restricted) Open(t testing.TB) storetest.Engine {
	if int(r.opened.Add(1)) > r.serverFrom {
		return place(r.Server).Open(t)
	}
	return place(r.Owner).Open(t)
}

// Tamper runs the SQL as the owner.
func (r restricted) Tamper(t testing.TB, sql string) {
	t.Helper()
	place(r.Owner).Tamper(t, sql)
}

func newRestricted(t testing.TB, serverFrom int) restricted {
	t.Helper()
	if server == nil {
		t.Skip("PostgreSQL is not installed")
	}
	roles, err := server.Roles(t.Context(), "../../docs/how-to/grant-postgresql-rights.md", func(owner string) error {
		return place(owner).Open(t).Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	return restricted{roles, serverFrom, new(atomic.Int32)}
}

// another returns another empty store for the roles of r.
func (r restricted) another(t testing.TB, serverFrom int) restricted {
	t.Helper()
	roles, err := r.Schema(t.Context(), func(owner string) error { return place(owner).Open(t).Close() })
	if err != nil {
		t.Fatal(err)
	}
	return restricted{roles, serverFrom, new(atomic.Int32)}
}

// TestLeastRights runs the suite of all engines with the rights that the docs grant: as the owner, and as the server
// role beside an owner.
func TestLeastRights(t *testing.T) {
	t.Parallel()
	t.Run("owner", func(t *testing.T) {
		t.Parallel()
		r := newRestricted(t, math.MaxInt)
		storetest.Run(t, func(t testing.TB) storetest.Store { return r.another(t, math.MaxInt) })
	})
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		r := newRestricted(t, 0)
		storetest.Run(t, func(t testing.TB) storetest.Store {
			serverFrom := 0
			switch path.Base(t.Name()) {
			case "audit", "prune", "tampering", "pruned_subjects",
				"plants", "large", "corrections", "deliveries", "in_flight", "race":
				serverFrom = 1 // the first engine fills the audit log as a move, prunes it or the subjects, or erases plants
			}
			return r.another(t, serverFrom)
		})
	})
}

// TestServerRights shows that the server role has only the rights that it needs.
func TestServerRights(t *testing.T) {
	t.Parallel()
	r := newRestricted(t, 0)
	c := connect(t, r.Server)
	for _, sql := range []string{
		"DELETE FROM plants", "UPDATE plants SET name = 'x'", "UPDATE plants SET id = 1",
		"TRUNCATE plants", "DROP TABLE plants",
		"DELETE FROM tokens", "UPDATE tokens SET hash = hash", "UPDATE tokens SET scopes = 'admin'",
		"UPDATE plantstore SET moved_to = NULL", "UPDATE plantstore SET pruned_sequence = 1",
		"DELETE FROM plantstore_webhooks", "UPDATE plantstore_webhooks SET url = 'x'",
		"UPDATE plantstore_outbox SET created_at = created_at", "UPDATE plantstore_deliveries SET webhook = 1",
		"DELETE FROM plantstore_audit", "UPDATE plantstore_audit SET entry = ''", "TRUNCATE plantstore_audit",
		"CREATE TABLE plantstore.x ()", "CREATE TABLE public.x ()", "CREATE TEMPORARY TABLE x ()",
		"CREATE SCHEMA x", "CREATE ROLE x",
		"CREATE TRIGGER x BEFORE INSERT ON plants EXECUTE FUNCTION suppress_redundant_updates_trigger()",
	} {
		_, err := c.Exec(t.Context(), sql)
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.Code != "42501" {
			t.Errorf("%s: %v, want insufficient_privilege", sql, err)
		}
	}
	user, _, _ := strings.Cut(strings.TrimPrefix(r.Server, "postgres://"), "@")
	owner, _, _ := strings.Cut(strings.TrimPrefix(r.Owner, "postgres://"), "@")
	want := fmt.Sprintf("the tables are owned by role %q and this connection's role is %q: move as %[1]s", owner, user)
	if _, err := postgres.OpenSource(t.Context(), postgres.Config{URL: r.Server}); err == nil || err.Error() != want {
		t.Errorf("a move:\ngot  %v\nwant %s", err, want)
	}
}

// TestServerWithoutReplays shows that a server does not start if its role may not lock rows: the outcome of every
// replay would be unknown.
func TestServerWithoutReplays(t *testing.T) {
	t.Parallel()
	r := newRestricted(t, 0)
	server, _, _ := strings.Cut(strings.TrimPrefix(r.Server, "postgres://"), "@")
	execute(t, r.Owner, "REVOKE UPDATE (created_by) ON plants FROM "+server)
	_, err := postgres.Open(t.Context(), postgres.Config{URL: r.Server, Server: true, Migrate: true})
	want := `the role may not lock rows of "plantstore"."plants", as each replay does: ` +
		"as the owner, GRANT UPDATE (created_by) ON plants to it: " +
		"ERROR: permission denied for table plants (SQLSTATE 42501)"
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// TestServerWithoutAuditRights shows the errors of a role without rights to the audit log.
func TestServerWithoutAuditRights(t *testing.T) {
	t.Parallel()
	r := newRestricted(t, 0)
	server, _, _ := strings.Cut(strings.TrimPrefix(r.Server, "postgres://"), "@")
	execute(t, r.Owner, "REVOKE ALL ON plantstore_audit FROM "+server)
	e := place(r.Server).Open(t)
	defer e.Close()
	err := e.AppendAudit(t.Context(), audit.Event{Action: "x"})
	const want = "the role lacks a right: as the owner of the tables GRANT it, or use the owner: " +
		"ERROR: permission denied for table plantstore_audit (SQLSTATE 42501)"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	var unrecorded *store.Unrecorded
	revoked := auth.NewRevokedJWT("https://login.example", "a", time.Now())
	if _, err := e.RevokeIdentity(t.Context(), revoked, 1, audit.Origin{}); !errors.As(err, &unrecorded) || err.Error() !=
		"the revocation is stored, but has no entry: "+want {
		t.Errorf("a revocation: %v", err)
	}
	if tokens, err := e.Tokens(t.Context()); err != nil || len(tokens) != 1 {
		t.Errorf("got %+v, %v; want the revoked JWT", tokens, err)
	}
}

// TestMigrateAsServer shows the error of a server that cannot migrate because its role does not own the tables.
func TestMigrateAsServer(t *testing.T) {
	url := olderDatabase(t)
	postgres.AddMigration(t, nextSQL)
	role, own := newRole(t, url, "server")
	execute(t, url, "GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO "+role)
	_, err := postgres.Open(t.Context(), postgres.Config{URL: own, Server: true, Migrate: true})
	want := "must be owner of table tokens (SQLSTATE 42501): " +
		"run plantstore migrate as the owner of the tables, or the first plantstore serve as a role that may create them"
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// TestNoSchema shows the error for a search_path without an existing schema.
func TestNoSchema(t *testing.T) {
	t.Parallel()
	_, err := postgres.Open(t.Context(), postgres.Config{URL: database(t) + "&search_path=missing"})
	want := "no schema of the search_path exists, or its use is not granted: create one, or set search_path in the URL"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}
