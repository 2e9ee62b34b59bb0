package postgres

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The engine relies on no default of a session: administrators set defaults for a role, a database or the whole server,
// a reload changes them in sessions that run, and a pooler in transaction mode gives each transaction another session.

// startupSettings are settings of a connection that poolers keep for it, whatever session it uses. The driver reads and
// writes texts in them.
var startupSettings = map[string]string{
	"client_encoding": "UTF8", "datestyle": "ISO", "standard_conforming_strings": "on", "timezone": "UTC",
}

// prepareSession prepares the session of a new connection, and refuses a database that cannot store every plant.
func (e *Engine) prepareSession(ctx context.Context, c *pgx.Conn) error {
	var encoding string
	if err := c.QueryRow(ctx, "SELECT pg_catalog.current_setting('server_encoding')").Scan(&encoding); err != nil {
		return err
	}
	if encoding != "UTF8" {
		return fmt.Errorf("the database has the encoding %s, which cannot store every plant: "+
			"create another one with CREATE DATABASE name ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0", encoding)
	}
	if err := e.setSearchPath(ctx, c); err != nil {
		return err
	}
	return e.prepareCitus(ctx, c)
}

// transactionSQL returns the first statement of each transaction. With it, the server answers the COMMIT only when the
// transaction is on stable storage, and on a synchronous standby if there is one
// (https://www.postgresql.org/docs/current/runtime-config-wal.html#GUC-SYNCHRONOUS-COMMIT), and warns if the wait for
// the standby was cancelled. It sets them even if they are the defaults, which a reload may change before the COMMIT.
func transactionSQL(searchPath string, mode pgx.QueryExecMode) string {
	sql := `SELECT pg_catalog.set_config('synchronous_commit', CASE pg_catalog.current_setting('synchronous_commit')
	WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, TRUE),
	pg_catalog.set_config('client_min_messages', 'warning', TRUE),
	pg_catalog.set_config('search_path', '` + strings.ReplaceAll(searchPath, "'", "''") + `', TRUE)`
	if mode == pgx.QueryExecModeExec || mode == pgx.QueryExecModeSimpleProtocol {
		// The driver sends texts: without array_nulls, a plant without a tag would get the tag "NULL".
		sql += ", pg_catalog.set_config('array_nulls', 'on', TRUE), pg_catalog.set_config('bytea_output', 'hex', TRUE)"
	}
	return sql
}

// firstStatement returns transactionSQL. The engine has a connection, so its schema is known.
func (e *Engine) firstStatement() string {
	e.namespaceMu.Lock()
	defer e.namespaceMu.Unlock()
	return e.transactionSQL
}

// inTransaction runs do in a transaction of a pool or a connection. BEGIN and the first statement are one round trip.
func (e *Engine) inTransaction(ctx context.Context, on interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}, do func(pgx.Tx) error,
) error {
	return pgx.BeginTxFunc(ctx, on, pgx.TxOptions{BeginQuery: beginSQL + e.firstStatement()}, do)
}

const beginSQL = "BEGIN ISOLATION LEVEL READ COMMITTED; "

// single is a querier that runs each call as a transaction of its own, with its first statement, in one round trip.
type single struct {
	engine *Engine
	on     interface { // a pool or a connection
		SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
	}
}

// SendBatch implements querier. The transaction ends when the results are closed.
func (s single) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	var all pgx.Batch
	all.Queue(s.engine.firstStatement())
	all.QueuedQueries = append(all.QueuedQueries, b.QueuedQueries...)
	results := s.on.SendBatch(ctx, &all)
	_, _ = results.Exec() // the results of b and Close return its error too
	return results
}

func (s single) send(ctx context.Context, sql string, args []any) pgx.BatchResults {
	var b pgx.Batch
	b.Queue(sql, args...)
	return s.SendBatch(ctx, &b)
}

// Exec implements querier.
func (s single) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	results := s.send(ctx, sql, args)
	tag, err := results.Exec()
	return tag, cmp.Or(results.Close(), err)
}

// Query implements querier.
func (s single) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	results := s.send(ctx, sql, args)
	rows, err := results.Query()
	if err != nil {
		_ = results.Close() // with the same error
	}
	return &singleRows{Rows: rows, results: results}, err
}

// QueryRow implements querier.
func (s single) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	rows, _ := s.Query(ctx, sql, args...) // Scan returns the error
	return singleRow{rows}
}

// singleRows are the rows of a transaction of one statement, which ends when they are closed.
type singleRows struct {
	pgx.Rows

	results pgx.BatchResults
	err     error // set by Close
}

func (r *singleRows) Next() bool {
	more := r.Rows.Next()
	if !more {
		r.Close()
	}
	return more
}

func (r *singleRows) Close() {
	r.Rows.Close()
	r.err = r.results.Close()
}

func (r *singleRows) Err() error { return cmp.Or(r.Rows.Err(), r.err) }

// singleRow is the first one of the rows.
type singleRow struct{ rows pgx.Rows }

func (r singleRow) Scan(dest ...any) error {
	defer r.rows.Close()
	if !r.rows.Next() {
		return cmp.Or(r.rows.Err(), pgx.ErrNoRows)
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}
