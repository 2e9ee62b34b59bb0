package sqlite

import (
	"context"
	"fmt"
	"iter"

	"plantstore/internal/audit"
	"plantstore/internal/sqlite/dbfile"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// This file implements move.Source.

// MovedTo implements move.Source.
func (e *Engine) MovedTo(ctx context.Context) (string, error) { return query(ctx, e, movedTo) }

func movedTo(c *sqlite3.Conn) (to string, err error) {
	err = dbfile.StateRow(c, "coalesce(moved_to, '')", func(s *sqlite3.Stmt) { to = s.Text(0) })
	return to, err
}

// checkMoved returns an error for a store that was moved, unless a move opens it.
func (e *Engine) checkMoved(c Config) error {
	if c.Move {
		return nil
	}
	to, err := movedTo(e.writer)
	if err != nil {
		return err
	}
	return store.Moved(to)
}

// SetMovedTo implements move.Source.
func (e *Engine) SetMovedTo(ctx context.Context, to string, event audit.Event) error {
	return e.write(ctx, func() error {
		if err := e.writer.Run("UPDATE plantstore SET moved_to = nullif(?, '')", to); err != nil {
			return err
		}
		return e.tables(e.writer).AppendAudit(event)
	})
}

// Plants implements move.Source.
func (e *Engine) Plants(ctx context.Context) iter.Seq2[store.Row, error] {
	return sequence(func(visit func(store.Row) bool) error {
		return e.read(ctx, func(c *sqlite3.Conn) error { return eachPlant(c, visit) })
	})
}

// sequence returns the rows for which each calls visit, until visit returns false, and then the error of each.
func sequence[T any](each func(visit func(T) bool) error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if err := each(func(row T) bool { return yield(row, nil) }); err != nil {
			var none T
			yield(none, err)
		}
	}
}

// eachPlant calls visit for the plants of a store by ascending id, until it returns false. After the last one it
// returns an error unless they are as many, with the same digests, as the store counts.
func eachPlant(c *sqlite3.Conn, visit func(store.Row) bool) error {
	var d store.Digester
	var got store.Totals
	for s, err := range c.Rows("SELECT " + dbfile.PlantColumns + " FROM plants ORDER BY id") {
		if err != nil {
			return err
		}
		r, ok := dbfile.PlantRow(&d, s)
		if !ok {
			return store.Damaged(r.ID) // a copy of it would get a digest that matches
		}
		got.Plants++
		got.Digests += s.Int64(5)
		if !visit(r) {
			return nil
		}
	}
	s, err := dbfile.ReadState(c)
	if want := (store.Totals{Plants: s.Plants, Digests: s.Digests}); err == nil && got != want {
		err = fmt.Errorf("the store is damaged: it has %d plants with digest %x and counts %d with %x; run plantstore verify",
			got.Plants, got.Digests, want.Plants, want.Digests)
	}
	return err
}

// OutboxRows implements move.Source.
func (e *Engine) OutboxRows(ctx context.Context) iter.Seq2[store.OutboxRow, error] {
	// CROSS JOIN, so that the events stay in their order.
	const sql = "SELECT 0, plant, created_at, NULL, NULL, 0, '', 0 " +
		"FROM plantstore_outbox CROSS JOIN plants ON plants.id = plant " +
		"UNION ALL SELECT webhook, plant, since, due_at, dead_at, attempts, reason, erased FROM plantstore_deliveries"
	return sequence(func(visit func(store.OutboxRow) bool) error {
		return e.read(ctx, func(c *sqlite3.Conn) error {
			for s, err := range c.Rows(sql) {
				if err != nil || !visit(store.OutboxRow{
					Webhook: s.Int64(0), Plant: s.Int64(1), Since: s.Time(2), DueAt: s.Time(3),
					DeadAt: s.Time(4), Attempts: int(s.Int64(5)), Reason: s.Text(6), Erased: s.Int64(7) != 0,
				}) {
					return err
				}
			}
			return nil
		})
	})
}
