package sqlite

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"plantstore/internal/sqlite/sqlite3"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// applicationID marks a file as a plant store's, in the field that SQLite has
// for that (https://sqlite.org/pragma.html#pragma_application_id): "plnt".
const applicationID = 0x706c6e74

// migrate brings the file to the schema that this program knows. The schema's
// version is the file's user_version: the number of migrations applied.
func (e *Engine) migrate(ctx context.Context) error {
	files := migrations()
	version, err := schemaVersion(e.writer, e.path)
	if err != nil || version == len(files) {
		return err
	}
	return e.write(ctx, func() error {
		version, err := schemaVersion(e.writer, e.path) // again: another process may have been first
		if err != nil {
			return err
		}
		for ; version < len(files); version++ {
			if err := apply(e.writer, files[version], version+1); err != nil {
				return err
			}
		}
		return nil
	})
}

func apply(c *sqlite3.Conn, file string, version int) error {
	sql, err := migrationFiles.ReadFile(file)
	if err != nil {
		return err
	}
	if err := c.Exec(string(sql)); err != nil {
		return fmt.Errorf("migration %s: %w", file, err)
	}
	return c.Exec(fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, version))
}

// migrations returns the files of the migrations in their order.
func migrations() []string {
	files, err := fs.Glob(migrationFiles, "migrations/*.sql") // sorted by name, which begins with the number
	if err != nil {
		panic(err) // the pattern is wrong
	}
	return files
}

// schemaVersion returns 0 for an empty file, and an error for a file that
// belongs to another program or a later version of this one.
func schemaVersion(c *sqlite3.Conn, path string) (int, error) {
	id, err := c.QueryInt("PRAGMA application_id")
	if err != nil {
		return 0, openFault(path, err)
	}
	version, err := c.QueryInt("PRAGMA user_version")
	if err != nil {
		return 0, err
	}
	if known := len(migrations()); id == applicationID && version > int64(known) {
		return 0, fmt.Errorf("%s has schema %d and this plantstore knows only %d: use a plantstore at least as new as the one that wrote it", path, version, known)
	}
	if id == applicationID {
		return int(version), nil
	}
	tables, err := c.QueryInt("SELECT count(*) FROM sqlite_schema")
	if err != nil {
		return 0, err
	}
	if id != 0 || version != 0 || tables != 0 {
		return 0, fmt.Errorf("%s is an SQLite database of another program: name another file", path)
	}
	return 0, nil
}

// openFault says in plain words what the commonest errors of a first look at a
// file mean.
func openFault(path string, err error) error {
	var fault *sqlite3.Error
	if errors.As(err, &fault) && fault.NotDatabase() {
		return fmt.Errorf("%s is not a plant store: it is not an SQLite database", path)
	}
	return fmt.Errorf("open %s: %w", path, err)
}
