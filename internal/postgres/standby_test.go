package postgres_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"plantstore/internal/plant"
	"plantstore/internal/postgres"
	"plantstore/internal/postgres/pgtest"
	"plantstore/internal/store"
)

// standby is a database of which a synchronous standby is wanted, and missing,
// or not wanted any more.
type standby struct {
	t   *testing.T
	url string
}

// newStandby starts a server of its own, because what it sets is for all
// databases of a server.
func newStandby(t *testing.T) *standby {
	t.Helper()
	if server == nil {
		t.Skip("there is no PostgreSQL")
	}
	own, err := pgtest.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := own.Stop(); err != nil {
			t.Error(err)
		}
	})
	url, err := own.Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &standby{t, url}
}

// want makes every COMMIT wait for a standby that there is not. The server takes
// its time to notice: want returns when a COMMIT of its own waits, which it ends.
func (s *standby) want() {
	s.t.Helper()
	s.set("ALTER SYSTEM SET synchronous_standby_names = 'missing'")
	c := connect(s.t, s.url)
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

// unwant ends all waits for a standby.
func (s *standby) unwant() { s.set("ALTER SYSTEM RESET synchronous_standby_names") }

func (s *standby) set(sql string) {
	s.t.Helper()
	execute(s.t, s.url, sql)
	execute(s.t, s.url, "SELECT pg_reload_conf()")
}

// waiting waits until a COMMIT waits for the standby, and returns which backend
// does.
func (s *standby) waiting(not int64) (pid int64) {
	s.t.Helper()
	c := connect(s.t, s.url)
	late := time.NewTimer(30 * time.Second)
	defer late.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for pid == 0 {
		select {
		case <-late.C:
			s.t.Fatal("no COMMIT waits for the standby")
		case <-tick.C:
		}
		if err := c.QueryRow(s.t.Context(), "SELECT coalesce(max(pid), 0) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND pid <> $1", not).Scan(&pid); err != nil {
			s.t.Fatal(err)
		}
	}
	return pid
}

// insertBatch returns only the error of Insert.
func insertBatch(ctx context.Context, e store.Engine, batch []store.Create) error {
	_, err := e.Insert(ctx, batch)
	return err
}

// TestCancelledWait ends the wait for a synchronous standby in the two ways that
// an administrator has. The plant is on one machine only, whatever the database
// answers, so the engine must not say that it is stored; it asks again, which
// waits as well.
func TestCancelledWait(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"pg_cancel_backend", "pg_terminate_backend"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := newStandby(t)
			e := place(s.url).Open(t)
			batch := []store.Create{
				{Plant: plant.NewPlant{ID: 1, Plant: plant.Plant{Name: "Rosa", Tag: plant.Tagged("shrub")}}, At: time.Now(), By: 7},
				{Plant: plant.NewPlant{ID: 1, Plant: plant.Plant{Name: "Rosa", Tag: plant.Tagged("shrub")}}, At: time.Now(), By: 7},
				{Plant: plant.NewPlant{ID: 2, Plant: plant.Plant{Name: "Acer"}}, At: time.Now()},
			}
			s.want()
			var outcomes []store.Outcome // set before done has a value
			done := make(chan error, 1)
			go func() {
				var err error
				outcomes, err = e.Insert(t.Context(), batch)
				done <- err
			}()
			pid := s.waiting(0)
			execute(t, s.url, "SELECT "+how+"("+strconv.FormatInt(pid, 10)+")")
			s.waiting(pid * sameBackend(how)) // it has found the plants, and waits again
			select {
			case err := <-done:
				t.Fatalf("Insert returned %v while the standby was missing", err)
			default:
			}
			s.unwant()
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

// sameBackend is 0 if the backend that was waiting may wait again, else 1.
func sameBackend(how string) int64 {
	if how == "pg_cancel_backend" {
		return 0
	}
	return 1
}

// TestReplayWaits shows that a plant which is there already is acknowledged only
// when it is on the standby, too.
func TestReplayWaits(t *testing.T) {
	t.Parallel()
	s := newStandby(t)
	e := place(s.url).Open(t)
	batch := []store.Create{{Plant: plant.NewPlant{ID: 1, Plant: plant.Plant{Name: "Rosa"}}, At: time.Now()}}
	if err := insertBatch(t.Context(), e, batch); err != nil {
		t.Fatal(err)
	}
	s.want()
	var outcomes []store.Outcome // set before done has a value
	done := make(chan error, 1)
	go func() {
		var err error
		outcomes, err = e.Insert(t.Context(), batch)
		done <- err
	}()
	s.waiting(0)
	s.unwant()
	if err := <-done; err != nil || !outcomes[0].Replayed {
		t.Errorf("got %+v, %v, want a replay", outcomes, err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// TestUnknown shows that a batch whose time ends while it waits is one of which
// nobody knows the outcome.
func TestUnknown(t *testing.T) {
	t.Parallel()
	s := newStandby(t)
	e := place(s.url).Open(t)
	s.want()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	batch := []store.Create{{Plant: plant.NewPlant{ID: 1, Plant: plant.Plant{Name: "Rosa"}}, At: time.Now()}}
	go func() { done <- insertBatch(ctx, e, batch) }()
	s.waiting(0)
	cancel()
	if err := <-done; !errors.Is(err, store.ErrOutcomeUnknown) {
		t.Errorf("got %v, want %v", err, store.ErrOutcomeUnknown)
	}
	s.unwant()
	if outcomes, err := e.Insert(t.Context(), batch); err != nil || !outcomes[0].Replayed {
		t.Errorf("afterwards: %+v, %v, want a replay", outcomes, err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// TestRequiredStandby shows that a server which requires a standby neither starts
// without one nor acknowledges anything when it is taken away.
func TestRequiredStandby(t *testing.T) {
	t.Parallel()
	s := newStandby(t)
	config := postgres.Config{URL: s.url, Server: true, RequireSyncStandby: true}
	if e, err := postgres.Open(t.Context(), config); err == nil || !strings.HasSuffix(err.Error(), "the database waits for no synchronous standby, and one is required: set synchronous_standby_names") {
		if err == nil {
			_ = e.Close()
		}
		t.Errorf("without a standby: %v", err)
	}
	if n := count(t, s.url, "SELECT count(*) FROM pg_tables WHERE tablename IN ('plantstore', 'plants', 'tokens')"); n != 0 {
		t.Errorf("a start that was refused created %d tables", n)
	}
	if err := place(s.url).Open(t).Close(); err != nil { // makes the tables, for whose COMMIT no standby must be wanted yet
		t.Fatal(err)
	}
	s.want()
	e, err := postgres.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	if d := e.Durability(); !d.Standby || d.Guarantee != "on stable storage of the database's machine and of a synchronous standby (missing)" || len(d.Warnings) > 0 {
		t.Errorf("durability: %+v", d)
	}
	s.standbyGoes(e)

	// Whether there is one is asked each time: a standby that comes back is seen
	// at once, also by an engine that has never looked what a COMMIT is worth.
	insert := func() error {
		return insertBatch(t.Context(), e, []store.Create{{Plant: plant.NewPlant{ID: 2, Plant: plant.Plant{Name: "Rosa"}}, At: time.Now()}})
	}
	if err := insert(); err == nil || errors.Is(err, store.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "waits for no synchronous standby") {
		t.Errorf("without a standby: %v", err)
	}
	s.want()
	s.standbyGoes(e)
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	config.Server = false
	s.want()
	if e, err = postgres.Open(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	s.standbyGoes(e)
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// standbyGoes has the standby gone while a commit waits for it.
func (s *standby) standbyGoes(e *postgres.Engine) {
	t := s.t
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- insertBatch(ctx, e, []store.Create{{Plant: plant.NewPlant{ID: 1, Plant: plant.Plant{Name: "Rosa"}}, At: time.Now()}})
	}()
	s.waiting(0)
	s.unwant() // the database answers, without a standby
	if err := <-done; !errors.Is(err, store.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "waits for no synchronous standby") {
		t.Errorf("got %v, want %v because there is no standby", err, store.ErrOutcomeUnknown)
	}
}

// TestAsynchronousCommit shows that the engine makes the database wait for the disk,
// also where it is told not to.
func TestAsynchronousCommit(t *testing.T) {
	t.Parallel()
	url := database(t)
	execute(t, url, "DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || current_database() || ' SET synchronous_commit = off'; END $$")
	if off := count(t, url, "SELECT count(*) FROM pg_settings WHERE name = 'synchronous_commit' AND setting = 'off'"); off != 1 {
		t.Fatal("the database does not have what the test needs")
	}
	e, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	execute(t, url, `CREATE TABLE seen (level text);
		CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO seen VALUES (current_setting('synchronous_commit')); RETURN NEW; END $$;
		CREATE TRIGGER look BEFORE INSERT ON plants FOR EACH ROW EXECUTE FUNCTION look()`)
	batch := []store.Create{{Plant: plant.NewPlant{ID: 1, Plant: plant.Plant{Name: "Rosa"}}, At: time.Now()}}
	if err := errors.Join(insertBatch(t.Context(), e, batch), e.Close()); err != nil {
		t.Fatal(err)
	}
	if on := count(t, url, "SELECT count(*) FROM seen WHERE level = 'on'"); on != 1 {
		t.Error("a plant was stored without waiting for the disk")
	}
}
