package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"plantstore/internal/plant"
	"plantstore/internal/store"
)

const recordSQL = `SELECT plants.id, plants.name, plants.tag, plants.created_at, coalesce(tokens.name, '')
	FROM plants LEFT JOIN tokens ON tokens.id = plants.created_by `

// Get implements store.Engine.
func (e *Engine) Get(ctx context.Context, id int64) (plant.Record, error) {
	rows, _ := e.pool.Query(ctx, recordSQL+"WHERE plants.id = $1", id) // the error comes with the rows
	r, err := pgx.CollectExactlyOneRow(rows, record)
	if errors.Is(err, pgx.ErrNoRows) {
		err = store.ErrNotFound
	}
	return r, classify(err)
}

// List implements store.Engine.
func (e *Engine) List(ctx context.Context, q store.Query) (records []plant.Record, err error) {
	sql, args := "WHERE plants.id >= $1 ORDER BY plants.id LIMIT $2", []any{q.From, q.Limit}
	if tag, ok := q.Tag.Get(); ok {
		sql, args = "WHERE plants.id >= $1 AND plants.tag = $3 ORDER BY plants.id LIMIT $2", append(args, tag)
	}
	rows, err := e.pool.Query(ctx, recordSQL+sql, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for bytes := 0; bytes <= store.PlantsBytes && rows.Next(); {
		r, err := record(rows)
		if err != nil {
			return nil, err
		}
		bytes += r.Bytes()
		records = append(records, r)
	}
	rows.Close() // reads on to the end
	return records, rows.Err()
}

func record(r pgx.CollectableRow) (p plant.Record, err error) {
	var tag *string
	var at time.Time
	err = r.Scan(&p.ID, &p.Name, &tag, &at, &p.CreatedBy)
	p.Tag, p.CreatedAt = tagOf(tag), at.UTC()
	return p, err
}
