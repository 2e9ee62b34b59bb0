package postgres_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"plantstore/internal/plant"
	"plantstore/internal/postgres"
	"plantstore/internal/store"
)

// TestZeroConfig opens a store without a log and without metrics, and shows that a Config without a URL is an error.
func TestZeroConfig(t *testing.T) {
	t.Parallel()
	e, err := postgres.Open(t.Context(), postgres.Config{URL: database(t), Server: true})
	if err != nil {
		t.Fatal(err)
	}
	batch := []store.Create{{Plant: plant.NewPlant{ID: 1, Plant: plant.Plant{Name: "Rosa"}}}}
	if err := errors.Join(insertBatch(t.Context(), e, batch), e.Close()); err != nil {
		t.Error(err)
	}
	if _, err := postgres.Open(t.Context(), postgres.Config{}); err == nil {
		t.Error("a Config without a URL is no error")
	}
	if _, _, err := postgres.Migrate(t.Context(), postgres.Config{}); err == nil {
		t.Error("Migrate: a Config without a URL is no error")
	}
}

// TestOpenTogether opens ten engines on an empty database at the same time.
func TestOpenTogether(t *testing.T) {
	t.Parallel()
	url := database(t)
	var starting sync.WaitGroup
	for i := range int64(10) {
		starting.Go(func() {
			e, err := postgres.Open(t.Context(), postgres.Config{URL: url})
			if err != nil {
				t.Error(err)
				return
			}
			batch := []store.Create{{Plant: plant.NewPlant{ID: i, Plant: plant.Plant{Name: "Rosa"}}}}
			if err := errors.Join(insertBatch(t.Context(), e, batch), e.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	starting.Wait()
	if n := count(t, url, "SELECT count(*) FROM plants"); n != 10 {
		t.Errorf("%d plants, want 10", n)
	}
	if n := count(t, url, "SELECT count(*) FROM plantstore"); n != 1 {
		t.Errorf("%d rows in plantstore, want 1", n)
	}
}

// TestCheck shows that Check creates nothing, and finds that a role may not create the store.
func TestCheck(t *testing.T) {
	t.Parallel()
	url := database(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	must(postgres.Check(t.Context(), postgres.Config{URL: url}))
	if n := count(t, url, "SELECT count(*) FROM pg_tables WHERE tablename LIKE 'pl%'"); n != 0 {
		t.Errorf("Check has left %d tables", n)
	}
	execute(t, url, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
	_, other := newRole(t, url, "checker")
	const want = "or the first plantstore serve as a role that may create them"
	err := postgres.Check(t.Context(), postgres.Config{URL: other})
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	e, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	must(err)
	must(e.Close())
	must(postgres.Check(t.Context(), postgres.Config{URL: url}))
	err = postgres.Check(t.Context(), postgres.Config{URL: url, RequireSyncStandby: true})
	if err == nil || !strings.Contains(err.Error(), "the database waits for no synchronous standby") {
		t.Errorf("got %v", err)
	}
}

// TestOpenRefuses shows the errors for a database that cannot be a store.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, sql string
		mustExist bool
		want      string
	}{
		{"empty", "", true, "there is no store in it"},
		{
			"another table", "CREATE TABLE plants (height int)", false,
			"it has a table plants or tokens of another program: use a database or a schema of its own for the store",
		},
		{
			"newer", "CREATE TABLE plantstore (version bigint); INSERT INTO plantstore VALUES (99)", false,
			"it has schema 99, and this plantstore supports schemas up to 1: use the plantstore that wrote it, or a newer one",
		},
		{
			"negative", "CREATE TABLE plantstore (version bigint); INSERT INTO plantstore VALUES (-1)", false,
			"it has schema -1, and this plantstore supports schemas up to 1: use the plantstore that wrote it, or a newer one",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			url := database(t)
			execute(t, url, test.sql)
			e, err := postgres.Open(t.Context(), postgres.Config{URL: url, MustExist: test.mustExist})
			if err == nil {
				_ = e.Close()
			}
			const prefix = "open the database test"
			if err == nil || !strings.HasPrefix(err.Error(), prefix) || !strings.HasSuffix(err.Error(), test.want) {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
	for url, want := range map[string]string{
		"postgres://mallory:geheim@localhost:1/none":      "the URL has a password, ",
		"postgres://mallory@localhost:none/none":          "the URL is not of the form postgres://",
		"postgres://mallory@localhost:1/none":             "open the database none on localhost port 1: ",
		"postgres://mallory@localhost:1/none?port=x":      "the database URL postgres://mallory@localhost:1/none?port=x: inv",
		"postgres://mallory@localhost:1/none?geheim=x":    "the database URL: a parameter is unknown: use those of libpq",
		"postgres://mallory@localhost:1/none?user=a%00b":  "failed to parse as URL",
		"postgres://mallory@localhost:1/none?sslmode=non": "none?sslmode=non: failed to configure TLS (sslmode is invalid)",
	} {
		_, err := postgres.Open(t.Context(), postgres.Config{URL: url})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "heim") {
			t.Errorf("%s:\ngot  %v\nwant %s, and no password", url, err, want)
		}
	}
}

// connect opens a connection of the test's own, which is closed at the end of the test.
func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(t.Context()) })
	return c
}

func execute(t testing.TB, url, sql string) {
	t.Helper()
	if _, err := connect(t, url).Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func count(t testing.TB, url, sql string) (n int64) {
	t.Helper()
	if err := connect(t, url).QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestOpenWithoutPrimaryKey shows that Open refuses a store whose restore failed before it created the primary key:
// there, a second COPY of the same plants succeeds.
func TestOpenWithoutPrimaryKey(t *testing.T) {
	t.Parallel()
	url := database(t)
	if err := place(url).Open(t).Close(); err != nil {
		t.Fatal(err)
	}
	execute(t, url, "ALTER TABLE plants DROP CONSTRAINT plants_pkey")
	for _, server := range []bool{false, true} {
		e, err := postgres.Open(t.Context(), postgres.Config{URL: url, MustExist: true, Server: server})
		if err == nil {
			_ = e.Close()
		}
		const want = `"public"."plants" has no primary key, as after a restore that failed: restore it again, ` +
			"or run ALTER TABLE plants ADD PRIMARY KEY (id)"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("server %t: got %v, want %q", server, err, want)
		}
	}
}

// TestOpenUnlogged shows that Open refuses a store with a table that a crash of the database empties.
func TestOpenUnlogged(t *testing.T) {
	t.Parallel()
	url := database(t)
	if err := place(url).Open(t).Close(); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"plants", "plantstore_audit"} {
		execute(t, url, "ALTER TABLE "+table+" SET UNLOGGED")
		e, err := postgres.Open(t.Context(), postgres.Config{URL: url})
		if err == nil {
			_ = e.Close()
		}
		want := `table "public"."` + table + `" is not logged, so a crash empties it: run `
		_, remedy, found := strings.Cut(errorText(err), want)
		if !found {
			t.Fatalf("%s: %v", table, err)
		}
		execute(t, url, remedy)
	}
	if err := place(url).Open(t).Close(); err != nil {
		t.Error(err)
	}
}
