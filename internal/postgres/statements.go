package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"plantstore/internal/store"
)

// querier is a pool, a connection or a transaction.
type querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// collect returns the rows of a query.
func collect[T any](ctx context.Context, q querier, row pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	rows, _ := q.Query(ctx, sql, args...) // CollectRows returns the error
	return pgx.CollectRows(rows, row)
}

// statements implements store.Statements.
type statements struct {
	ctx context.Context //nolint:containedctx // the transaction's
	q   querier
}

// Exec implements store.Statements.
func (s statements) Exec(sql string, args ...any) (int64, error) {
	tag, err := s.q.Exec(s.ctx, sql, orNull(args)...)
	return tag.RowsAffected(), explain(err)
}

// ExecEach implements store.Statements. It sends all statements at once.
func (s statements) ExecEach(sql string, args [][]any) (changed int64, err error) {
	if len(args) == 0 {
		return 0, nil
	}
	var batch pgx.Batch
	for _, each := range args {
		batch.Queue(sql, orNull(each)...).Exec(func(tag pgconn.CommandTag) error {
			changed += tag.RowsAffected()
			return nil
		})
	}
	return changed, explain(s.q.SendBatch(s.ctx, &batch).Close())
}

// Query implements store.Statements.
func (s statements) Query(row func(store.Scan) error, sql string, args ...any) error {
	rows, _ := s.q.Query(s.ctx, sql, orNull(args)...) // Err returns the error
	defer rows.Close()
	for rows.Next() {
		if err := row(func(dest ...any) error { return rows.Scan(orZero(dest)...) }); err != nil {
			return err
		}
	}
	return rows.Err()
}

// orNull returns the arguments of a statement, with NULL for a zero time.
func orNull(args []any) []any {
	all := make([]any, len(args))
	for i, arg := range args {
		if t, ok := arg.(time.Time); ok {
			arg = nullTime(t)
		}
		all[i] = arg
	}
	return all
}

// orZero returns destinations of columns, with the zero value for NULL.
func orZero(dest []any) []any {
	for i, d := range dest {
		switch d := d.(type) {
		case *time.Time:
			dest[i] = (*nullTime)(d)
		case *string:
			dest[i] = (*nullText)(d)
		}
	}
	return dest
}

// explain adds the remedy to the error for a role without a right.
func explain(err error) error {
	if hasCode(err, codeInsufficientPrivilege) {
		return fmt.Errorf("the role lacks a right: as the owner of the tables GRANT it, or use the owner: %w", err)
	}
	return err
}

// ChangeTokens implements store.Statements.
func (s statements) ChangeTokens(sql string, args [][]any) error {
	_, err := s.ExecEach(sql, args)
	return err
}

// MayDeleteTokens implements store.Statements. A server does not need that right.
func (s statements) MayDeleteTokens() (allowed bool, err error) {
	err = s.q.QueryRow(s.ctx, "SELECT pg_catalog.has_table_privilege('tokens', 'DELETE')").Scan(&allowed)
	return allowed, err
}

// PlantsByID implements store.Statements.
func (s statements) PlantsByID(ids []int64, bytesMax int) ([]store.Row, error) {
	return plantRows(s.ctx, s.q, bytesMax, "WHERE id = ANY($1) ORDER BY id", ids)
}

// DeletePlants implements store.Statements. On Citus, a statement can return rows of one shard only.
func (s statements) DeletePlants(plants []store.Version) (ids []int64, err error) {
	if len(plants) == 0 {
		return nil, nil
	}
	const sql = "DELETE FROM plants WHERE id = $1 AND created_at = $2 AND created_by = $3"
	var batch pgx.Batch
	for _, p := range plants {
		batch.Queue(sql, p.ID, p.CreatedAt, p.CreatedBy).Exec(func(tag pgconn.CommandTag) error {
			if tag.RowsAffected() > 0 {
				ids = append(ids, p.ID)
			}
			return nil
		})
	}
	return ids, explain(s.q.SendBatch(s.ctx, &batch).Close())
}

// InsertPlant implements store.Statements.
func (s statements) InsertPlant(c store.Create) error {
	_, err := s.Exec("INSERT INTO plants (id, name, tag, created_at, created_by) VALUES ($1, $2, $3, $4, $5)",
		c.Plant.ID, c.Plant.Name, nullTag(c.Plant.Tag), c.At, c.By)
	return err
}

// OldestEvent implements store.Statements.
func (s statements) OldestEvent() (at time.Time, err error) {
	err = s.q.QueryRow(s.ctx, "SELECT created_at FROM plantstore_outbox ORDER BY created_at LIMIT 1").Scan(&at)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return at, err
}

// FanOut implements store.Statements.
func (s statements) FanOut(events int, now time.Time) (int64, error) {
	claimed := now.Add(store.ClaimMax)
	return s.Exec(`WITH events AS (
		DELETE FROM plantstore_outbox WHERE (created_at, plant) IN (
			SELECT created_at, plant FROM plantstore_outbox WHERE EXISTS (SELECT 1 FROM plantstore_webhooks WHERE active)
			ORDER BY created_at, plant LIMIT $1 FOR UPDATE SKIP LOCKED)
		RETURNING created_at, plant)
		INSERT INTO plantstore_deliveries (webhook, plant, since, due_at, attempts)
		SELECT id, plant, created_at, $2, 0 FROM events CROSS JOIN plantstore_webhooks WHERE active
		ON CONFLICT (webhook, plant) DO UPDATE SET since = excluded.since, `+store.DueAfterClaim("$3")+`, dead_at = NULL,
			attempts = 0, reason = NULL, erased = FALSE WHERE plantstore_deliveries.erased`, events, now, claimed)
}

// operations returns the operations that use the statements of the engine.
func (e *Engine) operations() store.Operations {
	read := func(ctx context.Context, do func(store.Tables) error) error {
		return classify(do(store.Tables{Statements: statements{ctx, e.db}}))
	}
	return store.Operations{
		Events: make(chan struct{}, 1), Read: read, ReadLong: read,
		Write: func(ctx context.Context, change func(store.Tables) error) error {
			return e.transact(ctx, func(tx pgx.Tx, now time.Time) error {
				return change(store.Tables{Statements: statements{ctx, tx}, Now: now})
			})
		},
	}
}
