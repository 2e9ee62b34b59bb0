package sqlite

import (
	"context"
	"errors"
	"math"
	"time"

	"plantstore/internal/plant"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// read runs fn on the reading connection until ctx ends. No read has a transaction open
// between calls, so no read blocks a checkpoint.
func (e *Engine) read(ctx context.Context, fn func(c *sqlite3.Conn) error) error {
	e.readMu.Lock()
	defer e.readMu.Unlock()
	return traced(ctx, "read", func() error {
		return classify(during(ctx, e.reader, func() error { return fn(e.reader) }))
	})
}

// during runs fn and interrupts its statements on the connection when ctx ends; then the
// error is that of ctx.
func during(ctx context.Context, c *sqlite3.Conn, fn func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ended, interrupted := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		for { // repeated, because it has no effect between two statements of fn
			c.Interrupt()
			select {
			case <-ended:
				return
			case <-time.After(interruptEvery):
			}
		}
	})
	err := fn()
	close(ended)
	if !stop() {
		<-interrupted // or it would interrupt the next statement
	}
	var fault *sqlite3.Error
	if errors.As(err, &fault) && fault.Interrupted() && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

const interruptEvery = 10 * time.Millisecond

// Get implements admin.Engine.
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

const (
	listSQL = `SELECT plants.id, plants.name, plants.tag, plants.created_at, coalesce(tokens.name, ''),
		plants.created_by
		FROM plants LEFT JOIN tokens ON tokens.id = plants.created_by
		WHERE plants.id >= ?1 ORDER BY plants.id LIMIT ?2`
	listTagSQL = `SELECT plants.id, plants.name, plants.tag, plants.created_at, coalesce(tokens.name, ''),
		plants.created_by
		FROM plants LEFT JOIN tokens ON tokens.id = plants.created_by
		WHERE plants.id >= ?1 AND plants.tag = ?3 ORDER BY plants.id LIMIT ?2`
)

// List implements admin.Engine.
func (e *Engine) List(ctx context.Context, q store.Query) ([]plant.Record, error) {
	var records []plant.Record
	err := e.read(ctx, func(c *sqlite3.Conn) error {
		tag, tagged := q.Tag.Get()
		sql := listSQL
		if tagged {
			sql = listTagSQL
		}
		s, err := c.Prepare(sql)
		if err != nil {
			return err
		}
		defer s.Close()
		s.BindInt64(1, q.From)
		s.BindInt64(2, int64(q.Limit))
		if tagged {
			s.BindText(3, tag)
		}
		for bytes := 0; bytes <= store.PlantsBytes; {
			ok, err := s.Step()
			if err != nil || !ok {
				return err
			}
			r := recordRow(s)
			bytes += r.Bytes()
			records = append(records, r)
		}
		return nil
	})
	return records, err
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
		e.scan.BindInt64(1, from)
		e.scan.BindInt64(2, int64(rows))
		next, more, err = scanRows(e.scan, from, rows, visit)
		return err
	})
	return next, more, err
}

// scanRows calls visit for the rows of scanSQL and returns as admin.Engine.Scan does.
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
		NewPlant:  plant.NewPlant{ID: s.Int64(0), Plant: plant.Plant{Name: s.Text(1), Tag: tagColumn(s, 2)}},
		CreatedAt: time.UnixMicro(s.Int64(3)).UTC(),
		CreatedBy: store.CreatorName(s.Text(4), s.Int64(5)),
	}
}
