package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// This file makes sure that the names in our statements mean our own tables, and
// that no other role can change them or run code through them.

// schemaSQL finds the first schema of the search_path that has a store, or else
// the one in which the path creates tables.
const schemaSQL = `SELECT coalesce((SELECT schemaname FROM pg_catalog.pg_tables
	WHERE tablename = 'plantstore' AND schemaname = ANY (current_schemas(false))
	ORDER BY array_position(current_schemas(false), schemaname) LIMIT 1), current_schema())::text`

// pin makes the names in every statement of a connection mean the tables of one
// schema. The engine's first connection finds it, and it stays the same for the
// engine's life: a role that may create tables in an earlier schema of the
// search_path could otherwise replace ours at any time. PostgreSQL itself searches
// pg_catalog before the path.
func (e *Engine) pin(ctx context.Context, c *pgx.Conn) error {
	e.pinning.Lock()
	defer e.pinning.Unlock()
	if e.namespace == "" {
		var schema *string
		if err := c.QueryRow(ctx, schemaSQL).Scan(&schema); err != nil {
			return err
		}
		if schema == nil {
			return errors.New("no schema of the search_path exists, or its use is not granted: create one, or set search_path in the URL")
		}
		e.namespace = *schema
	}
	_, err := c.Exec(ctx, "SET search_path = "+pgx.Identifier{e.namespace}.Sanitize()+", pg_temp")
	return err
}

// qualified returns the quoted name of an object in the schema of the tables. The
// engine has a connection, so its schema is known.
func (e *Engine) qualified(name string) string {
	e.pinning.Lock()
	defer e.pinning.Unlock()
	return pgx.Identifier{e.namespace, name}.Sanitize()
}

// ownersSQL reads to which roles the tables belong, and the functions of their
// triggers, which run as the role that creates a plant or changes a token.
const ownersSQL = `SELECT relname::text, pg_get_userbyid(relowner)::text, coalesce(tgname::text, ''), coalesce(pg_get_userbyid(proowner)::text, '')
	FROM pg_class INNER JOIN pg_namespace ON pg_namespace.oid = relnamespace
	LEFT JOIN pg_trigger ON tgrelid = pg_class.oid AND NOT tgisinternal LEFT JOIN pg_proc ON pg_proc.oid = tgfoid
	WHERE nspname = current_schema() AND relname IN ('plants', 'tokens', 'plantstore') ORDER BY relname`

// checkOwners refuses tables, and triggers on them, of another role than the
// connection's own and the owner of the database. It runs before anything is read
// from the tables: a policy of their owner runs as whoever reads.
//
// Membership in the owner's role is no reason to trust it: before PostgreSQL 15
// every role that may log in can make another role a member of itself.
func (e *Engine) checkOwners(ctx context.Context, q querier) error {
	var user, admin string
	if err := q.QueryRow(ctx, "SELECT current_user::text, coalesce(pg_get_userbyid(datdba)::text, '') FROM pg_database WHERE datname = current_database()").Scan(&user, &admin); err != nil {
		return err
	}
	rows, _ := q.Query(ctx, ownersSQL) // the error comes with the rows
	var table, owner, trigger, function string
	var refused error
	_, err := pgx.ForEachRow(rows, []any{&table, &owner, &trigger, &function}, func() error {
		what, whose := "table "+e.qualified(table), owner
		if owner == user || owner == admin {
			if trigger == "" || function == user || function == admin {
				return nil
			}
			what, whose = fmt.Sprintf("the function of trigger %q on %s", trigger, what), function
		}
		if refused == nil {
			refused = fmt.Errorf("%s is owned by role %q, which can read and change everything in it; allowed are this connection's role %q and the owner of the database %q: "+
				"drop the table, or if it is yours, connect as its owner or change the owner", what, whose, user, admin)
		}
		return nil
	})
	return errors.Join(err, refused)
}

// checkReplay makes sure that the role may lock a row of plants, as each replay
// does. A server that may only insert would answer every replay with an unknown
// outcome, after all the time for an answer. Another error, of a connection that is
// lost for example, says nothing of the right; the next statement meets it.
func (e *Engine) checkReplay(ctx context.Context) error {
	const anyID = int64(0) // PostgreSQL checks the right also if no row has the id
	_, err := e.pool.Exec(ctx, thereSQL, anyID)
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == "42501" { // insufficient_privilege
		return fmt.Errorf("the role may not lock rows of %s, as each replay does: as the owner, GRANT UPDATE (created_by) ON plants to it: %w", e.qualified("plants"), err)
	}
	return nil
}

// moverSQL finds what a move replaces and the connection's role does not own.
const moverSQL = `SELECT relname::text, pg_get_userbyid(relowner)::text, current_user::text
	FROM pg_class INNER JOIN pg_namespace ON pg_namespace.oid = relnamespace
	WHERE nspname = current_schema() AND relname IN ('plants', 'followed') AND pg_get_userbyid(relowner) <> current_user
	UNION ALL SELECT proname::text, pg_get_userbyid(proowner)::text, current_user::text
	FROM pg_proc INNER JOIN pg_namespace ON pg_namespace.oid = pronamespace
	WHERE nspname = current_schema() AND proname IN ('plantstore_follow', 'plantstore_hold') AND pg_get_userbyid(proowner) <> current_user`

// checkMover refuses to create triggers that the owner of the tables could not
// drop again, or with a function that another role could replace.
func (e *Engine) checkMover(ctx context.Context, q querier) error {
	rows, _ := q.Query(ctx, moverSQL) // the error comes with the rows
	var name, owner, user string
	var refused error
	_, err := pgx.ForEachRow(rows, []any{&name, &owner, &user}, func() error {
		switch {
		case name == "plants": // the rest follows from it
			refused = fmt.Errorf("the tables are owned by role %q and this connection's role is %q: move as %[1]s", owner, user)
		case refused == nil:
			refused = fmt.Errorf("%s is owned by role %q and not by this connection's role %q: drop it, then run the same command again", e.qualified(name), owner, user)
		}
		return nil
	})
	return errors.Join(err, refused)
}
