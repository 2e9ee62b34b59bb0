package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"plantstore/internal/plant"
	"plantstore/internal/store"
	"plantstore/internal/store/storetest"
)

// TestMoveBesideReader shows that a transaction that only reads, a dump for example, does
// not block a move, and that servers store plants until the store is read-only.
func TestMoveBesideReader(t *testing.T) {
	t.Parallel()
	url := database(t)
	e, other := place(url).Open(t), place(url).Open(t)
	t.Cleanup(func() {
		if err := errors.Join(e.Close(), other.Close()); err != nil {
			t.Error(err)
		}
	})
	reader, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close(context.WithoutCancel(t.Context()))
	if _, err := reader.Exec(t.Context(), "BEGIN; SELECT count(*) FROM plants"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	insert := func(id int64) error {
		return insertBatch(ctx, other, []store.Create{{Plant: plant.NewPlant{ID: id}, At: time.Now()}})
	}
	moving := store.MoveState{Phase: store.Moving, Other: "a place"}
	for _, err := range []error{
		e.StartCapture(ctx),
		insert(1),
		e.SetMoveState(ctx, store.MoveState{}, moving),
		e.SetMoveState(ctx, moving, store.MoveState{Phase: store.Moved, Other: "a place"}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := insert(2); !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("a plant for a read-only store: %v, want %v", err, store.ErrReadOnly)
	}
	for _, err := range []error{e.Reopen(ctx), insert(2), e.StartCapture(ctx), insert(3)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	ids, err := e.Captured(ctx, 10)
	if err != nil || !slices.Equal(ids, []int64{3}) {
		t.Errorf("the second capture beside a reader: %v, %v; want plant 3", ids, err)
	}
	if _, err := reader.Exec(ctx, "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := e.Reopen(ctx); err != nil {
		t.Fatal(err)
	}
	const triggers = "SELECT count(*) FROM pg_trigger WHERE tgname IN ('plantstore_capture', 'plantstore_refuse')"
	if n := count(t, url, triggers); n != 0 {
		t.Errorf("%d triggers are left after the end of the reader", n)
	}
}

// TestMoveAsOtherRole shows that a role that does not own the tables cannot move the store:
// the owner could not drop its triggers.
func TestMoveAsOtherRole(t *testing.T) {
	t.Parallel()
	url := database(t)
	e := place(url).Open(t)
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	role := "nursery_" + c.Config().Database
	if _, err := c.Exec(t.Context(), "CREATE ROLE "+role+"; ALTER TABLE plants OWNER TO "+role); err != nil {
		t.Fatal(err)
	}
	err = e.StartCapture(t.Context())
	want := `the tables are owned by role "` + role + `" and this connection's role is "postgres": move as ` + role
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %q", err, want)
	}
	_, err = c.Exec(t.Context(), "ALTER TABLE plants OWNER TO postgres; DROP ROLE "+role)
	if err := errors.Join(err, c.Close(t.Context()), e.Close()); err != nil {
		t.Error(err)
	}
}

// TestCaptureOtherRole shows that a role that may only insert plants, or some of their
// columns, can do so during a capture.
func TestCaptureOtherRole(t *testing.T) {
	t.Parallel()
	url := database(t)
	e := place(url).Open(t)
	c := connect(t, url)
	for i, grant := range []string{"INSERT", "INSERT (id, name, tag, created_at, created_by)"} {
		role := pgx.Identifier{fmt.Sprintf(`Server "%d" of %s`, i, c.Config().Database)}.Sanitize()
		if _, err := c.Exec(t.Context(), "CREATE ROLE "+role+"; GRANT "+grant+" ON plants TO "+role); err != nil {
			t.Fatal(err)
		}
		if err := e.StartCapture(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, err := c.Exec(t.Context(), fmt.Sprintf("SET ROLE %s; INSERT INTO plants VALUES (%d, 'Rosa', NULL, now(), 0); "+
			"RESET ROLE; DROP OWNED BY %[1]s; DROP ROLE %[1]s", role, i))
		if err != nil {
			t.Fatal(err)
		}
		ids, err := e.Captured(t.Context(), 10)
		if err != nil || !slices.Equal(ids, []int64{int64(i)}) {
			t.Errorf("captured: %v, %v; want plant %d", ids, err, i)
		}
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// TestMoveStateOfAnother shows that an engine whose own move state was rolled back or
// cleared may not write under the same state of another engine.
func TestMoveStateOfAnother(t *testing.T) {
	t.Parallel()
	filling := store.MoveState{Phase: store.Filling, Other: "a place"}
	for name, set := range map[string]func(t *testing.T, url string, e storetest.Engine){
		"rolled back": func(t *testing.T, url string, e storetest.Engine) {
			execute(t, url, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
					'BEGIN RAISE EXCEPTION ''refused''; END';
				CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON plantstore
					DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()`)
			err := e.SetMoveState(t.Context(), store.MoveState{}, filling)
			if err == nil || !strings.Contains(err.Error(), "refused") {
				t.Fatalf("SetMoveState: %v, want the error of its commit", err)
			}
			execute(t, url, "DROP TRIGGER refuse ON plantstore")
		},
		"cleared": func(t *testing.T, _ string, e storetest.Engine) {
			err := errors.Join(e.SetMoveState(t.Context(), store.MoveState{}, filling), e.Reopen(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := database(t)
			e, other := place(url).Open(t), place(url).Open(t)
			set(t, url, e)
			if err := other.SetMoveState(t.Context(), store.MoveState{}, filling); err != nil {
				t.Fatal(err)
			}
			if err := e.PutTokens(t.Context(), nil); !errors.Is(err, store.ErrReadOnly) {
				t.Errorf("PutTokens: %v, want %v", err, store.ErrReadOnly)
			}
			if err := errors.Join(other.PutTokens(t.Context(), nil), e.Close(), other.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}
