package postgres

import (
	"context"

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

// statements implements store.Reader; in a transaction it also implements store.Tx and store.Deliveries.
type statements struct {
	engine *Engine
	ctx    context.Context //nolint:containedctx // the transaction's
	q      querier
}

// exec runs a statement and returns the number of rows that it has changed.
func (s statements) exec(sql string, args ...any) (int64, error) {
	tag, err := s.q.Exec(s.ctx, sql, args...)
	return tag.RowsAffected(), err
}

// operations returns the operations that use the statements of the engine.
func (e *Engine) operations() store.Operations {
	return store.Operations{
		Events: make(chan struct{}, 1),
		Read: func(ctx context.Context, do func(store.Reader) error) error {
			return classify(do(statements{e, ctx, e.db}))
		},
		Write: func(ctx context.Context, change func(store.Tx) error) error {
			return e.transact(ctx, func(tx pgx.Tx) error { return change(statements{e, ctx, tx}) })
		},
	}
}
