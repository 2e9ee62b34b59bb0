package sqlite

import (
	"context"

	"plantstore/internal/sqlite/dbfile"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// This file implements move.Source and move.Destination.

// Plants implements move.Store.
func (e *Engine) Plants(ctx context.Context, from, to int64, limit int) ([]store.Row, error) {
	const sql = "SELECT " + dbfile.PlantColumns + " FROM plants WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?"
	return query(ctx, e, func(c *sqlite3.Conn) ([]store.Row, error) {
		return collectWithin(c.Rows(sql, from, to, limit), store.PlantsBytes, plantRow)
	})
}

// Lock implements move.Store, by the lock file FILE-move.
func (e *Engine) Lock(context.Context) (unlock func(), err error) {
	f, err := dbfile.LockMove(e.path)
	if err != nil {
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}

// Interrupted reports whether a move that is not complete left a capture, and no longer runs.
func (e *Engine) Interrupted(ctx context.Context) (bool, error) {
	if now, err := e.State(ctx); err != nil || now.Move.Phase == store.Moved {
		return false, err
	}
	captures, err := query(ctx, e, func(c *sqlite3.Conn) (int64, error) {
		return c.QueryInt("SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND name = 'capture'")
	})
	if err != nil || captures == 0 {
		return false, err
	}
	return store.NoMoveRuns(ctx, e.Lock)
}

// StartCapture implements move.Source.
func (e *Engine) StartCapture(ctx context.Context) error {
	e.capturedTo = 0
	return e.write(ctx, func() error { return e.writer.Exec(dbfile.StopCapture + dbfile.StartCapture) })
}

// Captured implements move.Source.
func (e *Engine) Captured(ctx context.Context, limit int) (ids []int64, err error) {
	err = e.read(ctx, func(c *sqlite3.Conn) error {
		const sql = "SELECT number, id FROM captured WHERE number > ? ORDER BY number LIMIT ?"
		for s, err := range c.Rows(sql, e.capturedTo, limit) {
			if err != nil {
				return err
			}
			e.capturedTo = s.Int64(0)
			ids = append(ids, s.Int64(1))
		}
		return nil
	})
	return ids, err
}

// SetMoveState implements move.Store.
func (e *Engine) SetMoveState(ctx context.Context, before, after store.MoveState) error {
	return e.write(ctx, func() error {
		if now := e.current.move; now != before {
			return now.Changed(before)
		}
		e.current.moveSet = &after
		return e.writer.Run("UPDATE state SET move_state = ?", after.Text())
	})
}

// Reopen implements move.Store.
func (e *Engine) Reopen(ctx context.Context) error {
	return e.write(ctx, func() error {
		e.current.moveSet = &store.MoveState{}
		return e.writer.Exec(dbfile.StopCapture + "UPDATE state SET move_state = NULL;")
	})
}

// Totals implements move.Store.
func (e *Engine) Totals(ctx context.Context) (t store.Totals, known bool, err error) {
	s, err := query(ctx, e, dbfile.ReadState)
	return store.Totals{Plants: s.Plants, Digests: s.Digests}, true, err
}
