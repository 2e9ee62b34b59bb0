// Plain is a simple service on SQLite: net/http, encoding/json, database/sql, one INSERT a request, WAL,
// synchronous=FULL.
package main

import (
	"context"
	"database/sql"
	"errors"
	"net/http"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"plantstore/bench/internal/plain"
)

func main() { plain.Main(open) }

func open(f plain.Flags) (http.Handler, func() error, error) {
	db, err := sql.Open("sqlite", "file:"+f.DB+
		"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(1) // SQLite has one writer: more connections would wait for its lock
	ctx := context.Background()
	const table = "CREATE TABLE IF NOT EXISTS plants (id INTEGER PRIMARY KEY, name TEXT NOT NULL, tag TEXT)"
	if _, err := db.ExecContext(ctx, table); err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	insert, err := db.PrepareContext(ctx, "INSERT INTO plants (id, name, tag) VALUES (?, ?, ?)")
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	handler := plain.Handler(f.Token, func(ctx context.Context, id int64, name string, tag *string) error {
		_, err := insert.ExecContext(ctx, id, name, tag)
		var sqliteErr *sqlite.Error
		if errors.As(err, &sqliteErr) && sqliteErr.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY {
			return plain.ErrExists
		}
		return err
	})
	return handler, func() error { return errors.Join(insert.Close(), db.Close()) }, nil
}
