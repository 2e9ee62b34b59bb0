package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"plantstore/internal/store"
)

// Following and holding a store needs triggers, which a distributed database may
// not have. They are there only while a store is moved away, and after that the
// one that holds it.
//
// What a trigger does is in its function, because that can be replaced without
// a wait for those who read the table. Only to make it do something waits, for
// those who write: each of them is before it or after it
// (https://www.postgresql.org/docs/current/explicit-locking.html).
type trigger struct {
	name string
	does string // the body of its function
	idle string // the body that does nothing
	made string // after CREATE TRIGGER name
}

// heldCode is the SQLSTATE with which a store that is held refuses a plant.
const heldCode = "PS001"

var (
	// follow notes each plant that is created, in the same transaction, whichever
	// server's that is.
	follow = trigger{
		name: "follow",
		does: "BEGIN INSERT INTO followed SELECT id FROM created; RETURN NULL; END",
		idle: "BEGIN RETURN NULL; END",
		made: "AFTER INSERT ON plants REFERENCING NEW TABLE AS created FOR EACH STATEMENT EXECUTE FUNCTION plantstore_follow()",
	}
	// hold refuses every plant.
	hold = trigger{
		name: "hold",
		does: "BEGIN RAISE EXCEPTION 'plantstore move holds the store' USING ERRCODE = '" + heldCode + "'; END",
		idle: "BEGIN RETURN NULL; END",
		made: "BEFORE INSERT ON plants FOR EACH STATEMENT EXECUTE FUNCTION plantstore_hold()",
	}
)

// function makes the trigger's function, or gives it another body. It runs with
// the rights of who moves the store, and looks for tables where that does.
func (g trigger) function(ctx context.Context, tx pgx.Tx, body string) error {
	_, err := tx.Exec(ctx, "CREATE OR REPLACE FUNCTION plantstore_"+g.name+"() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS '"+strings.ReplaceAll(body, "'", "''")+"'")
	return err
}

// triggers returns which of ours are there, by name.
func triggers(ctx context.Context, tx pgx.Tx) ([]string, error) {
	rows, _ := tx.Query(ctx, "SELECT tgname::text FROM pg_trigger WHERE tgrelid = 'plants'::regclass AND tgname IN ('follow', 'hold')") // the error comes with the rows
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// lockPlants waits for those who write plants, and lets no other begin until the
// transaction ends.
func lockPlants(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, lockTimeout+"LOCK TABLE plants IN SHARE ROW EXCLUSIVE MODE")
	return err
}

// begin makes the trigger do what it is for. Who calls it has called lockPlants.
func (g trigger) begin(ctx context.Context, tx pgx.Tx) error {
	there, err := triggers(ctx, tx)
	if err != nil {
		return err
	}
	if err := g.function(ctx, tx, g.does); err != nil || slices.Contains(there, g.name) {
		return err
	}
	_, err = tx.Exec(ctx, "CREATE TRIGGER "+g.name+" "+g.made)
	return err
}

// end makes those of the triggers do nothing that are there.
func end(ctx context.Context, tx pgx.Tx, all ...trigger) error {
	there, err := triggers(ctx, tx)
	if err != nil {
		return err
	}
	for _, g := range all {
		if slices.Contains(there, g.name) {
			if err := g.function(ctx, tx, g.idle); err != nil {
				return err
			}
		}
	}
	return nil
}

// lockTimeout bounds the wait for a lock on the table, because whoever comes after
// who waits for one waits too.
const lockTimeout = "SET LOCAL lock_timeout = '1s'; "

// drop takes those of the triggers away that are there, of which end was called.
// It leaves them if others are at the table: they do no harm.
func (e *Engine) drop(ctx context.Context, all ...trigger) error {
	err := e.transact(ctx, func(tx pgx.Tx) error {
		there, err := triggers(ctx, tx)
		if err != nil {
			return err
		}
		for _, g := range all {
			if !slices.Contains(there, g.name) {
				continue
			}
			if _, err := tx.Exec(ctx, lockTimeout+"DROP TRIGGER "+g.name+" ON plants; DROP FUNCTION plantstore_"+g.name+"()"); err != nil {
				return err
			}
			if g.name == follow.name {
				if _, err := tx.Exec(ctx, "DROP TABLE followed"); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if isLocked(err) {
		return nil
	}
	return err
}

// isLocked reports whether somebody else held a lock for longer than lockTimeout.
func isLocked(err error) bool {
	var said *pgconn.PgError
	return errors.As(err, &said) && said.Code == "55P03" // lock_not_available
}

// whenUnlocked is transact for a change that needs a lock on plants. Between two
// attempts it lets those write who wait behind it.
func (e *Engine) whenUnlocked(ctx context.Context, change func(pgx.Tx) error) error {
	const tries = 20
	for try := 1; ; try++ {
		err := e.transact(ctx, change)
		if !isLocked(err) {
			return err
		}
		if try == tries {
			return fmt.Errorf("others hold the table plants for long, as a vacuum or the making of an index does; wait for its end: %w", err)
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// Engage implements store.Movable, by a lock of a session of its own.
func (e *Engine) Engage(ctx context.Context) (disengage func(), err error) {
	conn, err := e.pool.Acquire(ctx)
	if err != nil {
		return nil, classify(err)
	}
	const key = "$1, 'plants'::regclass::oid::int" // one for each store, and other than that of a migration
	free := false
	if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock("+key+")", int32(migrationLock)).Scan(&free); err != nil || !free {
		conn.Release()
		if err == nil {
			err = store.ErrEngaged
		}
		return nil, classify(err)
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingTime)
		defer cancel()
		if _, err := conn.Exec(ctx, "SELECT pg_advisory_unlock("+key+")", int32(migrationLock)); err != nil {
			_ = conn.Conn().Close(ctx) // which gives the lock back, too
		}
		conn.Release()
	}, nil
}

// Left implements store.Movable.
func (e *Engine) Left(ctx context.Context) (bool, error) {
	rows, _ := e.pool.Query(ctx, "SELECT prosrc FROM pg_trigger INNER JOIN pg_proc ON pg_proc.oid = tgfoid WHERE tgrelid = 'plants'::regclass AND tgname = 'follow'") // the error comes with the rows
	bodies, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || !slices.ContainsFunc(bodies, func(body string) bool { return strings.TrimSpace(body) == follow.does }) {
		return false, err
	}
	disengage, err := e.Engage(ctx)
	if errors.Is(err, store.ErrEngaged) {
		return false, nil
	}
	if err == nil {
		disengage()
	}
	return err == nil, err
}

// checkOwner refuses to make triggers that those who own the table could not take
// away again.
func checkOwner(ctx context.Context, tx pgx.Tx) error {
	var owner, user string
	err := tx.QueryRow(ctx, "SELECT tableowner::text, current_user::text FROM pg_catalog.pg_tables WHERE tablename = 'plants' AND schemaname = ANY (current_schemas(false))").Scan(&owner, &user)
	if err == nil && owner != user {
		err = fmt.Errorf("the tables belong to the role %s, and this is %s: move as %[1]s", owner, user)
	}
	return err
}
