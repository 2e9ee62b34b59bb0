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

// transact runs a change in a transaction that locks the row of plantstore, so that
// all servers run such transactions one after the other. An error means that
// it changed nothing, unless the error wraps store.ErrOutcomeUnknown.
func (e *Engine) transact(ctx context.Context, change func(pgx.Tx) error) error {
	conn, err := e.pool.Acquire(ctx)
	if err != nil {
		return classify(err)
	}
	defer conn.Release()
	committing := false // an error is the error of the COMMIT
	err = e.inTransaction(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT one FROM plantstore FOR UPDATE"); err != nil {
			return err
		}
		err := change(tx)
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

// Probe implements writepath.Engine. A new plant may need space where the commit of another change needs
// none, and only a commit waits for a standby.
func (e *Engine) Probe(ctx context.Context) error {
	err := e.transact(ctx, func(tx pgx.Tx) error {
		if _, err := e.checkStandby(ctx, tx.Conn(), time.Time{}); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "INSERT INTO plants (id, name, created_at, created_by) VALUES ($1, '', $2, 0) "+
			"ON CONFLICT (id) DO NOTHING", int64(math.MinInt64), time.Now()); err != nil {
			return err
		}
		return errProbed
	})
	if !errors.Is(err, errProbed) {
		return err
	}
	return e.transact(ctx, func(pgx.Tx) error { return nil })
}

// lockTimeout bounds the wait for a lock on the table plants: later statements wait
// behind a statement that waits for its lock.
const lockTimeout = "SET LOCAL lock_timeout = '1s'; "

// lockPlants waits until no transaction writes plants, and blocks writes until the
// transaction ends. It refuses a role that may not move the store.
func (e *Engine) lockPlants(ctx context.Context, tx pgx.Tx) error {
	if err := e.checkMover(ctx, tx); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, lockTimeout+"LOCK TABLE plants IN SHARE ROW EXCLUSIVE MODE")
	return err
}

// transactLocked is transact for a change that calls lockPlants. It retries after
// lockTimeout, with pauses in which the statements that wait behind it run.
func (e *Engine) transactLocked(ctx context.Context, change func(pgx.Tx) error) error {
	const tries = 20
	for try := 1; ; try++ {
		err := e.transact(ctx, change)
		if !hasCode(err, codeLockNotAvailable) {
			return err
		}
		if try == tries {
			return fmt.Errorf("another transaction locks the table plants for long, as a vacuum or CREATE INDEX does; "+
				"wait for its end: %w", err)
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
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

// errWarned means that the answer of a transaction came with such a warning, so that its
// durability is unknown.
var errWarned = errors.New("the database answered a transaction with a warning")

// warning returns an error if the connection has received such a warning since the
// last call.
func warning(c *pgx.Conn) error {
	data := c.PgConn().CustomData()
	message, ok := data[warningKey].(string)
	delete(data, warningKey)
	if !ok {
		return nil
	}
	return fmt.Errorf("%w: %s", errWarned, message)
}
