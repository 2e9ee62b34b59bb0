package postgres_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/postgres"
	"plantstore/internal/store"
)

var someWebhook = []string{"https://a.example/"}

// openTwo opens two engines on an empty store.
func openTwo(t *testing.T, log *slog.Logger) (url string, here, other *postgres.Engine) {
	t.Helper()
	url = database(t)
	var engines [2]*postgres.Engine
	for i := range engines {
		e, err := postgres.Open(t.Context(), postgres.Config{URL: url, Log: log})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		engines[i] = e
	}
	return url, engines[0], engines[1]
}

// someCreates returns creates of plants with the ids from first on.
func someCreates(first int64, n int) []store.Create {
	batch := make([]store.Create, n)
	for i := range batch {
		batch[i].Plant.ID = first + int64(i)
	}
	return batch
}

// TestWebhooksOfOtherServer shows that plants have events as soon as another server has returned from SetWebhooks: in
// a small batch, in a large one, and beside a replay.
func TestWebhooksOfOtherServer(t *testing.T) {
	t.Parallel()
	for name, batch := range map[string][]store.Create{
		"insert": someCreates(2, 1), "copy": someCreates(2, 2000), "replay": someCreates(1, 2),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, here, other := openTwo(t, nil)
			err := insertBatch(t.Context(), here, someCreates(1, 1)) // reads that there are no webhooks
			_, errSet := other.SetWebhooks(t.Context(), someWebhook, audit.Origin{})
			if err := errors.Join(err, errSet, insertBatch(t.Context(), here, batch)); err != nil {
				t.Fatal(err)
			}
			created := count(t, url, "SELECT count(*) FROM plants WHERE id > 1")
			if n := count(t, url, "SELECT count(*) FROM plantstore_outbox"); n != created {
				t.Errorf("%d events of %d plants", n, created)
			}
		})
	}
}

// TestWebhooksWait shows that SetWebhooks waits for a create that began before it, because its plant gets no event. If
// the create lasts for long, SetWebhooks logs that and returns; the next call waits again.
func TestWebhooksWait(t *testing.T) {
	t.Parallel()
	log := &lines{}
	url, here, other := openTwo(t, slog.New(slog.NewTextHandler(log, nil)))
	blocker, err := connect(t, url).Begin(t.Context())
	if err == nil {
		_, err = blocker.Exec(t.Context(), "INSERT INTO plants VALUES (1, 'other', NULL, current_timestamp, 0)")
	}
	if err != nil {
		t.Fatal(err)
	}
	created, set := make(chan error, 1), make(chan error, 1)
	go func() { created <- insertBatch(t.Context(), here, someCreates(1, 1)) }()
	active := "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND "
	reach(t, url, active+"wait_event = 'transactionid'", nil)

	_, err = other.SetWebhooks(t.Context(), someWebhook, audit.Origin{})
	if text := strings.Join(log.get(), ""); err != nil || !strings.Contains(text, "still create plants") {
		t.Fatalf("SetWebhooks during a long create: %v, log:\n%s", err, text)
	}
	logged := len(log.get())
	started := count(t, url, "SELECT extract(epoch FROM clock_timestamp()) * 1e6")
	go func() {
		_, err := other.SetWebhooks(t.Context(), someWebhook, audit.Origin{})
		set <- err
	}()
	reach(t, url, active+fmt.Sprintf("query LIKE '%%FROM pg_locks%%' AND pid <> pg_backend_pid() "+
		"AND extract(epoch FROM query_start) * 1e6 > %d", started), set)
	if err := errors.Join(blocker.Rollback(t.Context()), <-set); err != nil {
		t.Fatal(err)
	}
	// On a very slow machine the second call may have reached its limit by now.
	if n := count(t, url, "SELECT count(*) FROM plants"); n != 1 && len(log.get()) == logged {
		t.Errorf("SetWebhooks returned before the end of the create: %d plants", n)
	}
	if err := <-created; err != nil {
		t.Fatal(err)
	}
}

// reach waits until a query counts a row. The test fails if done receives a value first.
func reach(t *testing.T, url, sql string, done <-chan error) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for c := connect(t, url); ; {
		var n int
		if err := c.QueryRow(t.Context(), sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			return
		}
		select {
		case err := <-done:
			t.Fatalf("the call has returned (%v) before %s", err, sql)
		case <-tick.C:
		}
	}
}
