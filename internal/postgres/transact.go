package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"plantstore/internal/store"
)

// transact runs a change in a transaction that locks the row of plantstore, so that all servers run such transactions
// one after the other. now is the time of the database, which all servers share. An error means that it changed
// nothing, unless the error wraps store.ErrOutcomeUnknown.
func (e *Engine) transact(ctx context.Context, change func(tx pgx.Tx, now time.Time) error) error {
	conn, err := e.pool.Acquire(ctx)
	if err != nil {
		return classify(err)
	}
	defer conn.Release()
	committing := false // an error is the error of the COMMIT
	err = e.inTransaction(ctx, conn, func(tx pgx.Tx) error {
		var now time.Time
		if err := tx.QueryRow(ctx, "SELECT current_timestamp FROM plantstore FOR UPDATE").Scan(&now); err != nil {
			return err
		}
		err := change(tx, now)
		committing = err == nil
		return err
	})
	if err == nil {
		err = warning(conn.Conn())
	}
	if committing && (errors.Is(err, errWarned) || err != nil && effectOf(err) == unknownEffect) {
		return fmt.Errorf("%w: %w", store.ErrOutcomeUnknown, driverError{err})
	}
	return classify(err)
}

// errProbed rolls back a probe.
var errProbed = errors.New("probed")

// Probe implements writepath.Engine. A new plant may need space where the commit of another change needs none, and only
// a commit waits for a standby.
func (e *Engine) Probe(ctx context.Context) error {
	err := e.transact(ctx, func(tx pgx.Tx, now time.Time) error {
		if _, err := e.checkStandby(ctx, tx.Conn(), time.Time{}); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "INSERT INTO plants (id, name, created_at, created_by) VALUES ($1, '', $2, 0) "+
			"ON CONFLICT (id) DO NOTHING", int64(math.MinInt64), now); err != nil {
			return err
		}
		return errProbed
	})
	if !errors.Is(err, errProbed) {
		return err
	}
	return e.transact(ctx, func(pgx.Tx, time.Time) error { return nil })
}

// lockForeverSQL sets the settings of a transaction that would end it while it works, if the database has them.
const lockForeverSQL = `SELECT pg_catalog.set_config(name, '0', TRUE) FROM pg_settings
	WHERE name IN ('idle_in_transaction_session_timeout', 'statement_timeout', 'transaction_timeout')`

// beginForever begins a transaction that may take hours.
func (e *Engine) beginForever(ctx context.Context) (pgx.Tx, error) {
	return e.pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: beginSQL + e.firstStatement() + "; " + lockForeverSQL})
}

// warningKey is the key of the last warning of a cancelled wait in a connection's custom data.
const warningKey = "plantstore.warning"

// recordWarning records for the caller that waits for an answer on the connection that the wait of its COMMIT for a
// synchronous standby was cancelled: the COMMIT succeeds, but is on one machine only. Other warnings say nothing about
// durability, such as the one about transaction ids that run out. Without the name of a routine, any warning counts.
func recordWarning(c *pgconn.PgConn, n *pgconn.Notice) {
	if n.SeverityUnlocalized == "WARNING" && (n.Routine == "SyncRepWaitForLSN" || n.Routine == "") {
		c.CustomData()[warningKey] = n.Message
	}
}

// errWarned means that the answer of a transaction came with such a warning, so that its durability is unknown.
var errWarned = errors.New("the database answered a transaction with a warning")

// warning returns an error if the connection has received such a warning since the last call.
func warning(c *pgx.Conn) error {
	data := c.PgConn().CustomData()
	message, ok := data[warningKey].(string)
	delete(data, warningKey)
	if !ok {
		return nil
	}
	return fmt.Errorf("%w: %s", errWarned, message)
}
