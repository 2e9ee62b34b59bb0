// Package move copies a whole store into a new one of any engine while nothing else uses either of them.
//
// The new store appears by one commit, complete and compared with the old one, so a move that fails or is killed leaves
// nothing of it, and runs again from the start. Just before that commit the old store is marked as moved, and refuses
// every server from then on: at no moment both stores accept plants.
package move

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/store"
)

// Source is a store that nobody else can change until Close.
type Source interface {
	store.AuditReader

	// Tokens is as in writepath.Engine.
	Tokens(ctx context.Context) ([]auth.Token, error)

	// Webhooks is as in webhook.Outbox.
	Webhooks(ctx context.Context) ([]store.Webhook, error)

	// Plants returns all plants by ascending id. It ends with an error if a plant is damaged, or if they are not the
	// plants that the store counts. The range of a Source uses the store alone.
	Plants(ctx context.Context) iter.Seq2[store.Row, error]

	// OutboxRows returns the undelivered events, in their order, and all deliveries.
	OutboxRows(ctx context.Context) iter.Seq2[store.OutboxRow, error]

	// MovedTo returns the name of the store to which this one was moved, else "".
	MovedTo(ctx context.Context) (string, error)

	// SetMovedTo commits that name and appends the event to the audit log. With a name, no server and no command changes
	// the store any more; without, they do so again. It is the last call before Close.
	SetMovedTo(ctx context.Context, to string, event audit.Event) error

	// Close ends the use of the store, so that others can change it.
	Close() error
}

// Destination is a new store that nobody sees before Publish.
type Destination interface {
	store.AuditReader

	// Tokens is as in writepath.Engine.
	Tokens(ctx context.Context) ([]auth.Token, error)

	// Totals reads all plants.
	Totals(ctx context.Context) (store.Totals, error)

	// PutPlants stores plants. Their ids are ascending, also from one call to the next.
	PutPlants(ctx context.Context, rows []store.Row) error

	// PutTokens stores tokens with their ids.
	PutTokens(ctx context.Context, tokens []auth.Token) error

	// PutAudit stores rows of another store's audit log. They follow the newest row; in an empty log, they follow anchor,
	// the newest entry that was pruned there. The error wraps store.ErrAuditFault if they do not.
	PutAudit(ctx context.Context, anchor audit.Link, rows []audit.Row) error

	// PutWebhooks stores webhooks with their ids.
	PutWebhooks(ctx context.Context, webhooks []store.Webhook) error

	// PutOutbox adds rows to the outbox.
	PutOutbox(ctx context.Context, rows []store.OutboxRow) error

	// AppendAudit appends entries to the audit log.
	AppendAudit(ctx context.Context, events ...audit.Event) error

	// Publish makes the store appear, on stable storage. It is the last call before Close.
	Publish(ctx context.Context) error

	// Close removes the store unless it was published.
	Close() error
}

// Config is the input of Run. All fields are required.
type Config struct {
	From             Source
	OpenTo           func(context.Context) (Destination, error) // the error wraps store.ErrNotNew if there is a store
	FromName, ToName string                                     // for messages and the audit log
	By               audit.Origin                               // for the entries in the audit logs of both stores

	Progress func(plants int64) // is called after each chunk with the number of copied plants
	Compare  func()             // is called before the new store is read
}

// Result is the result of Run.
type Result struct {
	store.Totals     // equal in both stores
	Tokens       int // in each store
}

// Run moves a store. After an error, and at the end of ctx, the old store is as before, and there is no new one; the
// exception is an error of its last steps, which says so.
func Run(ctx context.Context, c Config) (r Result, err error) {
	moved, err := c.From.MovedTo(ctx)
	if err != nil {
		return r, fmt.Errorf("%s: %w", c.FromName, err)
	}
	if moved != "" && moved != c.ToName {
		return r, fmt.Errorf("%s: %w", c.FromName, store.Moved(moved))
	}
	to, err := c.OpenTo(ctx)
	if err != nil {
		if moved != "" && errors.Is(err, store.ErrNotNew) { // the earlier move is complete
			err = store.Moved(moved)
		}
		return r, err
	}
	m := &mover{Config: c, to: to}
	for _, step := range []func(context.Context) error{
		m.copyTokens, m.copyAudit, m.copyPlants, m.copyOutbox, m.compare, m.publish,
	} {
		if err = step(ctx); err != nil {
			break
		}
	}
	return m.result, errors.Join(err, to.Close())
}

// Reopen makes a store that was moved accept plants again.
func Reopen(ctx context.Context, s Source, by audit.Origin) error {
	return s.SetMovedTo(ctx, "", audit.Event{Time: time.Now(), Action: audit.StoreReopen, Origin: by})
}

// mover is one run.
type mover struct {
	Config

	to       Destination
	result   Result
	digester store.Digester
	tokens   []auth.Token // equal in both stores after copyTokens
}

func (m *mover) copyTokens(ctx context.Context) (err error) {
	if m.tokens, err = m.From.Tokens(ctx); err != nil {
		return fmt.Errorf("%s: %w", m.FromName, err)
	}
	m.result.Tokens = len(m.tokens)
	for some := range slices.Chunk(m.tokens, store.ChangeMax) {
		if err := m.to.PutTokens(ctx, some); err != nil {
			return fmt.Errorf("%s: %w", m.ToName, err)
		}
	}
	return nil
}

// copyAudit copies the audit log, and verifies it: each row has the hash of the row before it.
func (m *mover) copyAudit(ctx context.Context) error {
	ends, err := m.From.AuditEnds(ctx)
	const rowsMax = 100
	for last := ends.Anchor; err == nil; {
		var rows []audit.Row
		if rows, err = m.From.AuditRows(ctx, last.Sequence, rowsMax); err != nil {
			break
		}
		if err = m.to.PutAudit(ctx, ends.Anchor, rows); err != nil {
			return fmt.Errorf("copy the audit log: %w", err)
		}
		if len(rows) < rowsMax {
			return nil
		}
		last = rows[len(rows)-1].Link()
	}
	return fmt.Errorf("%s: %w", m.FromName, err)
}

func (m *mover) copyPlants(ctx context.Context) error {
	return copyRows(ctx, m, m.From.Plants, func(ctx context.Context, rows []store.Row) error {
		for i := range rows {
			r := &rows[i]
			m.result.Plants++
			m.result.Digests += m.digester.Plant(&r.NewPlant, r.CreatedAt, r.CreatedBy)
		}
		m.Progress(m.result.Plants)
		return m.to.PutPlants(ctx, rows)
	})
}

// copyOutbox copies the webhooks and the outbox. Claimed deliveries stay claimed for at most a minute.
func (m *mover) copyOutbox(ctx context.Context) error {
	webhooks, err := m.From.Webhooks(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", m.FromName, err)
	}
	if err := m.to.PutWebhooks(ctx, webhooks); err != nil {
		return fmt.Errorf("%s: %w", m.ToName, err)
	}
	return copyRows(ctx, m, m.From.OutboxRows, m.to.PutOutbox)
}

// copyRows calls put with the rows of the old store, at most chunkRows of them, with texts of about store.PlantsBytes.
func copyRows[T interface{ Bytes() int }](
	ctx context.Context, m *mover, all func(context.Context) iter.Seq2[T, error], put func(context.Context, []T) error,
) error {
	const chunkRows = 10_000
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	var chunk []T
	bytes := 0
	flush := func() error {
		err := put(ctx, chunk)
		if chunk, bytes = chunk[:0], 0; err != nil {
			cancel() // or the end of the range would read the rest
			return fmt.Errorf("%s: %w", m.ToName, err)
		}
		return nil
	}
	for row, err := range all(reading) {
		if err != nil {
			return fmt.Errorf("%s: %w", m.FromName, err)
		}
		chunk = append(chunk, row)
		if bytes += row.Bytes(); len(chunk) == chunkRows || bytes >= store.PlantsBytes {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

var errDifferent = errors.New("the stores differ")

// compare reads the new store and compares it with what was read of the old one.
func (m *mover) compare(ctx context.Context) error {
	m.Compare()
	tokens, errTokens := m.to.Tokens(ctx)
	from, errFrom := m.From.AuditEnds(ctx)
	to, errTo := m.to.AuditEnds(ctx)
	totals, errTotals := m.to.Totals(ctx)
	if err := errors.Join(errTokens, errFrom, errTo, errTotals); err != nil {
		return err
	}
	switch {
	case totals != m.result.Totals:
		return fmt.Errorf("%w: %s has %d plants with digest %x, and %s has %d with %x", errDifferent,
			m.FromName, m.result.Plants, m.result.Digests, m.ToName, totals.Plants, totals.Digests)
	case !slices.Equal(tokens, m.tokens):
		return fmt.Errorf("%w: %s does not have the tokens of %s", errDifferent, m.ToName, m.FromName)
	case from != to:
		return fmt.Errorf("%w: %s does not have the audit log of %s", errDifferent, m.ToName, m.FromName)
	}
	return ctx.Err()
}

// publish marks the old store, and then publishes the new one. It no longer ends with ctx.
func (m *mover) publish(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	event := audit.Event{Time: time.Now(), Action: audit.StoreMove, Origin: m.By, Details: []audit.Detail{
		{Key: "from", Value: m.FromName},
		{Key: "to", Value: m.ToName},
		{Key: "plants", Value: strconv.FormatInt(m.result.Plants, 10)},
		{Key: "tokens", Value: strconv.Itoa(m.result.Tokens)},
	}}
	if err := m.to.AppendAudit(ctx, event); err != nil {
		return fmt.Errorf("%s: %w", m.ToName, err)
	}
	err := m.From.SetMovedTo(ctx, m.ToName, event)
	if err == nil {
		err = m.to.Publish(ctx)
	}
	if err != nil {
		return fmt.Errorf("the old store may be marked as moved, and the new one may be missing: "+
			"run the same command again: %w", err)
	}
	return nil
}
