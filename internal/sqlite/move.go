package sqlite

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// This file is what plantstore move has of a store: see store.Movable.

// A plant that is created while a store is followed is noted in the same
// transaction, whoever's connection that is.
const (
	followSQL = `
		CREATE TABLE followed (number INTEGER PRIMARY KEY, id INTEGER NOT NULL) STRICT;
		CREATE TRIGGER follow AFTER INSERT ON plants BEGIN INSERT INTO followed (id) VALUES (new.id); END;`
	unfollowSQL = `
		DROP TRIGGER IF EXISTS follow;
		DROP TABLE IF EXISTS followed;`
)

const createColumns = "id, name, tag, created_at, created_by"

// createRow returns a row of createColumns.
func createRow(s *sqlite3.Stmt) store.Create {
	return store.Create{
		Plant: plant.NewPlant{ID: s.Int64(0), Plant: plant.Plant{Name: s.Text(1), Tag: tagColumn(s, 2)}},
		At:    time.UnixMicro(s.Int64(3)),
		By:    s.Int64(4),
	}
}

// Plants implements store.Movable.
func (e *Engine) Plants(ctx context.Context, from, to int64, limit int) (rows []store.Create, err error) {
	err = e.read(ctx, func(c *sqlite3.Conn) error {
		s, err := c.Prepare("SELECT " + createColumns + " FROM plants WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?")
		if err != nil {
			return err
		}
		defer s.Close()
		s.BindInt64(1, from)
		s.BindInt64(2, to)
		s.BindInt64(3, int64(limit))
		bytes := 0
		for {
			ok, err := s.Step()
			if err != nil || !ok {
				return err
			}
			rows = append(rows, createRow(s))
			if bytes += rows[len(rows)-1].Plant.Bytes(); bytes > store.PlantsBytes {
				return nil
			}
		}
	})
	return rows, err
}

// PlantsOf implements store.Movable.
func (e *Engine) PlantsOf(ctx context.Context, ids []int64) (rows []store.Create, err error) {
	err = e.read(ctx, func(c *sqlite3.Conn) error {
		s, err := c.Prepare("SELECT " + createColumns + " FROM plants WHERE id = ?")
		if err != nil {
			return err
		}
		defer s.Close()
		for _, id := range ids {
			s.BindInt64(1, id)
			ok, err := s.Step()
			if err != nil {
				return err
			}
			if ok {
				rows = append(rows, createRow(s))
			}
			s.Reset()
		}
		return nil
	})
	return rows, err
}

// PutTokens implements store.Movable.
func (e *Engine) PutTokens(ctx context.Context, tokens []auth.Token) error {
	return e.changeTokens(ctx, func() error {
		for _, t := range tokens {
			if err := e.run(`INSERT INTO tokens (`+tokenColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, nullif(?, ''))
				ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at, last_used_at = excluded.last_used_at, revoked_at = excluded.revoked_at`,
				t.ID, t.Name, t.Hash[:], t.Scopes.String(), t.CreatedAt.UnixMicro(), t.ExpiresAt, t.LastUsedAt, t.RevokedAt, t.Prefix); err != nil {
				return err
			}
		}
		return nil
	})
}

// Lock implements store.Movable, by FILE-move (see locks.go).
func (e *Engine) Lock(context.Context) (disengage func(), err error) {
	f, err := openLock(e.path + moveSuffix)
	if err != nil {
		return nil, err
	}
	if err := flock(f, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, store.ErrMoveRunning
		}
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return func() { _ = f.Close() }, nil
}

// Interrupted implements store.Movable.
func (e *Engine) Interrupted(ctx context.Context) (left bool, err error) {
	err = e.read(ctx, func(c *sqlite3.Conn) error {
		n, err := c.QueryInt("SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND name = 'follow'")
		left = n > 0
		return err
	})
	if err != nil || !left {
		return false, err
	}
	disengage, err := e.Lock(ctx)
	if errors.Is(err, store.ErrMoveRunning) {
		return false, nil
	}
	if err == nil {
		disengage()
	}
	return err == nil, err
}

// StartCapture implements store.Movable.
func (e *Engine) StartCapture(ctx context.Context) error {
	e.followedTo = 0
	return e.write(ctx, func() error { return e.writer.Exec(unfollowSQL + followSQL) })
}

// Captured implements store.Movable.
func (e *Engine) Captured(ctx context.Context, limit int) (ids []int64, err error) {
	err = e.read(ctx, func(c *sqlite3.Conn) error {
		s, err := c.Prepare("SELECT number, id FROM followed WHERE number > ? ORDER BY number LIMIT ?")
		if err != nil {
			return err
		}
		defer s.Close()
		s.BindInt64(1, e.followedTo)
		s.BindInt64(2, int64(limit))
		for {
			ok, err := s.Step()
			if err != nil || !ok {
				return err
			}
			e.followedTo = s.Int64(0)
			ids = append(ids, s.Int64(1))
		}
	})
	return ids, err
}

// SetMoveState implements store.Movable.
func (e *Engine) SetMoveState(ctx context.Context, before, why store.MoveState) error {
	return e.write(ctx, func() error {
		now, err := e.held()
		if err != nil {
			return err
		}
		if now != before {
			return now.Changed(before)
		}
		e.added.hold = &why
		return e.run("UPDATE state SET held = ?", why.Text())
	})
}

// Reopen implements store.Movable.
func (e *Engine) Reopen(ctx context.Context) error {
	return e.write(ctx, func() error {
		e.added.hold = &store.MoveState{}
		return e.writer.Exec(unfollowSQL + "UPDATE state SET held = NULL;")
	})
}

// StopCapture implements store.Movable.
func (e *Engine) StopCapture(ctx context.Context) error {
	return e.write(ctx, func() error { return e.writer.Exec(unfollowSQL) })
}

// Totals implements store.Movable.
func (e *Engine) Totals(ctx context.Context) (t store.Totals, known bool, err error) {
	err = e.read(ctx, func(c *sqlite3.Conn) error {
		s, err := readState(c)
		t = store.Totals{Plants: s.plants, Digests: s.digests}
		return err
	})
	return t, true, err
}

// held returns what the transaction sees.
func (e *Engine) held() (store.MoveState, error) {
	s := e.stmts.held
	defer s.Reset()
	ok, err := s.Step()
	if err == nil && !ok {
		err = errNoState
	}
	if err != nil {
		return store.MoveState{}, err
	}
	return store.ParseMoveState(s.Text(0)), nil
}

// refuseHeld returns an error if another process holds the store. It is called
// in a transaction that is to change something.
func (e *Engine) refuseHeld() error {
	now, err := e.held()
	if err == nil && now != e.hold {
		err = now.Err()
	}
	return err
}
