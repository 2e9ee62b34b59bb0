package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// The checks in this file make sure that the names in our statements belong to our own tables, and that no other role
// can change these or run code through them.

// A function or an operator of the schema whose types match exactly takes precedence over one of pg_catalog whose types
// do not, such as count(any). So a statement qualifies every such function, and compares an oid with an oid.

// storesSQL reads the schemas that contain a store.
const storesSQL = "SELECT schemaname::text FROM pg_catalog.pg_tables WHERE tablename = 'plantstore'"

// setSearchPath sets the search_path of a session to the schema of the tables, and the isolation of single statements.
// The engine's first connection finds this schema, and later connections use the same one: otherwise, a role that may
// create tables in an earlier schema of the path could replace ours at any time. PostgreSQL itself searches pg_catalog
// before the path.
func (e *Engine) setSearchPath(ctx context.Context, c *pgx.Conn) error {
	path, err := e.searchPath(ctx, c)
	if err != nil {
		return err
	}
	_, err = c.Exec(ctx, "SET search_path = "+path+"; SET default_transaction_isolation = 'read committed'")
	return err
}

func (e *Engine) searchPath(ctx context.Context, c *pgx.Conn) (string, error) {
	e.namespaceMu.Lock()
	defer e.namespaceMu.Unlock()
	if e.namespace == "" {
		schema, err := findSchema(ctx, c, e.urlPath)
		if err != nil {
			return "", err
		}
		e.namespace = schema
	}
	path := pgx.Identifier{e.namespace}.Sanitize() + ", pg_temp"
	e.transactionSQL = transactionSQL(path, c.Config().DefaultQueryExecMode)
	return path, nil
}

// findSchema returns the first schema of the search_path that has a store, or else the schema in which CREATE TABLE
// would create tables. The search_path comes from the URL, or else is the default of the session: behind a pooler, the
// current one may be another client's. It searches for stores with a path without schemas of other roles.
func findSchema(ctx context.Context, c *pgx.Conn, urlPath string) (schema string, err error) {
	options := pgx.TxOptions{BeginQuery: beginSQL + "SET LOCAL search_path = DEFAULT"}
	err = pgx.BeginTxFunc(ctx, c, options, func(tx pgx.Tx) error {
		if urlPath != "" {
			if _, err := tx.Exec(ctx, "SELECT pg_catalog.set_config('search_path', $1, TRUE)", urlPath); err != nil {
				return err
			}
		}
		var path []string
		if err := tx.QueryRow(ctx, "SELECT pg_catalog.current_schemas(FALSE)::text[]").Scan(&path); err != nil {
			return err
		}
		if len(path) == 0 {
			return errors.New("no schema of the search_path exists, or its use is not granted: " +
				"create one, or set search_path in the URL")
		}
		if _, err := tx.Exec(ctx, "SET LOCAL search_path = pg_catalog, pg_temp"); err != nil {
			return err
		}
		stores, err := collect(ctx, tx, pgx.RowTo[string], storesSQL)
		schema = path[0]
		if i := slices.IndexFunc(path, func(s string) bool { return slices.Contains(stores, s) }); i >= 0 {
			schema = path[i]
		}
		return err
	})
	return schema, err
}

// qualified returns the quoted name of an object in the schema of the tables. The engine has a connection, so its
// schema is known.
func (e *Engine) qualified(name string) string {
	e.namespaceMu.Lock()
	defer e.namespaceMu.Unlock()
	return pgx.Identifier{e.namespace, name}.Sanitize()
}

const tableNames = `('plants', 'tokens', 'plantstore', 'plantstore_audit', 'plantstore_acme',
	'plantstore_webhooks', 'plantstore_outbox', 'plantstore_deliveries')`

// ownersSQL reads the owners of the tables, whether they are unlogged, and their triggers.
const ownersSQL = `SELECT relname::text, pg_get_userbyid(relowner)::text, relpersistence <> 'p',
	coalesce(tgname::text, '')
	FROM pg_class INNER JOIN pg_namespace ON pg_namespace.oid = relnamespace
	LEFT JOIN pg_trigger ON tgrelid = pg_class.oid AND NOT tgisinternal
	WHERE nspname = current_schema() AND relname IN ` + tableNames + ` ORDER BY relname`

// checkOwners refuses tables whose owner is neither the connection's role nor the owner of the database, tables that a
// crash empties, and triggers. It runs before the first read of the tables, because a policy of their owner runs as the
// role that reads.
//
// Membership in the owner's role does not count: before PostgreSQL 15, every role that may log in can make another role
// a member of itself.
//
// A role with the right TRIGGER can create a trigger, whose function and condition run as the role of each server.
func (e *Engine) checkOwners(ctx context.Context, q querier) error {
	var user, admin string
	const sql = `SELECT current_user::text, coalesce(pg_get_userbyid(datdba)::text, '')
		FROM pg_database WHERE datname = current_database()`
	if err := q.QueryRow(ctx, sql).Scan(&user, &admin); err != nil {
		return err
	}
	rows, _ := q.Query(ctx, ownersSQL) // ForEachRow returns the error
	var table, owner, trigger string
	var unlogged bool
	_, err := pgx.ForEachRow(rows, []any{&table, &owner, &unlogged, &trigger}, func() error {
		switch {
		case owner != user && owner != admin:
			return fmt.Errorf("table %s is owned by role %q, which can read and change everything in it; "+
				"allowed are this connection's role %q and the owner of the database %q: drop the table, "+
				"or if it is yours, connect as its owner or change the owner", e.qualified(table), owner, user, admin)
		case unlogged:
			return fmt.Errorf("table %s is not logged, so a crash empties it: run ALTER TABLE %[1]s SET LOGGED",
				e.qualified(table))
		case trigger != "":
			return fmt.Errorf("trigger %q on %s was not created by Plant Store, and runs code as this connection's role %q: "+
				"drop the trigger", trigger, e.qualified(table), user)
		}
		return nil
	})
	return err
}

// checkPrimaryKey makes sure that plants has its primary key: a restore creates it last, and without it a COPY would
// store the same plant twice. The statement creates no plant. PostgreSQL plans it before it checks rights and runs
// triggers, so other errors are ignored.
func (e *Engine) checkPrimaryKey(ctx context.Context) error {
	_, err := e.db.Exec(ctx, insertPlantsSQL, []int64{}, []string{}, []*string{}, []time.Time{}, []int64{})
	if hasCode(err, codeNoConflictTarget) {
		return fmt.Errorf("%s has no primary key, as after a restore that failed: restore it again, "+
			"or run ALTER TABLE plants ADD PRIMARY KEY (id): %w", e.qualified("plants"), err)
	}
	return nil
}

// checkReplayRight makes sure that the role may lock a row of plants, as each replay does. A server without this right
// would answer every replay with an unknown outcome, after the whole answer timeout. Other errors, a lost connection
// for example, are ignored: they do not show a missing right.
func (e *Engine) checkReplayRight(ctx context.Context) error {
	const anyID = int64(0) // PostgreSQL also checks the right if no row has the id
	_, err := e.db.Exec(ctx, existingSQL, anyID)
	if hasCode(err, codeInsufficientPrivilege) {
		return fmt.Errorf("the role may not lock rows of %s, as each replay does: "+
			"as the owner, GRANT UPDATE (created_by) ON plants to it: %w", e.qualified("plants"), err)
	}
	return nil
}

// checkMover refuses a role that cannot change the tables, as the end of a move does.
func (e *Engine) checkMover(ctx context.Context, q querier) error {
	const sql = `SELECT pg_get_userbyid(relowner)::text, current_user::text FROM pg_class
		WHERE oid = 'plants'::regclass::oid`
	var owner, user string
	if err := q.QueryRow(ctx, sql).Scan(&owner, &user); err != nil || owner == user {
		return err
	}
	return fmt.Errorf("the tables are owned by role %q and this connection's role is %q: move as %[1]s", owner, user)
}
