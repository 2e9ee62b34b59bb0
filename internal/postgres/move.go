package postgres

import (
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"plantstore/internal/store"
)

// This file implements move.Source and move.Destination.

// Plants implements move.Store.
func (e *Engine) Plants(ctx context.Context, from, to int64, limit int) ([]store.Row, error) {
	return plantRows(ctx, e.db, store.PlantsBytes, "WHERE id BETWEEN $1 AND $2 ORDER BY id LIMIT $3", from, to, limit)
}

// StartCapture implements move.Source.
func (e *Engine) StartCapture(ctx context.Context) error {
	return e.transactLocked(ctx, func(tx pgx.Tx) error {
		if err := e.lockPlants(ctx, tx); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "DROP TABLE IF EXISTS plantstore_captured; "+
			"CREATE TABLE plantstore_captured (id bigint PRIMARY KEY)"); err != nil {
			return err
		}
		if err := e.grantCapture(ctx, tx); err != nil {
			return err
		}
		return e.enable(ctx, tx, e.captureTrigger())
	})
}

// Captured implements move.Source. It deletes the ids that it returns: the order in
// which transactions become visible is unknown, so no position would be safe.
func (e *Engine) Captured(ctx context.Context, limit int) ([]int64, error) {
	return collect(ctx, e.db, pgx.RowTo[int64], "DELETE FROM plantstore_captured "+
		"WHERE id IN (SELECT id FROM plantstore_captured LIMIT $1) RETURNING id", limit)
}

// SetMoveState implements move.Store. A store that is Filling has no trigger: servers
// refuse to start on it. So a database without triggers can be a destination.
func (e *Engine) SetMoveState(ctx context.Context, before, after store.MoveState) error {
	err := e.transactLocked(ctx, func(tx pgx.Tx) error {
		now, err := statements{e, ctx, tx}.MoveState()
		if err != nil {
			return err
		}
		if now != before {
			return now.Changed(before)
		}
		if after.Phase != store.Filling {
			if err := e.lockPlants(ctx, tx); err != nil {
				return err
			}
			if err := e.enable(ctx, tx, e.refuseTrigger()); err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, "UPDATE plantstore SET move_state = $1", after.Text())
		return err
	})
	if err == nil {
		e.ownMoveState.Store(&after)
	}
	return err
}

// Reopen implements move.Store.
func (e *Engine) Reopen(ctx context.Context) error {
	var disabled []trigger
	err := e.transact(ctx, func(tx pgx.Tx) (err error) {
		if disabled, err = e.disableTriggers(ctx, tx); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "UPDATE plantstore SET move_state = NULL")
		return err
	})
	if err != nil {
		return err
	}
	e.ownMoveState.Store(&store.MoveState{})
	if len(disabled) == 0 { // the store is open: another transaction could only fail
		return nil
	}
	return e.dropTriggers(ctx)
}

// Totals implements move.Store. The engine maintains no totals: all servers would wait
// for each other to update them.
func (e *Engine) Totals(context.Context) (store.Totals, bool, error) {
	return store.Totals{}, false, nil
}

// Lock implements move.Store. It refuses a role that lacks the rights for a move
// before the move changes anything.
func (e *Engine) Lock(ctx context.Context) (unlock func(), err error) {
	if unlock, err = e.lockMove(ctx); err != nil {
		return nil, err
	}
	if err := e.checkMover(ctx, e.db); err != nil {
		unlock()
		return nil, classify(err)
	}
	return unlock, nil
}

// lockMove locks the store for a move.
func (e *Engine) lockMove(ctx context.Context) (unlock func(), err error) {
	unlock, locked, err := e.tryLock(ctx, "plants")
	if err == nil && !locked {
		err = store.ErrMoveRunning
	}
	return unlock, err
}

// lockForeverSQL sets the settings of a transaction that would end it while its mover works, if the database has them.
const lockForeverSQL = `SELECT pg_catalog.set_config(name, '0', TRUE) FROM pg_settings
	WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')`

// tryLock locks one of our tables by an advisory lock of a transaction of its own, and returns false if another one has
// locked it. A pooler keeps the session of a transaction until it ends. Statements on the table do not wait for it.
func (e *Engine) tryLock(ctx context.Context, table string) (unlock func(), locked bool, err error) {
	tx, err := e.pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: beginSQL + e.firstStatement() + "; " + lockForeverSQL})
	if err != nil {
		return nil, false, classify(err)
	}
	unlock = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingTime)
		defer cancel()
		_ = tx.Rollback(ctx) // if it fails, it closes the connection, which releases the lock too
	}
	// The lock is for this store; the lock of a migration has one number, not two.
	err = tx.QueryRow(ctx, "SELECT pg_catalog.pg_try_advisory_xact_lock($1, '"+table+"'::regclass::oid::int)",
		int32(migrationLock)).Scan(&locked)
	if err != nil || !locked {
		unlock()
		return nil, false, classify(err)
	}
	return unlock, true, nil
}

// Interrupted reports whether a move that is not complete left a capture, and no longer runs.
func (e *Engine) Interrupted(ctx context.Context) (bool, error) {
	if now, err := e.State(ctx); err != nil || now.Move.Phase == store.Moved {
		return false, err
	}
	bodies, err := collect(ctx, e.db, pgx.RowTo[string],
		"SELECT prosrc FROM pg_trigger INNER JOIN pg_proc ON pg_proc.oid = tgfoid "+
			"WHERE tgrelid = 'plants'::regclass::oid AND tgname = '"+captureName+"'")
	enabled := func(body string) bool { return strings.TrimSpace(body) != noOpBody }
	if err != nil || !slices.ContainsFunc(bodies, enabled) {
		return false, err
	}
	return store.NoMoveRuns(ctx, e.lockMove)
}
