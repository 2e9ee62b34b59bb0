package sqlite

import (
	"context"

	"plantstore/internal/plant"
	"plantstore/internal/sqlite/dbfile"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// read runs fn on the reading connection until ctx ends. No transaction stays open between calls, so reads do not block
// checkpoints.
func (e *Engine) read(ctx context.Context, fn func(c *sqlite3.Conn) error) error {
	e.readMu.Lock()
	defer e.readMu.Unlock()
	return traced(ctx, "read", func() error {
		return classify(e.reader.During(ctx, func() error { return fn(e.reader) }))
	})
}

// query returns the result of fn on the reading connection.
func query[T any](ctx context.Context, e *Engine, fn func(c *sqlite3.Conn) (T, error)) (result T, err error) {
	err = e.read(ctx, func(c *sqlite3.Conn) (err error) {
		result, err = fn(c)
		return err
	})
	return result, err
}

// State implements writepath.Engine.
func (e *Engine) State(ctx context.Context) (store.State, error) {
	if err := e.checkKept(true); err != nil {
		return store.State{}, err
	}
	return query(ctx, e, func(c *sqlite3.Conn) (now store.State, err error) {
		err = dbfile.StateRow(c, "token_changes, plants", func(s *sqlite3.Stmt) {
			now = store.State{TokenChanges: s.Int64(0), Plants: s.Int64(1)}
		})
		return now, err
	})
}

// Get implements admin.
func (e *Engine) Get(ctx context.Context, id int64) (plant.Record, error) {
	records, err := e.List(ctx, store.Query{From: id, Limit: 1})
	switch {
	case err != nil:
		return plant.Record{}, err
	case len(records) == 0 || records[0].ID != id:
		return plant.Record{}, store.ErrNotFound
	case records[0].Damaged:
		return plant.Record{}, store.Damaged(id)
	}
	return records[0], nil
}

// List implements admin.
func (e *Engine) List(ctx context.Context, q store.Query) ([]plant.Record, error) {
	sql := "SELECT " + dbfile.PlantColumns + ", coalesce(tokens.name, '') " +
		"FROM plants LEFT JOIN tokens ON tokens.id = plants.created_by WHERE plants.id >= ?1"
	values := []any{q.From, q.Limit}
	if tag, ok := q.Tag.Get(); ok {
		sql += " AND plants.tag = ?3"
		values = append(values, tag)
	}
	sql += " ORDER BY plants.id LIMIT ?2"
	return query(ctx, e, func(c *sqlite3.Conn) (all []plant.Record, err error) {
		var d store.Digester
		bytes := 0
		for s, err := range c.Rows(sql, values...) {
			if err != nil {
				return nil, err
			}
			r := recordRow(&d, s)
			all = append(all, r)
			if bytes += r.Bytes(); bytes > store.PlantsBytes {
				break
			}
		}
		return all, nil
	})
}

// Scan implements admin.Engine.
func (e *Engine) Scan(
	ctx context.Context, from int64, rows int, visit func(*store.Scanned),
) (next int64, more bool, err error) {
	err = e.read(ctx, func(c *sqlite3.Conn) error {
		s, err := c.Prepare("SELECT " + dbfile.PlantColumns + " FROM plants WHERE id >= ? ORDER BY id LIMIT ?")
		if err != nil {
			return err
		}
		defer s.Close() // ends the read transaction
		s.Bind(from, rows)
		var d store.Digester
		next, more, err = store.ScanRows(from, rows, visit, func(p *store.Scanned) (bool, error) {
			ok, err := s.Step()
			if ok {
				dbfile.ScanPlant(&d, s, p)
			}
			return ok, err
		})
		return err
	})
	return next, more, err
}

// LargestID implements admin.Engine.
func (e *Engine) LargestID(ctx context.Context) (int64, error) {
	return query(ctx, e, func(c *sqlite3.Conn) (id int64, err error) {
		for s, err := range c.Rows("SELECT coalesce(max(id), 0) FROM plants") {
			if err != nil {
				return 0, err
			}
			id = max(0, s.Int64(0))
		}
		return id, nil
	})
}

func recordRow(d *store.Digester, s *sqlite3.Stmt) plant.Record {
	r, ok := dbfile.PlantRow(d, s)
	if !ok {
		return plant.Record{NewPlant: plant.NewPlant{ID: r.ID}, Damaged: true}
	}
	by := store.CreatorName(s.Text(6), r.CreatedBy)
	return plant.Record{NewPlant: r.NewPlant, CreatedAt: r.CreatedAt.UTC(), CreatedBy: by}
}
