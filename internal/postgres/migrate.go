package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"

	"plantstore/internal/store"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrationLock is the number of the advisory lock that a migration holds:
// "plnt".
const migrationLock = 0x706c6e74

// migrate brings the schema to what this program knows. Of several that start
// at once, one does it and the others wait.
func (e *Engine) migrate(ctx context.Context, mustExist bool) error {
	files := migrations()
	switch version, err := e.schemaVersion(ctx, e.pool); {
	case err != nil || version == len(files):
		return err
	case version == 0 && mustExist:
		return fmt.Errorf("%w in it: name another with --db, or begin one with plantstore serve", store.ErrNoStore)
	}
	return pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_catalog.pg_advisory_xact_lock($1)", int64(migrationLock)); err != nil {
			return err
		}
		version, err := e.schemaVersion(ctx, tx) // again: another process may have been first
		if err != nil {
			return err
		}
		for ; version < len(files); version++ {
			if err := apply(ctx, tx, files[version], version+1); err != nil {
				return err
			}
		}
		return nil
	})
}

func apply(ctx context.Context, tx pgx.Tx, file string, version int) error {
	sql, err := migrationFiles.ReadFile(file)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, string(sql)); err != nil {
		return fmt.Errorf("migration %s: %w", file, err)
	}
	_, err = tx.Exec(ctx, "UPDATE plantstore SET version = $1", version)
	return err
}

// querier is a pool or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// schemaVersion returns how many migrations a database has seen, 0 if it is
// none of ours yet. It refuses one that holds other tables of our names or tables
// of another role, and one of a newer program.
func (e *Engine) schemaVersion(ctx context.Context, q querier) (version int, err error) {
	var ours, others bool
	// By pg_tables, whose rows a transaction sees as it sees others: to_regclass
	// may answer from a cache that is older than the lock.
	err = q.QueryRow(ctx, `SELECT coalesce(bool_or(tablename = 'plantstore'), false), coalesce(bool_or(tablename <> 'plantstore'), false)
		FROM pg_catalog.pg_tables WHERE tablename IN ('plantstore', 'plants', 'tokens') AND schemaname = ANY (current_schemas(false))`).Scan(&ours, &others)
	switch {
	case err != nil:
		return 0, err
	case !ours && others:
		return 0, errors.New("it has a table plants or tokens that is not Plant Store's: give it a database or a schema of its own")
	case !ours:
		return 0, nil
	}
	if err := e.checkOwners(ctx, q); err != nil {
		return 0, err
	}
	if err := q.QueryRow(ctx, "SELECT version FROM plantstore").Scan(&version); err != nil {
		return 0, err
	}
	if known := len(migrations()); version > known {
		return 0, fmt.Errorf("it has schema %d and this plantstore knows only %d: use the plantstore that wrote it, or a newer one", version, known)
	}
	return version, nil
}

// migrations returns the files of the migrations in their order.
func migrations() []string {
	files, err := fs.Glob(migrationFiles, "migrations/*.sql") // sorted by name, which begins with the number
	if err != nil {
		panic(err) // the pattern is wrong
	}
	return files
}
