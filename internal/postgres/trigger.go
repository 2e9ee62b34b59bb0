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
	name     string
	function string // its qualified name
	does     string // the body of the function
	made     string // after CREATE TRIGGER name
}

// idle is the body of a function that does nothing.
const idle = "BEGIN RETURN NULL; END"

// readOnlyCode is the SQLSTATE with which a store that is held refuses a plant.
const readOnlyCode = "PS001"

// captureTrigger notes each plant that is created, in the same transaction,
// whichever server's that is.
func (e *Engine) captureTrigger() trigger {
	function := e.qualified("plantstore_follow")
	return trigger{
		name:     "follow",
		function: function,
		does:     "BEGIN INSERT INTO " + e.qualified("followed") + " SELECT id FROM created; RETURN NULL; END",
		made:     "AFTER INSERT ON plants REFERENCING NEW TABLE AS created FOR EACH STATEMENT EXECUTE FUNCTION " + function + "()",
	}
}

// refuseTrigger refuses every plant.
func (e *Engine) refuseTrigger() trigger {
	function := e.qualified("plantstore_hold")
	return trigger{
		name:     "hold",
		function: function,
		does:     "BEGIN RAISE EXCEPTION 'plantstore move holds the store' USING ERRCODE = '" + readOnlyCode + "'; END",
		made:     "BEFORE INSERT ON plants FOR EACH STATEMENT EXECUTE FUNCTION " + function + "()",
	}
}

// replace creates the trigger's function, or gives it another body. The function
// runs with the rights of the role that creates a plant, so that it gives no right
// to any role: the name of a transition table (created) cannot be qualified, and
// whoever attached a function with its owner's rights to a table without that
// transition table would choose what it reads. No other role may attach it, either.
func (g trigger) replace(ctx context.Context, tx pgx.Tx, body string) error {
	_, err := tx.Exec(ctx, "CREATE OR REPLACE FUNCTION "+g.function+"() RETURNS trigger LANGUAGE plpgsql SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS '"+
		strings.ReplaceAll(body, "'", "''")+"'; REVOKE EXECUTE ON FUNCTION "+g.function+"() FROM PUBLIC")
	return err
}

// grantCapture lets every role that may create plants note them: the table
// followed has the grants of plants.
func (e *Engine) grantCapture(ctx context.Context, tx pgx.Tx) error {
	rows, _ := tx.Query(ctx, insertersSQL) // the error comes with the rows
	roles, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, role := range roles {
		if _, err := tx.Exec(ctx, "GRANT INSERT ON followed TO "+role); err != nil {
			return err
		}
	}
	return nil
}

// insertersSQL reads which roles may insert into plants or a column of it, each
// quoted.
const insertersSQL = `SELECT DISTINCT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END
	FROM (SELECT relacl AS acl FROM pg_class WHERE oid = 'plants'::regclass
	UNION ALL SELECT attacl FROM pg_attribute WHERE attrelid = 'plants'::regclass) AS acls, aclexplode(acl)
	WHERE privilege_type = 'INSERT'`

// olderSQL finds functions that a mover of an older version left.
const olderSQL = `SELECT proname::text, prosrc, pg_get_userbyid(proowner)::text, pg_get_userbyid(proowner) = current_user
	FROM pg_proc INNER JOIN pg_namespace ON pg_namespace.oid = pronamespace
	WHERE nspname = current_schema() AND proname IN ('plantstore_follow', 'plantstore_hold') AND prosecdef`

// replaceOlder replaces functions of movers before this version: these run with
// the rights of their owner, and every role of the database could run code through
// them.
func (e *Engine) replaceOlder(ctx context.Context) error {
	found := false
	if err := e.pool.QueryRow(ctx, "SELECT EXISTS ("+olderSQL+")").Scan(&found); err != nil || !found {
		return err // without writing: a server must be able to start on a full disk
	}
	return e.transact(ctx, func(tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, olderSQL) // the error comes with the rows
		type function struct {
			Name, Body, Owner string
			Own               bool
		}
		functions, err := pgx.CollectRows(rows, pgx.RowToStructByPos[function])
		if err != nil {
			return err
		}
		for _, f := range functions {
			if !f.Own {
				e.log.Warn("every role of the database can act as the owner of a function that an older plantstore move left: as the owner run plantstore move --from … --abandon, or drop the function",
					"function", e.qualified(f.Name), "owner", f.Owner)
				continue
			}
			if err := e.replaceOld(ctx, tx, f.Name, f.Body); err != nil {
				return err
			}
		}
		return nil
	})
}

// replaceOld replaces one function. It goes on doing what it does, because its
// mover may run.
func (e *Engine) replaceOld(ctx context.Context, tx pgx.Tx, name, body string) error {
	g := e.refuseTrigger()
	if name == "plantstore_follow" {
		g = e.captureTrigger()
	}
	if strings.TrimSpace(body) == idle {
		return g.replace(ctx, tx, idle)
	}
	if name == "plantstore_follow" {
		if err := e.grantCapture(ctx, tx); err != nil {
			return err
		}
	}
	return g.replace(ctx, tx, g.does)
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
	if err := g.replace(ctx, tx, g.does); err != nil || slices.Contains(there, g.name) {
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
			if err := g.replace(ctx, tx, idle); err != nil {
				return err
			}
		}
	}
	return nil
}

// lockTimeout bounds the wait for a lock on the table, because whoever comes after
// who waits for one waits too.
const lockTimeout = "SET LOCAL lock_timeout = '1s'; "

// drop drops those of the triggers that are there, of which end was called. It
// leaves them if others are at the table, or if a trigger of another role depends on
// a function: they do no harm.
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
			if _, err := tx.Exec(ctx, lockTimeout+"DROP TRIGGER "+g.name+" ON plants; DROP FUNCTION "+g.function+"()"); err != nil {
				return err
			}
			if g.name == "follow" {
				if _, err := tx.Exec(ctx, "DROP TABLE followed"); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if isLocked(err) || isNeeded(err) {
		return nil
	}
	return err
}

// isNeeded reports whether another object depends on what was to be dropped.
func isNeeded(err error) bool {
	var said *pgconn.PgError
	return errors.As(err, &said) && said.Code == "2BP01" // dependent_objects_still_exist
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

// Lock implements move.Store. It refuses a role that could not move the store,
// before anything is changed.
func (e *Engine) Lock(ctx context.Context) (disengage func(), err error) {
	unlock, err := e.lockMove(ctx)
	if err != nil {
		return nil, err
	}
	if err := e.checkMover(ctx, e.pool); err != nil {
		unlock()
		return nil, classify(err)
	}
	return unlock, nil
}

// lockMove holds the lock of a mover, in a session of its own.
func (e *Engine) lockMove(ctx context.Context) (unlock func(), err error) {
	conn, err := e.pool.Acquire(ctx)
	if err != nil {
		return nil, classify(err)
	}
	const key = "($1, 'plants'::regclass::oid::int)" // one for each store, and other than that of a migration
	free := false
	if err := conn.QueryRow(ctx, "SELECT pg_catalog.pg_try_advisory_lock"+key, int32(migrationLock)).Scan(&free); err != nil || !free {
		conn.Release()
		if err == nil {
			err = store.ErrMoveRunning
		}
		return nil, classify(err)
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingTime)
		defer cancel()
		if _, err := conn.Exec(ctx, "SELECT pg_catalog.pg_advisory_unlock"+key, int32(migrationLock)); err != nil {
			_ = conn.Conn().Close(ctx) // which gives the lock back, too
		}
		conn.Release()
	}, nil
}

// Interrupted reports whether a move left a capture, and no longer runs.
func (e *Engine) Interrupted(ctx context.Context) (bool, error) {
	rows, _ := e.pool.Query(ctx, "SELECT prosrc FROM pg_trigger INNER JOIN pg_proc ON pg_proc.oid = tgfoid WHERE tgrelid = 'plants'::regclass AND tgname = 'follow'") // the error comes with the rows
	bodies, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || !slices.ContainsFunc(bodies, func(body string) bool { return strings.TrimSpace(body) != idle }) {
		return false, err
	}
	unlock, err := e.lockMove(ctx)
	if errors.Is(err, store.ErrMoveRunning) {
		return false, nil
	}
	if err == nil {
		unlock()
	}
	return err == nil, err
}
