package sqlite

import (
	"context"

	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// statements implements store.Reader; on the writing connection, in a transaction, it also implements store.Tx and
// store.Deliveries.
type statements struct {
	engine *Engine
	conn   *sqlite3.Conn
}

// tx returns the statements of the current transaction.
func (e *Engine) tx() statements { return statements{e, e.writer} }

// operations returns the operations that use the statements of the engine.
func (e *Engine) operations() store.Operations {
	return store.Operations{
		Events: make(chan struct{}, 1),
		Read: func(ctx context.Context, do func(store.Reader) error) error {
			return e.read(ctx, func(c *sqlite3.Conn) error { return do(statements{e, c}) })
		},
		Write: func(ctx context.Context, change func(store.Tx) error) error {
			return e.write(ctx, func() error { return change(e.tx()) })
		},
	}
}
