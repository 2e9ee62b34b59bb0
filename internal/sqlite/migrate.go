package sqlite

import (
	"context"
	"fmt"
	"log/slog"

	"plantstore/internal/audit"
	"plantstore/internal/sqlite/dbfile"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// Migrate migrates the store at path to the schema of this program. It returns the schema before and after, which are
// equal if the store already had the newest one. It returns an error if there is no store at path or if a server has it
// open. The log may be nil. by is the origin of the entry in the audit log.
func Migrate(ctx context.Context, path string, log *slog.Logger, by audit.Origin) (from, to int, err error) {
	c := Config{Path: path, Server: true, MustExist: true, Migrate: true, By: by, Log: log}
	if err := prepareFile(ctx, &c); err != nil {
		return 0, 0, err
	}
	err = dbfile.Read(ctx, c.Path, func(conn *sqlite3.Conn) (err error) {
		from, err = c.accept(conn)
		return err
	})
	if err != nil || from == dbfile.NewestSchema() { // the newest schema is no error beside a server
		return from, from, err
	}
	e, err := Open(ctx, c)
	if err != nil {
		return 0, 0, err
	}
	return from, dbfile.NewestSchema(), e.Close()
}

// acceptVersion returns an error if the Config does not allow a store of that schema; 0 is an empty file.
func (c *Config) acceptVersion(version int) error {
	newest := dbfile.NewestSchema()
	switch {
	case version == 0 && c.MustExist:
		return dbfile.NoStore(c.Path)
	case 0 < version && version < newest && !c.Migrate:
		return fmt.Errorf("%s has schema %d and this plantstore needs schema %d: "+
			"stop the server of this store if one runs, then run plantstore migrate or start plantstore serve",
			c.Path, version, newest)
	}
	return nil
}

// migrate creates the tables of a new store, or migrates an older store if c.Migrate is set.
func (e *Engine) migrate(ctx context.Context, c Config) error {
	newest := dbfile.NewestSchema()
	from, err := dbfile.SchemaVersion(e.writer, e.path)
	if err != nil || from == newest {
		return err
	}
	err = e.write(ctx, func() error {
		if from, err = dbfile.SchemaVersion(e.writer, e.path); err != nil { // again: another process may have been first
			return err
		}
		if err := c.acceptVersion(from); err != nil {
			return err
		}
		if err := dbfile.Migrate(e.writer, from); err != nil || from == 0 || from == newest {
			return err
		}
		// Changes of tables are not recorded, so no commit of the new schema may follow those of the old one.
		const forget = "DELETE FROM plantstore_journal; UPDATE plantstore SET history = NULL, journal_bytes = 0"
		if err := e.writer.Exec(forget); err != nil {
			return err
		}
		return e.tables(e.writer).AppendAudit(store.Migrated(from, newest, c.By))
	})
	if err == nil && 0 < from && from < newest {
		e.log.Info("schema migrated", "from", from, "to", newest)
	}
	return err
}
