package sqlite

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"log/slog"

	"plantstore/internal/audit"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrations are the files in their order.
var migrations = store.Migrations(migrationFiles)

// applicationID identifies the file of a plant store, "plnt"
// (https://sqlite.org/pragma.html#pragma_application_id).
const applicationID = 0x706c6e74

// Migrate migrates the store at path to the schema of this program. It returns the schema
// before and after; they are equal if the store already had the newest one. It returns an
// error if there is no store at path or if a server has it open. A nil log means none. by is the
// origin of the entry in the audit log.
func Migrate(ctx context.Context, path string, log *slog.Logger, by audit.Origin) (from, to int, err error) {
	c := Config{Path: path, Server: true, MustExist: true, Migrate: true, By: by, Log: log}
	from, err = c.schemaOf(ctx)
	if err != nil || from == len(migrations) { // the newest schema is no error beside a server
		return from, from, err
	}
	e, err := Open(ctx, c)
	if err != nil {
		return 0, 0, err
	}
	return from, len(migrations), e.Close()
}

// schemaOf returns the schema of the store and changes nothing.
func (c Config) schemaOf(ctx context.Context) (version int, err error) {
	if err := prepareFile(ctx, &c); err != nil {
		return 0, err
	}
	conn, err := openForReading(c.Path)
	if err != nil {
		return 0, err
	}
	version, err = c.accept(ctx, conn)
	return version, errors.Join(err, conn.Close())
}

// acceptVersion returns an error if the Config does not allow a store of that schema; 0 is
// an empty file.
func (c Config) acceptVersion(version int) error {
	newest := len(migrations)
	switch {
	case version == 0 && c.MustExist:
		return noStore(c.Path)
	case 0 < version && version < newest && !c.Migrate:
		return fmt.Errorf("%s has schema %d and this plantstore needs schema %d: "+
			"stop the server of this store if one runs, then run plantstore migrate or start plantstore serve",
			c.Path, version, newest)
	}
	return nil
}

// migrate creates the tables of a new store, or migrates an older store if c.Migrate is set.
// The version of the schema is the file's user_version: the number of applied migrations.
func (e *Engine) migrate(ctx context.Context, c Config) error {
	version, err := schemaVersion(e.writer, e.path)
	if err != nil || version == len(migrations) {
		return err
	}
	from := version
	err = e.write(ctx, func() error {
		if from, err = schemaVersion(e.writer, e.path); err != nil { // again: another process may have been first
			return err
		}
		if err := c.acceptVersion(from); err != nil {
			return err
		}
		for version = from; version < len(migrations); version++ {
			if err := apply(e.writer, migrations[version], version+1); err != nil {
				return err
			}
		}
		if from == 0 || from == len(migrations) {
			return nil
		}
		return e.appendAudit(store.Migrated(from, len(migrations), c.By))
	})
	if err == nil && 0 < from && from < len(migrations) {
		e.log.Info("schema migrated", "from", from, "to", len(migrations))
	}
	return err
}

func apply(c *sqlite3.Conn, m store.Migration, version int) error {
	if err := c.Exec(m.SQL); err != nil {
		return fmt.Errorf("migration %s: %w", m.File, err)
	}
	return c.Exec(fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, version))
}

// schemaVersion returns the version of the schema, 0 for an empty file, and an error for a
// file of another program or of a newer version.
func schemaVersion(c *sqlite3.Conn, path string) (int, error) {
	id, err := c.QueryInt("PRAGMA application_id")
	if err != nil {
		return 0, openFault(path, err)
	}
	version, err := c.QueryInt("PRAGMA user_version")
	if err != nil {
		return 0, err
	}
	if known := len(migrations); id == applicationID && (version < 0 || version > int64(known)) {
		return 0, fmt.Errorf("%s has schema %d, and this plantstore supports schemas up to %d: "+
			"use the plantstore that wrote it or a newer one", path, version, known)
	}
	if id == applicationID {
		return int(version), nil
	}
	tables, err := c.QueryInt("SELECT count(*) FROM sqlite_schema")
	if err != nil {
		return 0, err
	}
	if id != 0 || version != 0 || tables != 0 {
		return 0, fmt.Errorf("%s is an SQLite database of another program: use another file", path)
	}
	return 0, nil
}

// openFault explains the most frequent errors of the first access to a file.
func openFault(path string, err error) error {
	var fault *sqlite3.Error
	switch {
	case errors.As(err, &fault) && fault.NotDatabase():
		return fmt.Errorf("%s is not a plant store: it is not an SQLite database", path)
	case errors.As(err, &fault) && fault.NotWritable():
		return notWritable(path, err)
	case errors.As(err, &fault) && fault.Full():
		return fmt.Errorf("open %s: %w: %w", path, store.ErrFull, err)
	}
	return fmt.Errorf("open %s: %w", path, err)
}

// notWritable returns an error with advice; the cause may be nil.
func notWritable(path string, cause error) error {
	const advice = "check the owner and the mode of the file and of its directory"
	if cause == nil {
		return fmt.Errorf("%s is not writable: %s", path, advice)
	}
	return fmt.Errorf("%s is not writable: %s: %w", path, advice, cause)
}
