package postgres

import (
	"context"
	"math"

	"github.com/jackc/pgx/v5"

	"plantstore/internal/auth"
	"plantstore/internal/store"
)

// This file implements move.Source and move.Destination.

// Plants implements move.Store.
func (e *Engine) Plants(ctx context.Context, from, to int64, limit int) ([]store.Row, error) {
	return e.plants(ctx, store.PlantsBytes, "WHERE id BETWEEN $1 AND $2 ORDER BY id LIMIT $3", from, to, limit)
}

// PlantsByID implements move.Store.
func (e *Engine) PlantsByID(ctx context.Context, ids []int64) ([]store.Row, error) {
	return e.plants(ctx, math.MaxInt, "WHERE id = ANY($1) ORDER BY id", ids)
}

func (e *Engine) plants(ctx context.Context, bytesMax int, which string, args ...any) (all []store.Row, err error) {
	rows, err := e.pool.Query(ctx, "SELECT id, name, tag, created_at, created_by FROM plants "+which, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for bytes := 0; bytes <= bytesMax && rows.Next(); {
		var r store.Row
		var tag *string
		if err := rows.Scan(&r.ID, &r.Name, &tag, &r.CreatedAt, &r.CreatedBy); err != nil {
			return nil, err
		}
		r.Tag = tagOf(tag)
		bytes += r.Bytes()
		all = append(all, r)
	}
	rows.Close() // reads on to the end
	return all, rows.Err()
}

// PutTokens implements move.Destination.
func (e *Engine) PutTokens(ctx context.Context, tokens []auth.Token) error {
	return e.changeTokens(ctx, func(tx pgx.Tx) error {
		for _, t := range tokens {
			if _, err := tx.Exec(ctx, `INSERT INTO tokens (`+tokenColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
				ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at, last_used_at = excluded.last_used_at, revoked_at = excluded.revoked_at`,
				t.ID, t.Name, t.Hash[:], t.Scopes.String(), t.CreatedAt, null(t.ExpiresAt), null(t.LastUsedAt), null(t.RevokedAt), nullText(t.Prefix)); err != nil {
				return err
			}
		}
		return nil
	})
}

// StartCapture implements move.Source.
func (e *Engine) StartCapture(ctx context.Context) error {
	return e.whenUnlocked(ctx, func(tx pgx.Tx) error {
		if err := e.checkMover(ctx, tx); err != nil {
			return err
		}
		if err := lockPlants(ctx, tx); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "DROP TABLE IF EXISTS followed; CREATE TABLE followed (id bigint PRIMARY KEY)"); err != nil {
			return err
		}
		if err := e.grantCapture(ctx, tx); err != nil {
			return err
		}
		return e.captureTrigger().begin(ctx, tx)
	})
}

// Captured implements move.Source. What it returns it deletes: it is not
// known in which order transactions become visible.
func (e *Engine) Captured(ctx context.Context, limit int) ([]int64, error) {
	rows, _ := e.pool.Query(ctx, "DELETE FROM followed WHERE id IN (SELECT id FROM followed LIMIT $1) RETURNING id", limit) // the error comes with the rows
	return pgx.CollectRows(rows, pgx.RowTo[int64])
}

// StopCapture implements move.Source.
func (e *Engine) StopCapture(ctx context.Context) error {
	if err := e.transact(ctx, func(tx pgx.Tx) error { return end(ctx, tx, e.captureTrigger()) }); err != nil {
		return err
	}
	return e.drop(ctx, e.captureTrigger())
}

// SetMoveState implements move.Store. While the store is Filling, the note alone keeps
// others from it, so that any database can be filled.
func (e *Engine) SetMoveState(ctx context.Context, before, why store.MoveState) error {
	err := e.whenUnlocked(ctx, func(tx pgx.Tx) error {
		now, err := state(ctx, tx)
		if err != nil {
			return err
		}
		if now.Move != before {
			return now.Move.Changed(before)
		}
		if why.Phase != store.Filling {
			if err := e.checkMover(ctx, tx); err != nil {
				return err
			}
			if err := lockPlants(ctx, tx); err != nil {
				return err
			}
			if err := e.refuseTrigger().begin(ctx, tx); err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, "UPDATE plantstore SET held = $1", why.Text())
		return err
	})
	if err == nil {
		e.setOwnMoveState(why)
	}
	return err
}

// setOwnMoveState notes what this engine holds the store with. Its caller has committed it:
// with a hold that another engine made, this one must not write.
func (e *Engine) setOwnMoveState(why store.MoveState) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ownMoveState = why.Text()
}

// Reopen implements move.Store.
func (e *Engine) Reopen(ctx context.Context) error {
	filled := false
	err := e.transact(ctx, func(tx pgx.Tx) error {
		now, err := state(ctx, tx)
		if err != nil {
			return err
		}
		if filled = now.Move.Phase == store.Filling; !filled {
			if err := end(ctx, tx, e.captureTrigger(), e.refuseTrigger()); err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, "UPDATE plantstore SET held = NULL")
		return err
	})
	if err != nil {
		return err
	}
	e.setOwnMoveState(store.MoveState{})
	if filled {
		return nil
	}
	return e.drop(ctx, e.captureTrigger(), e.refuseTrigger())
}

// Totals implements move.Store. A database that several write to counts
// nothing: all of them would wait for each other.
func (e *Engine) Totals(context.Context) (store.Totals, bool, error) {
	return store.Totals{}, false, nil
}

// State implements store.Engine.
func (e *Engine) State(ctx context.Context) (store.State, error) {
	now, err := state(ctx, e.pool)
	now.Plants = e.estimated.Load()
	return now, classify(err)
}

func state(ctx context.Context, q querier) (now store.State, err error) {
	var held string
	err = q.QueryRow(ctx, "SELECT token_changes, coalesce(held, '') FROM plantstore").Scan(&now.TokenChanges, &held)
	now.Move = store.ParseMoveState(held)
	return now, err
}

// checkWritable returns an error if another process holds the store. Who calls it
// has the one row of plantstore locked.
func (e *Engine) checkWritable(ctx context.Context, tx pgx.Tx) error {
	now, err := state(ctx, tx)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if now.Move.Text() == e.ownMoveState {
		return nil
	}
	return now.Move.Err()
}
