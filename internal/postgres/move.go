package postgres

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"plantstore/internal/audit"
	"plantstore/internal/store"
)

// Move is a store at one end of a move: one transaction. Nobody else can use the store that is copied until the
// transaction ends, and nobody sees a plant of the new store before its COMMIT. So a killed move changes neither.
//
// A server that does not answer while the move looks for servers, and answers later, waits for the lock of the tables.
// After the move, the constraint of movedSQL refuses its plants and its other changes.
//
// Move implements move.Source and move.Destination.
type Move struct {
	store.Operations // in the transaction

	engine *Engine
	tx     pgx.Tx
}

// OpenSource opens a store to copy it. The error wraps store.ErrInUse if a server or a command uses it, and
// store.ErrMoveRunning if another move does. Of c it uses only the URL and the log.
func OpenSource(ctx context.Context, c Config) (*Move, error) {
	return openMove(ctx, Config{URL: c.URL, Log: c.Log, MustExist: true}, (*Move).lockSource)
}

// OpenDestination opens a new store to fill it, and creates its tables if there are none. The error wraps
// store.ErrNotNew if it has content. Of c it uses only the URL and the log.
func OpenDestination(ctx context.Context, c Config) (*Move, error) {
	return openMove(ctx, Config{URL: c.URL, Log: c.Log}, (*Move).lockDestination)
}

func openMove(ctx context.Context, c Config, lock func(*Move, context.Context) error) (*Move, error) {
	c.move = true
	e, err := Open(ctx, c)
	if err != nil {
		return nil, err
	}
	m := &Move{engine: e}
	if m.tx, err = e.beginForever(ctx); err == nil {
		err = lock(m, ctx)
	}
	if err != nil {
		_ = m.Close() // err is the cause
		return nil, classify(err)
	}
	m.Operations = store.Operations{
		Read: func(ctx context.Context, do func(store.Tables) error) error {
			return classify(do(m.tables(ctx)))
		},
		Write: func(ctx context.Context, change func(store.Tables) error) error {
			return classify(change(m.tables(ctx)))
		},
	}
	return m, nil
}

func (m *Move) tables(ctx context.Context) store.Tables {
	return store.Tables{Statements: statements{ctx, m.tx}}
}

// lockTimeout bounds the wait for a lock on a table of the store.
const lockTimeout = "SET LOCAL lock_timeout = '3s'; "

// moveRunning returns an error that wraps store.ErrMoveRunning after lockTimeout.
func moveRunning(err error) error {
	if !hasCode(err, codeLockNotAvailable) {
		return err
	}
	return fmt.Errorf("%w, or another session locks its tables, as a dump or CREATE INDEX does: wait for its end: %w",
		store.ErrMoveRunning, err)
}

// lockSource locks the store, and looks for servers: they poll the store four times a second, so one of their
// sessions waits for the lock.
func (m *Move) lockSource(ctx context.Context) error {
	if err := m.engine.checkMover(ctx, m.tx); err != nil {
		return err
	}
	const lock = "LOCK TABLE plants, plantstore IN ACCESS EXCLUSIVE MODE" // a create locks them in this order
	_, err := m.tx.Exec(ctx, lockTimeout+lock)
	if hasCode(err, codeDeadlock) { // a delivery of events locks them in another order
		return fmt.Errorf("a server uses the store: %w: %w", store.ErrInUse, err)
	}
	if err != nil {
		return moveRunning(err)
	}
	const waitingSQL = `SELECT pg_catalog.count(relation) FROM pg_locks
		WHERE relation IN ('plantstore'::regclass::oid, 'plants'::regclass::oid) AND NOT granted
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`
	const look, pause = time.Second, 50 * time.Millisecond
	for started := time.Now(); time.Since(started) < look; {
		var waiting int
		if err := m.tx.QueryRow(ctx, waitingSQL).Scan(&waiting); err != nil {
			return err
		}
		if waiting > 0 {
			return fmt.Errorf("other sessions use the store, now %d: %w", waiting, store.ErrInUse)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// lockDestination locks the row that every server changes when it starts. It locks no table, which not every database
// supports.
func (m *Move) lockDestination(ctx context.Context) error {
	if _, err := m.tx.Exec(ctx, lockTimeout+"SELECT one FROM plantstore FOR UPDATE"); err != nil {
		return moveRunning(err)
	}
	var content string
	err := m.tx.QueryRow(ctx, `SELECT CASE WHEN EXISTS (SELECT 1 FROM plants) THEN 'plants'
		WHEN EXISTS (SELECT 1 FROM tokens) THEN 'tokens'
		WHEN audit_sequence IS NOT NULL THEN 'an audit log' ELSE '' END FROM plantstore`).Scan(&content)
	if err == nil && content != "" {
		err = fmt.Errorf("the database has %s: %w", content, store.ErrNotNew)
	}
	return err
}

// MovedTo implements move.Source.
func (m *Move) MovedTo(ctx context.Context) (to string, err error) {
	err = m.tx.QueryRow(ctx, movedToSQL).Scan(&to)
	return to, classify(err)
}

// movedSQL and reopenSQL add and remove a constraint that no new row meets, and no existing one is checked for.
const (
	movedSQL = "ALTER TABLE plants ADD CONSTRAINT plantstore_moved CHECK (FALSE) NOT VALID; " +
		"ALTER TABLE plantstore ADD CONSTRAINT plantstore_moved CHECK (FALSE) NOT VALID"
	reopenSQL = "ALTER TABLE plants DROP CONSTRAINT IF EXISTS plantstore_moved; " +
		"ALTER TABLE plantstore DROP CONSTRAINT IF EXISTS plantstore_moved"
)

// SetMovedTo implements move.Source. It ends the transaction.
func (m *Move) SetMovedTo(ctx context.Context, to string, event audit.Event) error {
	_, err := m.tx.Exec(ctx, reopenSQL)
	if err == nil {
		_, err = m.tx.Exec(ctx, "UPDATE plantstore SET moved_to = $1", nullText(to))
	}
	if err == nil {
		err = m.tables(ctx).AppendAudit(event)
	}
	if err == nil && to != "" {
		_, err = m.tx.Exec(ctx, movedSQL)
	}
	if err != nil {
		return classify(err)
	}
	return m.Publish(ctx)
}

// Publish implements move.Destination.
func (m *Move) Publish(ctx context.Context) error {
	conn := m.tx.Conn()
	err := m.tx.Commit(ctx)
	if err == nil {
		err = warning(conn)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", store.ErrOutcomeUnknown, driverError{err})
	}
	return nil
}

// Close ends the transaction, which undoes it unless it was committed, and the use of the store.
func (m *Move) Close() error {
	if m.tx != nil {
		ctx, cancel := context.WithTimeout(context.Background(), pingTime)
		defer cancel()
		_ = m.tx.Rollback(ctx) // if it fails, it closes the connection, and the database undoes the transaction
	}
	return m.engine.Close()
}

// Plants implements move.Source.
func (m *Move) Plants(ctx context.Context) iter.Seq2[store.Row, error] {
	return moveRows(ctx, m.tx, scanRow, "SELECT "+rowColumns+" FROM plants ORDER BY id")
}

// Totals implements move.Destination.
func (m *Move) Totals(ctx context.Context) (store.Totals, error) {
	return store.Sum(moveRows(ctx, m.tx, scanRow, "SELECT "+rowColumns+" FROM plants"))
}

// OutboxRows implements move.Source.
func (m *Move) OutboxRows(ctx context.Context) iter.Seq2[store.OutboxRow, error] {
	return moveRows(ctx, m.tx, func(r pgx.Row) (o store.OutboxRow, err error) {
		err = r.Scan(&o.Webhook, &o.Plant, &o.Since, (*nullTime)(&o.DueAt), (*nullTime)(&o.DeadAt), &o.Attempts,
			(*nullText)(&o.Reason), &o.Erased)
		return o, err
	}, `SELECT webhook, plant, since, due_at, dead_at, attempts, reason, erased FROM plantstore_deliveries
		UNION ALL SELECT 0, plant, created_at, NULL, NULL, 0, NULL, FALSE FROM plantstore_outbox ORDER BY since, plant`)
}

// moveRows returns the rows of a query while it runs.
func moveRows[T any](
	ctx context.Context, q querier, scan func(pgx.Row) (T, error), sql string,
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		rows, _ := q.Query(ctx, sql) // Err returns the error
		defer rows.Close()
		for rows.Next() {
			if row, err := scan(rows); !yield(row, classify(err)) || err != nil {
				return
			}
		}
		if err := rows.Err(); err != nil {
			var none T
			yield(none, classify(err))
		}
	}
}

// PutPlants implements move.Destination.
func (m *Move) PutPlants(ctx context.Context, rows []store.Row) error {
	return m.copy(ctx, "plants", []string{"id", "name", "tag", "created_at", "created_by"}, len(rows),
		func(i int) []any {
			r := &rows[i]
			return []any{r.ID, r.Name, nullTag(r.Tag), r.CreatedAt, r.CreatedBy}
		})
}

// PutOutbox implements move.Destination.
func (m *Move) PutOutbox(ctx context.Context, rows []store.OutboxRow) error {
	var events, deliveries []store.OutboxRow
	for _, r := range rows {
		if r.Webhook == 0 {
			events = append(events, r)
		} else {
			deliveries = append(deliveries, r)
		}
	}
	err := m.copy(ctx, "plantstore_outbox", []string{"created_at", "plant"}, len(events), func(i int) []any {
		return []any{events[i].Since, events[i].Plant}
	})
	if err != nil {
		return err
	}
	return m.copy(ctx, "plantstore_deliveries",
		[]string{"webhook", "plant", "since", "due_at", "dead_at", "attempts", "reason", "erased"}, len(deliveries),
		func(i int) []any {
			r := &deliveries[i]
			return []any{
				r.Webhook, r.Plant, r.Since, nullTime(r.DueAt), nullTime(r.DeadAt), r.Attempts, nullText(r.Reason), r.Erased,
			}
		})
}

// copy adds n rows to a table.
func (m *Move) copy(ctx context.Context, table string, columns []string, n int, row func(i int) []any) error {
	_, err := m.tx.CopyFrom(ctx, pgx.Identifier{table}, columns,
		pgx.CopyFromSlice(n, func(i int) ([]any, error) { return row(i), nil }))
	return classify(err)
}
