package sqlite

import (
	"context"
	"time"

	"plantstore/internal/sqlite/dbfile"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// tables returns the tables of a connection.
func (e *Engine) tables(c *sqlite3.Conn) store.Tables {
	return store.Tables{Statements: dbfile.Statements{Conn: c, Damaged: e.logDamage}, Now: time.Now()}
}

// operations returns the operations that use the statements of the engine.
func (e *Engine) operations() store.Operations {
	return store.Operations{
		Events: make(chan struct{}, 1),
		Read: func(ctx context.Context, do func(store.Tables) error) error {
			return e.read(ctx, func(c *sqlite3.Conn) error { return do(e.tables(c)) })
		},
		// On a new connection, because the server polls its state on the reading one.
		ReadLong: func(ctx context.Context, do func(store.Tables) error) error {
			return dbfile.Read(ctx, e.path, func(c *sqlite3.Conn) error { return classify(do(e.tables(c))) })
		},
		Write: func(ctx context.Context, change func(store.Tables) error) error {
			return e.write(ctx, func() error { return change(e.tables(e.writer)) })
		},
	}
}
