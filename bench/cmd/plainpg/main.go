// Plainpg is a simple service on PostgreSQL: the handler of plain, and one INSERT a request through pgx and its
// connection pool.
package main

import (
	"context"
	"errors"
	"net/http"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"plantstore/bench/internal/plain"
)

func main() { plain.Main(open) }

// poolSize had the highest rate of 4 (pgx's default on two processors), 16, 32 and 64.
const poolSize = 16

const uniqueViolation = "23505" // https://www.postgresql.org/docs/15/errcodes-appendix.html

func open(f plain.Flags) (http.Handler, func() error, error) {
	config, err := pgxpool.ParseConfig(f.DB)
	if err != nil {
		return nil, nil, err
	}
	config.MaxConns = poolSize
	ctx := context.Background()
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	const table = "CREATE TABLE IF NOT EXISTS plants (id bigint PRIMARY KEY, name text NOT NULL, tag text)"
	if _, err := pool.Exec(ctx, table); err != nil {
		pool.Close()
		return nil, nil, err
	}
	handler := plain.Handler(f.Token, func(ctx context.Context, id int64, name string, tag *string) error {
		_, err := pool.Exec(ctx, "INSERT INTO plants (id, name, tag) VALUES ($1, $2, $3)", id, name, tag)
		var pgErr *pgconn.PgError
		if errors.As(err, &pgErr) && pgErr.Code == uniqueViolation {
			return plain.ErrExists
		}
		return err
	})
	return handler, func() error { pool.Close(); return nil }, nil
}
