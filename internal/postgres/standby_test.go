package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"plantstore/internal/plant"
	"plantstore/internal/postgres"
	"plantstore/internal/store"
	"plantstore/internal/store/storetest"
)

// standby is a database that waits for a synchronous standby that does not exist, or for none.
type standby struct {
	t   *testing.T
	url string
}

// newStandby starts a PostgreSQL server of its own: the setting applies to all databases of a server.
func newStandby(t *testing.T) *standby {
	t.Helper()
	url, err := ownServer(t).Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &standby{t, url}
}

// require makes the database wait for a standby that does not exist, but by the defaults of a session neither for its
// COMMIT nor with a warning. The server applies the settings after a while: require returns when a COMMIT of its own
// has waited.
func (s *standby) require() {
	s.t.Helper()
	execute(s.t, s.url, "ALTER SYSTEM SET synchronous_commit = 'local'")
	execute(s.t, s.url, "ALTER SYSTEM SET client_min_messages = 'error'")
	s.set("ALTER SYSTEM SET synchronous_standby_names = 'missing'")
	c := connect(s.t, s.url)
	if _, err := c.Exec(s.t.Context(), "SET synchronous_commit = 'on'"); err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { // ends when its backend does
		defer close(ended)
		for c.Ping(s.t.Context()) == nil {
			_, _ = c.Exec(s.t.Context(), "UPDATE plantstore SET token_changes = token_changes")
		}
	}()
	execute(s.t, s.url, "SELECT pg_terminate_backend("+strconv.FormatInt(s.waiting(0), 10)+")")
	<-ended
}

// release ends all waits for the standby.
func (s *standby) release() { s.set("ALTER SYSTEM RESET synchronous_standby_names") }

func (s *standby) set(sql string) {
	s.t.Helper()
	execute(s.t, s.url, sql)
	execute(s.t, s.url, "SELECT pg_reload_conf()")
}

// waiting waits until a COMMIT of another backend than not waits for the standby, and returns its process id.
func (s *standby) waiting(not int64) (pid int64) {
	s.t.Helper()
	c := connect(s.t, s.url)
	late := time.NewTimer(time.Minute)
	defer late.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for pid == 0 {
		select {
		case <-late.C:
			s.t.Fatal("no COMMIT waits for the standby")
		case <-tick.C:
		}
		const sql = "SELECT coalesce(max(pid), 0) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND pid <> $1"
		if err := c.QueryRow(s.t.Context(), sql, not).Scan(&pid); err != nil {
			s.t.Fatal(err)
		}
	}
	return pid
}

// insertBatch returns only the error of Insert.
func insertBatch(ctx context.Context, e storetest.Engine, batch []store.Create) error {
	_, err := e.Insert(ctx, batch)
	return err
}

// TestCancelledWait ends the wait for a synchronous standby in the two ways that an administrator has. The plant is
// then on one machine only, although the COMMIT succeeds, so Insert must not return yet: its second attempt waits too.
func TestCancelledWait(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"pg_cancel_backend", "pg_terminate_backend"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := newStandby(t)
			e := place(s.url).Open(t)
			rosa := plant.Plant{Name: "Rosa", Tag: plant.Tagged("shrub")}
			batch := []store.Create{
				{Plant: plant.NewPlant{ID: 1, Plant: rosa}, At: time.Now(), By: 7},
				{Plant: plant.NewPlant{ID: 1, Plant: rosa}, At: time.Now(), By: 7},
				{Plant: plant.NewPlant{ID: 2, Plant: plant.Plant{Name: "Acer"}}, At: time.Now()},
			}
			s.require()
			var outcomes []store.Outcome // set before done receives a value
			done := make(chan error, 1)
			go func() {
				var err error
				outcomes, err = e.Insert(t.Context(), batch)
				done <- err
			}()
			pid := s.waiting(0)
			execute(t, s.url, "SELECT "+how+"("+strconv.FormatInt(pid, 10)+")")
			s.waiting(pid * sameBackend(how)) // the second attempt has read the plants, and waits
			select {
			case err := <-done:
				t.Fatalf("Insert returned %v while the standby was missing", err)
			default:
			}
			s.release()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if want := []store.Outcome{{}, {Replayed: true}, {}}; !slices.Equal(outcomes, want) {
				t.Errorf("got %+v, want %+v: its own first attempt created the plants", outcomes, want)
			}
			if n := count(t, s.url, "SELECT count(*) FROM plants"); n != 2 {
				t.Errorf("%d plants, want 2", n)
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOtherWarning shows that a warning about something else does not make the outcome of a transaction unknown. Near
// the limit of its transaction ids, a database adds one to each transaction that writes.
func TestOtherWarning(t *testing.T) {
	t.Parallel()
	url := database(t)
	e := place(url).Open(t)
	execute(t, url, `CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			RAISE WARNING 'database "plants" must be vacuumed within 40000000 transactions'; RETURN NULL; END $$;
		CREATE TRIGGER warn AFTER INSERT ON plants FOR EACH STATEMENT EXECUTE FUNCTION warn()`)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // an unknown outcome is repeated until it ends
	defer cancel()
	if outcomes, err := e.Insert(ctx, plants(1, 1)); err != nil || outcomes[0] != (store.Outcome{}) {
		t.Errorf("got %+v, %v, want a new plant", outcomes, err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// sameBackend returns 0 if the same backend may wait again, else 1.
func sameBackend(how string) int64 {
	if how == "pg_cancel_backend" {
		return 0
	}
	return 1
}

// TestReplayWaits shows that a replay is acknowledged only when the plant is on the standby too.
func TestReplayWaits(t *testing.T) {
	t.Parallel()
	s := newStandby(t)
	e := place(s.url).Open(t)
	batch := []store.Create{{Plant: plant.NewPlant{ID: 1, Plant: plant.Plant{Name: "Rosa"}}, At: time.Now()}}
	if err := insertBatch(t.Context(), e, batch); err != nil {
		t.Fatal(err)
	}
	s.require()
	var outcomes []store.Outcome // set before done receives a value
	done := make(chan error, 1)
	go func() {
		var err error
		outcomes, err = e.Insert(t.Context(), batch)
		done <- err
	}()
	s.waiting(0)
	s.release()
	if err := <-done; err != nil || !outcomes[0].Replayed {
		t.Errorf("got %+v, %v, want a replay", outcomes, err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// TestUnknown shows that the outcome of a batch whose context ends during the wait is unknown.
func TestUnknown(t *testing.T) {
	t.Parallel()
	s := newStandby(t)
	e := place(s.url).Open(t)
	s.require()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	batch := []store.Create{{Plant: plant.NewPlant{ID: 1, Plant: plant.Plant{Name: "Rosa"}}, At: time.Now()}}
	go func() { done <- insertBatch(ctx, e, batch) }()
	s.waiting(0)
	cancel()
	if err := <-done; !errors.Is(err, store.ErrOutcomeUnknown) {
		t.Errorf("got %v, want %v", err, store.ErrOutcomeUnknown)
	}
	s.release()
	if outcomes, err := e.Insert(t.Context(), batch); err != nil || !outcomes[0].Replayed {
		t.Errorf("afterwards: %+v, %v, want a replay", outcomes, err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// TestRequiredStandby shows that a server that requires a standby neither starts without one, nor acknowledges plants
// when the database no longer waits for it.
func TestRequiredStandby(t *testing.T) {
	t.Parallel()
	s := newStandby(t)
	repeats := lineSignal{text: "no synchronous standby", seen: make(chan struct{}, 1)}
	config := postgres.Config{
		URL: s.url, Server: true, RequireSyncStandby: true,
		Log: slog.New(slog.NewTextHandler(repeats, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	const missing = "the database waits for no synchronous standby, and one is required: set synchronous_standby_names"
	if e, err := postgres.Open(t.Context(), config); err == nil || !strings.HasSuffix(err.Error(), missing) {
		if err == nil {
			_ = e.Close()
		}
		t.Errorf("without a standby: %v", err)
	}
	const tables = "SELECT count(*) FROM pg_tables WHERE tablename IN ('plantstore', 'plants', 'tokens')"
	if n := count(t, s.url, tables); n != 0 {
		t.Errorf("the refused start created %d tables", n)
	}
	if err := place(s.url).Open(t).Close(); err != nil { // creates the tables, before their COMMIT would wait
		t.Fatal(err)
	}
	s.require()
	e, err := postgres.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	const guarantee = "on stable storage of the database's machine and of a synchronous standby (missing)"
	if d := e.Durability(); !d.Standby || d.Guarantee != guarantee || len(d.Warnings) > 0 {
		t.Errorf("durability: %+v", d)
	}
	s.loseStandby(e, repeats)

	// Every Insert checks the setting: a standby that returns is effective at once, also for an engine that does not read
	// the settings at intervals.
	err = insertBatch(t.Context(), e, []store.Create{{Plant: plant.NewPlant{ID: 2}, At: time.Now()}})
	if err == nil || errors.Is(err, store.ErrOutcomeUnknown) || !strings.Contains(err.Error(), missing) {
		t.Errorf("without a standby: %v", err)
	}
	s.require()
	s.loseStandby(e, repeats)
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	config.Server = false
	s.require()
	if e, err = postgres.Open(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	s.loseStandby(e, repeats)
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// TestToggledStandby removes and sets the names of a standby that never connects: no plant may be acknowledged, though
// a session sees new names before the database waits for them.
func TestToggledStandby(t *testing.T) {
	t.Parallel()
	s := newStandby(t)
	if err := place(s.url).Open(t).Close(); err != nil { // creates the tables, before their COMMIT would wait
		t.Fatal(err)
	}
	s.require()
	e, err := postgres.Open(t.Context(), postgres.Config{URL: s.url, RequireSyncStandby: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var creating sync.WaitGroup
	for worker := range int64(3) {
		creating.Go(func() {
			for id := worker; ctx.Err() == nil; id += 3 {
				if err := insertBatch(ctx, e, plants(id, 1)); err == nil {
					t.Errorf("plant %d was acknowledged", id)
				}
			}
		})
	}
	c := connect(t, s.url)
	for range 3 {
		s.waiting(0)
		for range 30 {
			for _, names := range []string{"", "missing"} {
				if _, err := c.Exec(t.Context(), "ALTER SYSTEM SET synchronous_standby_names = '"+names+"'"); err != nil {
					t.Error(err)
				}
				if _, err := c.Exec(t.Context(), "SELECT pg_reload_conf()"); err != nil {
					t.Error(err)
				}
			}
		}
	}
	cancel()
	creating.Wait()
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// TestStandbyAfterReload sets the names of standbys while the checkpointer stands still: sessions have read the names,
// and a COMMIT does not wait yet. In that time no plant is acknowledged.
func TestStandbyAfterReload(t *testing.T) {
	t.Parallel()
	s := newStandby(t)
	if err := place(s.url).Open(t).Close(); err != nil { // creates the tables, before their COMMIT would wait
		t.Fatal(err)
	}
	s.require()
	unsure := lineSignal{text: "just read its settings again", seen: make(chan struct{}, 1)}
	e, err := postgres.Open(t.Context(), postgres.Config{
		URL: s.url, RequireSyncStandby: true,
		Log: slog.New(slog.NewTextHandler(unsure, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	checkpointer := int(count(t, s.url, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'"))
	signal := func(is syscall.Signal) {
		if err := syscall.Kill(checkpointer, is); err != nil {
			t.Fatal(err)
		}
	}
	for id := int64(1); ; id++ {
		s.release()
		// This COMMIT ends when the checkpointer has read the names.
		execute(t, s.url, "SET synchronous_commit = 'on'; UPDATE plantstore SET token_changes = token_changes")
		signal(syscall.SIGSTOP)
		began := time.Now()
		s.set("ALTER SYSTEM SET synchronous_standby_names = 'missing'")
		const read = "SELECT count(*) FROM pg_settings WHERE name = 'synchronous_standby_names' AND setting = 'missing'"
		until(t, "new sessions have the names", func() bool { return count(t, s.url, read) == 1 })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- insertBatch(ctx, e, plants(id, 1)) }()
		select {
		case <-unsure.seen:
		case err := <-done:
			done <- err
		}
		conclusive := time.Since(began) < time.Second // afterwards the engine trusts the database
		signal(syscall.SIGCONT)
		cancel()
		if err := <-done; conclusive && err == nil {
			t.Errorf("plant %d was acknowledged", id)
		}
		if conclusive {
			return
		}
	}
}

// TestReloadDuringWait shows that a COMMIT during which the database reads its settings again is no acknowledgement:
// they may have had no standby for a moment. The batch is repeated.
func TestReloadDuringWait(t *testing.T) {
	t.Parallel()
	s := newStandby(t)
	if err := place(s.url).Open(t).Close(); err != nil { // creates the tables, before their COMMIT would wait
		t.Fatal(err)
	}
	s.require()
	repeats := lineSignal{text: "just read its settings again", seen: make(chan struct{}, 1)}
	e, err := postgres.Open(t.Context(), postgres.Config{
		URL: s.url, RequireSyncStandby: true,
		Log: slog.New(slog.NewTextHandler(repeats, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		t.Fatal(err)
	}
	var outcomes []store.Outcome // set before done receives a value
	done := make(chan error, 1)
	go func() {
		var err error
		outcomes, err = e.Insert(t.Context(), plants(1, 1))
		done <- err
	}()
	s.waiting(0)
	select {
	case <-repeats.seen: // from require, which reads the settings
	default:
	}
	execute(t, s.url, "SELECT pg_reload_conf()")
	s.connect()
	select {
	case <-repeats.seen:
	case err := <-done:
		t.Fatalf("Insert returned %v after one attempt", err)
	}
	if err := <-done; err != nil || outcomes[0] != (store.Outcome{}) {
		t.Errorf("got %+v, %v, want a new plant", outcomes, err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// connect connects the missing standby until the end of the test. It confirms every COMMIT.
func (s *standby) connect() {
	s.t.Helper()
	c, err := pgconn.Connect(s.t.Context(), s.url+"&replication=true&application_name=missing")
	if err != nil {
		s.t.Fatal(err)
	}
	results, err := c.Exec(s.t.Context(), "IDENTIFY_SYSTEM").ReadAll()
	if err != nil {
		s.t.Fatal(err)
	}
	c.Frontend().Send(&pgproto3.Query{String: "START_REPLICATION " + string(results[0].Rows[0][2])})
	// https://www.postgresql.org/docs/current/protocol-replication.html, Standby status update
	all := slices.Concat([]byte{'r'}, bytes.Repeat([]byte{0x7f}, 24), make([]byte, 9))
	var confirming sync.WaitGroup // both end with the connection
	confirming.Go(func() { _, _ = io.Copy(io.Discard, c.Conn()) })
	confirming.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for c.Frontend().Flush() == nil {
			<-tick.C
			c.Frontend().Send(&pgproto3.CopyData{Data: all})
		}
	})
	s.t.Cleanup(func() {
		_ = c.Conn().Close()
		confirming.Wait()
	})
}

// loseStandby ends the requirement of a standby while a commit waits for it. The engine logs a line of repeats
// before each further attempt.
func (s *standby) loseStandby(e *postgres.Engine, repeats lineSignal) {
	t := s.t
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- insertBatch(ctx, e, []store.Create{{Plant: plant.NewPlant{ID: 1}, At: time.Now()}})
	}()
	s.waiting(0)
	select {
	case <-repeats.seen: // from an earlier call
	default:
	}
	s.release() // the COMMIT succeeds, without a standby
	<-repeats.seen
	cancel()
	if err := <-done; !errors.Is(err, store.ErrOutcomeUnknown) {
		t.Errorf("got %v, want %v", err, store.ErrOutcomeUnknown)
	}
}
