package sqlite

import (
	"context"
	"math"

	"plantstore/internal/plant"
	"plantstore/internal/sqlite/dbfile"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// read runs fn on the reading connection until ctx ends. No transaction stays open between
// calls, so reads do not block checkpoints.
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

// Get implements admin.
func (e *Engine) Get(ctx context.Context, id int64) (plant.Record, error) {
	records, err := e.List(ctx, store.Query{From: id, Limit: 1})
	switch {
	case err != nil:
		return plant.Record{}, err
	case len(records) == 0 || records[0].ID != id:
		return plant.Record{}, store.ErrNotFound
	}
	return records[0], nil
}

// List implements admin.
func (e *Engine) List(ctx context.Context, q store.Query) ([]plant.Record, error) {
	sql := `SELECT plants.id, plants.name, plants.tag, plants.created_at, coalesce(tokens.name, ''), plants.created_by
		FROM plants LEFT JOIN tokens ON tokens.id = plants.created_by WHERE plants.id >= ?1`
	values := []any{q.From, q.Limit}
	if tag, ok := q.Tag.Get(); ok {
		sql += " AND plants.tag = ?3"
		values = append(values, tag)
	}
	sql += " ORDER BY plants.id LIMIT ?2"
	return query(ctx, e, func(c *sqlite3.Conn) (records []plant.Record, err error) {
		bytes := 0
		for s, err := range c.Rows(sql, values...) {
			if err != nil {
				return nil, err
			}
			r := recordRow(s)
			records = append(records, r)
			if bytes += r.Bytes(); bytes > store.PlantsBytes {
				break
			}
		}
		return records, nil
	})
}

const scanSQL = "SELECT id, name, tag, created_at FROM plants WHERE id >= ?1 ORDER BY id LIMIT ?2"

// Scan implements admin.Engine.
func (e *Engine) Scan(
	ctx context.Context, from int64, rows int, visit func(*store.Scanned),
) (next int64, more bool, err error) {
	err = e.read(ctx, func(c *sqlite3.Conn) error {
		if e.scan == nil {
			if e.scan, err = c.Prepare(scanSQL); err != nil {
				return err
			}
		}
		defer e.scan.Reset() // ends the read transaction
		e.scan.Bind(from, rows)
		next, more, err = scanRows(e.scan, from, rows, visit)
		return err
	})
	return next, more, err
}

// scanRows calls visit for the rows of scanSQL. It returns the results of admin.Engine.Scan.
func scanRows(s *sqlite3.Stmt, from int64, rows int, visit func(*store.Scanned)) (next int64, more bool, err error) {
	var p store.Scanned
	next = from
	for bytes := 0; bytes <= store.PlantsBytes; rows-- {
		ok, err := s.Step()
		if err != nil || !ok {
			return next, err == nil && rows == 0, err
		}
		p = store.Scanned{ID: s.Int64(0), Name: s.Bytes(1), Tag: s.Bytes(2), CreatedAt: s.Int64(3)}
		bytes += len(p.Name) + len(p.Tag)
		visit(&p)
		if p.ID == math.MaxInt64 {
			return p.ID, false, nil
		}
		next = p.ID + 1
	}
	return next, true, nil
}

func recordRow(s *sqlite3.Stmt) plant.Record {
	return plant.Record{
		NewPlant:  plant.NewPlant{ID: s.Int64(0), Plant: plant.Plant{Name: s.Text(1), Tag: dbfile.TagColumn(s, 2)}},
		CreatedAt: s.Time(3),
		CreatedBy: store.CreatorName(s.Text(4), s.Int64(5)),
	}
}
