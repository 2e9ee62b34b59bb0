package dbfile

import (
	"embed"
	"fmt"

	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

var migrations = store.Migrations(migrationFiles)

// applicationID identifies the file of a plant store, "plnt" (https://sqlite.org/pragma.html#pragma_application_id).
const applicationID = 0x706c6e74

// NewestSchema returns the schema of this program: the number of its migrations.
func NewestSchema() int { return len(migrations) }

// SchemaVersion returns the schema of a file, 0 for an empty file, and an error for a file of another program or of a
// newer version. The schema is the file's user_version: the number of applied migrations.
func SchemaVersion(c *sqlite3.Conn, path string) (int, error) {
	id, err := c.QueryInt("PRAGMA application_id")
	if err != nil {
		return 0, OpenFault(path, err)
	}
	version, err := c.QueryInt("PRAGMA user_version")
	if err != nil {
		return 0, err
	}
	if id == applicationID && (version < 0 || version > int64(NewestSchema())) {
		return 0, fmt.Errorf("%s has schema %d, and this plantstore supports schemas up to %d: "+
			"use the plantstore that wrote it or a newer one", path, version, NewestSchema())
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

// Migrate applies the migrations after a version of the schema. The caller runs it in a transaction.
func Migrate(c *sqlite3.Conn, from int) error {
	for version := from; version < NewestSchema(); version++ {
		if err := apply(c, version); err != nil {
			return err
		}
	}
	return nil
}

// apply migrates a version of the schema to the next one.
func apply(c *sqlite3.Conn, version int) error {
	m := migrations[version]
	if err := c.Exec(m.SQL); err != nil {
		return fmt.Errorf("migration %s: %w", m.File, err)
	}
	return c.Exec(fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, version+1))
}
