package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"plantstore/internal/store"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

var migrations = store.Migrations(migrationFiles)

// migrationLock is the number of the advisory lock of a migration: "plnt".
const migrationLock = 0x706c6e74

// Migrate migrates the store in a database to the newest schema. It returns the schemas before and after; they are
// equal if the schema was the newest. Servers of the older schema keep running, but cannot start again. Migrate uses
// only c.URL, c.By and c.Log.
func Migrate(ctx context.Context, c Config) (from, to int, err error) {
	e, err := Open(ctx, Config{URL: c.URL, Log: c.Log, By: c.By, MustExist: true, Migrate: true})
	if err != nil {
		return 0, 0, err
	}
	return e.found, len(migrations), e.Close()
}

// acceptVersion returns an error if the Config does not allow a store of that schema; 0 is a database without a store.
func (c Config) acceptVersion(version int) error {
	newest := len(migrations)
	switch {
	case version == 0 && c.MustExist:
		return fmt.Errorf("%w in it", store.ErrNoStore)
	case 0 < version && version < newest && !c.Migrate:
		return fmt.Errorf("it has schema %d and this plantstore needs schema %d: "+
			"run plantstore migrate or start plantstore serve; "+
			"servers of schema %[1]d keep running, but cannot start again after that", version, newest)
	}
	return nil
}

// errChecked rolls back the tables that Check has created to find out whether the role may.
var errChecked = errors.New("checked")

// migrate creates the tables of a new store, and migrates an older one if c allows it. Of several processes at the same
// time, one does it and the others wait.
func (e *Engine) migrate(ctx context.Context, c Config) error {
	version, movedTo, err := e.unlocked(ctx)
	if err == nil {
		err = c.acceptVersion(version)
	}
	if err == nil && !c.ReadOnly && !c.move {
		err = store.Moved(movedTo)
	}
	e.found = version
	if err != nil || version == len(migrations) {
		return err
	}
	if c.check && version > 0 { // the locks of a migration would stop the servers of the store
		e.log.Info("plantstore serve migrates the store", "from", version, "to", len(migrations))
		return nil
	}
	err = e.inTransaction(ctx, e.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_catalog.pg_advisory_xact_lock($1)", int64(migrationLock)); err != nil {
			return err
		}
		if e.found, err = e.schemaVersion(ctx, tx); err != nil { // again: another process may have migrated
			return err
		}
		if err := c.acceptVersion(e.found); err != nil {
			return err
		}
		for version = e.found; version < len(migrations); version++ {
			if err := apply(ctx, tx, migrations[version], version+1); err != nil {
				return err
			}
		}
		switch {
		case c.check:
			return errChecked
		case e.found == 0, e.found == len(migrations):
			return nil
		}
		return store.Tables{Statements: statements{ctx, tx}}.AppendAudit(store.Migrated(e.found, len(migrations), c.By))
	})
	if errors.Is(err, errChecked) {
		e.log.Info("plantstore serve creates the store")
		return nil
	}
	if err == nil && 0 < e.found && e.found < len(migrations) {
		e.log.Info("schema migrated", "from", e.found, "to", len(migrations))
	}
	return err
}

func apply(ctx context.Context, tx pgx.Tx, m store.Migration, version int) error {
	if _, err := tx.Exec(ctx, m.SQL); err != nil {
		if hasCode(err, codeInsufficientPrivilege) {
			err = fmt.Errorf("%w: run plantstore migrate as the owner of the tables, "+
				"or the first plantstore serve as a role that may create them", err)
		}
		return fmt.Errorf("migration %s: %w", m.File, err)
	}
	_, err := tx.Exec(ctx, "UPDATE plantstore SET version = $1", version)
	return err
}

// unlocked returns schemaVersion and the store to which this one was moved, unless a move locks the store.
func (e *Engine) unlocked(ctx context.Context) (version int, movedTo string, err error) {
	err = e.inTransaction(ctx, e.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockTimeout); err != nil {
			return err
		}
		if version, err = e.schemaVersion(ctx, tx); err != nil || version == 0 {
			return err
		}
		return tx.QueryRow(ctx, movedToSQL).Scan(&movedTo)
	})
	return version, movedTo, moveRunning(err)
}

// schemaVersion returns the schema of the store, 0 if the database has none. It refuses other tables with our names,
// tables of another role, and a newer schema.
func (e *Engine) schemaVersion(ctx context.Context, q querier) (version int, err error) {
	var ours, others bool
	// pg_tables shows the state after the lock; to_regclass may read an older cache.
	const sql = `SELECT
		coalesce(bool_or(tablename = 'plantstore'), false), coalesce(bool_or(tablename <> 'plantstore'), false)
		FROM pg_catalog.pg_tables WHERE tablename IN ` + tableNames + ` AND schemaname = ANY (current_schemas(false))`
	err = q.QueryRow(ctx, sql).Scan(&ours, &others)
	switch {
	case err != nil:
		return 0, err
	case !ours && others:
		return 0, errors.New("it has a table plants or tokens of another program: " +
			"use a database or a schema of its own for the store")
	case !ours:
		return 0, nil
	}
	if err := e.checkOwners(ctx, q); err != nil {
		return 0, err
	}
	if err := q.QueryRow(ctx, "SELECT version FROM plantstore").Scan(&version); err != nil {
		return 0, err
	}
	if newest := len(migrations); version < 1 || version > newest {
		return 0, fmt.Errorf("it has schema %d, and this plantstore supports schemas up to %d: "+
			"use the plantstore that wrote it, or a newer one", version, newest)
	}
	return version, nil
}

const movedToSQL = "SELECT coalesce(moved_to, '') FROM plantstore"
