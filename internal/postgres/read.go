package postgres

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"plantstore/internal/plant"
	"plantstore/internal/store"
)

const recordSQL = `SELECT plants.id, plants.name, plants.tag, plants.created_at, tokens.name, plants.created_by
	FROM plants LEFT JOIN tokens ON tokens.id = plants.created_by `

// Get implements admin.Engine.
func (e *Engine) Get(ctx context.Context, id int64) (plant.Record, error) {
	r, err := record(e.db.QueryRow(ctx, recordSQL+"WHERE plants.id = $1", id))
	if errors.Is(err, pgx.ErrNoRows) {
		err = store.ErrNotFound
	}
	return r, classify(err)
}

// List implements admin.Engine.
func (e *Engine) List(ctx context.Context, q store.Query) ([]plant.Record, error) {
	sql, args := "WHERE plants.id >= $1 ORDER BY plants.id LIMIT $2", []any{q.From, q.Limit}
	if tag, ok := q.Tag.Get(); ok {
		sql, args = "WHERE plants.id >= $1 AND plants.tag = $3 ORDER BY plants.id LIMIT $2", append(args, tag)
	}
	rows, _ := e.db.Query(ctx, recordSQL+sql, args...) // collectWithin returns the error
	return collectWithin(rows, store.PlantsBytes, record)
}

// collectWithin collects rows until their texts exceed a number of bytes.
func collectWithin[R interface{ Bytes() int }](
	rows pgx.Rows, bytesMax int, scan func(pgx.Row) (R, error),
) (all []R, err error) {
	defer rows.Close()
	for bytes := 0; bytes <= bytesMax && rows.Next(); {
		r, err := scan(rows)
		if err != nil {
			return nil, err
		}
		bytes += r.Bytes()
		all = append(all, r)
	}
	rows.Close() // reads the remaining rows, which may end with an error
	return all, rows.Err()
}

// LargestID implements admin.Engine.
func (e *Engine) LargestID(ctx context.Context) (id int64, err error) {
	err = e.db.QueryRow(ctx, "SELECT coalesce(max(id), 0) FROM plants").Scan(&id)
	return max(0, id), classify(err)
}

const scanSQL = "SELECT id, name, tag, created_at, created_by FROM plants WHERE id >= $1 ORDER BY id LIMIT $2"

// Scan implements admin.Engine.
func (e *Engine) Scan(
	ctx context.Context, from int64, rows int, visit func(*store.Scanned),
) (next int64, more bool, err error) {
	result, err := e.db.Query(ctx, scanSQL, from, rows)
	if err != nil {
		return from, false, classify(err)
	}
	next, more, err = store.ScanRows(from, rows, visit, func(p *store.Scanned) (bool, error) {
		if !result.Next() {
			return false, result.Err()
		}
		return true, scanned(result, p)
	})
	result.Close() // reads the remaining rows, which may end with an error
	return next, more, classify(cmp.Or(err, result.Err()))
}

// scanned reads a row of scanSQL. It decodes the binary format without Rows.Scan, because a search reads every plant.
func scanned(r pgx.Rows, p *store.Scanned) error {
	columns, values := r.FieldDescriptions(), r.RawValues()
	isBinary := func(i int) bool { return columns[i].Format == pgtype.BinaryFormatCode && len(values[i]) == 8 }
	if !isBinary(0) || !isBinary(3) || !isBinary(4) { // a pool without prepared statements uses the text format
		var at time.Time
		err := r.Scan(&p.ID, (*pgtype.DriverBytes)(&p.Name), (*pgtype.DriverBytes)(&p.Tag), &at, &p.CreatedBy)
		p.CreatedAt = at.UnixMicro()
		return err
	}
	const epoch = 946_684_800_000_000 // 2000-01-01, the zero of timestamptz, in microseconds since 1970
	p.ID, p.Name, p.Tag = int64(binary.BigEndian.Uint64(values[0])), values[1], values[2]
	p.CreatedAt = int64(binary.BigEndian.Uint64(values[3])) + epoch
	p.CreatedBy = int64(binary.BigEndian.Uint64(values[4]))
	return nil
}

func record(r pgx.Row) (p plant.Record, err error) {
	var tag *string
	var creator int64
	err = r.Scan(&p.ID, &p.Name, &tag, &p.CreatedAt, (*nullText)(&p.CreatedBy), &creator)
	p.Tag, p.CreatedBy = tagOf(tag), store.CreatorName(p.CreatedBy, creator)
	return p, err
}

const rowColumns = "id, name, tag, created_at, created_by"

// plantRows returns plants until their texts exceed a number of bytes.
func plantRows(ctx context.Context, q querier, bytesMax int, where string, args ...any) ([]store.Row, error) {
	rows, _ := q.Query(ctx, "SELECT "+rowColumns+" FROM plants "+where, args...) // collectWithin returns the error
	return collectWithin(rows, bytesMax, scanRow)
}

// scanRow reads a row of rowColumns.
func scanRow(row pgx.Row) (r store.Row, err error) {
	var tag *string
	err = row.Scan(&r.ID, &r.Name, &tag, &r.CreatedAt, &r.CreatedBy)
	r.Tag = tagOf(tag)
	return r, err
}

// State implements writepath.Engine. It also reads whether new plants have events.
func (e *Engine) State(ctx context.Context) (now store.State, err error) {
	_, err = e.webhooks.read(func() (events bool, err error) {
		const sql = "SELECT token_changes, coalesce(webhooks, FALSE) FROM plantstore"
		err = e.db.QueryRow(ctx, sql).Scan(&now.TokenChanges, &events)
		return events, err
	})
	now.Plants = e.estimated.Load()
	return now, classify(err)
}
