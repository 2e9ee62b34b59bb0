// Plainpg is the afternoon's work on PostgreSQL: the handler of plain, and one
// INSERT a request through pgx and its pool.
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

// poolSize is what gave the most requests a second on two processors when 4,
// which is the pool's own choice there, 16, 32 and 64 were tried.
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
	if _, err := pool.Exec(ctx, "CREATE TABLE IF NOT EXISTS plants (id bigint PRIMARY KEY, name text NOT NULL, tag text)"); err != nil {
		pool.Close()
		return nil, nil, err
	}
	handler := plain.Handler(f.Token, func(ctx context.Context, id int64, name string, tag *string) error {
		_, err := pool.Exec(ctx, "INSERT INTO plants (id, name, tag) VALUES ($1, $2, $3)", id, name, tag)
		var fault *pgconn.PgError
		if errors.As(err, &fault) && fault.Code == uniqueViolation {
			return plain.ErrExists
		}
		return err
	})
	return handler, func() error { pool.Close(); return nil }, nil
}
