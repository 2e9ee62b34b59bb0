package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// newPlantsSQL and freeSQL create the plants whose ids are free. The parameters are in the order of the ids, so that
// the batches of several servers wait for each other in one direction only. An ORDER BY would sort them again; in
// another order, a deadlock costs a retry.
const (
	newPlantsSQL = `INSERT INTO plants (id, name, tag, created_at, created_by)
	SELECT id, name, tag, created_at, created_by
	FROM unnest($1::bigint[], $2::text[], $3::text[], $4::timestamptz[], $5::bigint[])
		AS new (id, name, tag, created_at, created_by)`
	freeSQL = `
	ON CONFLICT (id) DO NOTHING
	RETURNING id`
)

// eventsSQL reports whether new plants get events.
const eventsSQL = "EXISTS (SELECT 1 FROM plantstore WHERE webhooks)"

// insertPlantsSQL creates plants without events. It creates none if another server has made the first webhook since
// this engine read webhookState. SetWebhooks waits for the statements that began before its change.
const insertPlantsSQL = newPlantsSQL + " WHERE NOT " + eventsSQL + freeSQL

// insertEventsSQL creates plants and their events.
const insertEventsSQL = "WITH created AS (" + newPlantsSQL + freeSQL + `, created_at),
	events AS (INSERT INTO plantstore_outbox (created_at, plant) SELECT created_at, id FROM created)
	SELECT id FROM created`

// existingSQL reads an existing plant and locks its row. The lock changes nothing in the row, but the transaction now
// writes: its COMMIT waits until everything before it, including the row, is durable, on a synchronous standby too. A
// mere SELECT would find rows that a failover removes. On Citus, a statement can lock rows of one shard only, so each
// id gets its own (https://docs.citusdata.com/en/stable/develop/reference_workarounds.html).
const existingSQL = `SELECT ` + rowColumns + ` FROM plants WHERE id = $1 FOR UPDATE`

// missingError means that a plant was not created and does not exist: insertPlantsSQL has created nothing because there
// are webhooks now, or the plant was erased after the INSERT. The next attempt creates it, but not again the plants
// that this one has created, because these may be erased by then.
type missingError struct{ created []int64 }

func (*missingError) Error() string { return "the store has webhooks now, or a plant was erased" }

// Insert implements writepath.Engine.
//
// It repeats a batch whose outcome is unknown, until it is known or ctx ends.
func (e *Engine) Insert(ctx context.Context, batch []store.Create) ([]store.Outcome, error) {
	if len(batch) == 0 {
		return nil, nil
	}
	b := sorted(batch)
	rest := b // without the plants that an attempt is known to have created
	const pauseFirst, pauseMost = 10 * time.Millisecond, 500 * time.Millisecond
	uncertain := false // an attempt may have stored the batch
	for wait := pauseFirst; ; wait = min(2*wait, pauseMost) {
		existing, effect, err := e.insert(ctx, rest)
		if err == nil {
			return b.outcomes(existing, uncertain), nil
		}
		uncertain = uncertain || effect == unknownEffect
		if missing, ok := errors.AsType[*missingError](err); ok {
			rest = rest.without(missing.created)
		}
		if !uncertain && effect == noEffect {
			return nil, classify(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		switch {
		case ctx.Err() == nil:
			e.log.Debug("repeating a commit", "plants", len(batch), "outcome_unknown", uncertain, "error", err)
		case uncertain:
			return nil, fmt.Errorf("%w: %w", store.ErrOutcomeUnknown, driverError{err})
		case errors.Is(err, ctx.Err()):
			return nil, classify(err)
		default:
			return nil, classify(errors.Join(ctx.Err(), err))
		}
	}
}

// sortedBatch is a batch by ascending id.
type sortedBatch struct {
	batch []store.Create
	order []int32 // store.OrderByID of batch

	// The parameters of newPlantsSQL. Only the first plant of each id is sent.
	ids       []int64
	names     []string
	tags      []*string
	createdAt []time.Time
	createdBy []int64
}

func sorted(batch []store.Create) *sortedBatch {
	b := &sortedBatch{batch: batch, order: store.OrderByID(nil, batch)}
	for at, i := range b.order {
		c := &batch[i]
		if at > 0 && batch[b.order[at-1]].Plant.ID == c.Plant.ID {
			continue
		}
		b.ids = append(b.ids, c.Plant.ID)
		b.names = append(b.names, c.Plant.Name)
		b.tags = append(b.tags, nullTag(c.Plant.Tag))
		b.createdAt = append(b.createdAt, c.At)
		b.createdBy = append(b.createdBy, c.By)
	}
	return b
}

// without returns the batch without some of its plants, given their ids in ascending order.
func (b *sortedBatch) without(created []int64) *sortedBatch {
	return sorted(slices.DeleteFunc(slices.Clone(b.batch), func(c store.Create) bool {
		_, ok := slices.BinarySearch(created, c.Plant.ID)
		return ok
	}))
}

// insert stores a batch and returns the existing plants, by id. If it fails, it returns its possible effect.
func (e *Engine) insert(ctx context.Context, b *sortedBatch) (map[int64]store.Row, effect, error) {
	conn, err := e.pool.Acquire(ctx)
	if err != nil {
		return nil, noEffect, err
	}
	defer conn.Release()
	checked, err := e.checkStandby(ctx, conn.Conn(), time.Time{})
	switch {
	case errors.Is(err, errNoStandby):
		return nil, noEffect, err
	case err != nil:
		return nil, retryable, err
	}
	events, err := e.writesEvents(ctx, conn)
	if err != nil {
		return nil, retryable, err
	}
	created, err := e.create(ctx, conn.Conn(), b, events)
	if err != nil {
		return nil, effectOf(err), err
	}
	if err := warning(conn.Conn()); err != nil {
		return nil, unknownEffect, err
	}
	if events && len(created) > 0 {
		e.SignalEvents()
	}
	existing := map[int64]store.Row{}
	if len(created) < len(b.ids) {
		if existing, err = e.readExisting(ctx, conn.Conn(), b.ids, created); err != nil {
			if missing, ok := errors.AsType[*missingError](err); ok {
				missing.created = created
				e.webhooks.forget()
			}
			return nil, unknownEffect, err
		}
	}
	if _, err := e.checkStandby(ctx, conn.Conn(), checked); err != nil {
		return nil, unknownEffect, err
	}
	return existing, noEffect, nil
}

// copyMin is the smallest batch for which insert tries COPY first. COPY is several times faster, but stores nothing if
// a single id exists.
const copyMin = 2000

// create creates the plants of b whose ids are free, and returns these ids. With events, it writes their events in the
// same transaction.
func (e *Engine) create(ctx context.Context, c *pgx.Conn, b *sortedBatch, events bool) (created []int64, err error) {
	if e.citus.Load() {
		return e.createOnCitus(ctx, c, b, events)
	}
	if len(b.ids) >= copyMin {
		if err = b.copy(ctx, e, c); !hasCode(err, codeUniqueViolation) {
			return b.ids, err
		}
	}
	sql := insertPlantsSQL
	if events {
		sql = insertEventsSQL
	}
	return collect(ctx, single{e, c}, pgx.RowTo[int64], sql, b.ids, b.names, b.tags, b.createdAt, b.createdBy)
}

// copy creates all plants, or none if an id exists. It reads whether they have events after the COPY, which has locked
// the table: SetWebhooks waits for the transaction.
func (b *sortedBatch) copy(ctx context.Context, e *Engine, c *pgx.Conn) error {
	return e.inTransaction(ctx, c, func(tx pgx.Tx) error {
		if err := b.copyPlants(ctx, tx); err != nil {
			return err
		}
		events := false
		if err := tx.QueryRow(ctx, "SELECT "+eventsSQL).Scan(&events); err != nil || !events {
			return err
		}
		return copyEvents(ctx, tx, b.events(b.ids))
	})
}

// events returns the rows of copyEvents for the created plants, given their ids in ascending order.
func (b *sortedBatch) events(created []int64) (rows [][]any) {
	for i, id := range b.ids {
		if _, ok := slices.BinarySearch(created, id); ok {
			rows = append(rows, []any{b.createdAt[i], id})
		}
	}
	return rows
}

// copyEvents writes events: the creation times and the ids of plants.
func copyEvents(ctx context.Context, tx pgx.Tx, rows [][]any) error {
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"plantstore_outbox"}, []string{"created_at", "plant"},
		pgx.CopyFromRows(rows))
	return err
}

func (b *sortedBatch) copyPlants(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"plants"}, []string{"id", "name", "tag", "created_at", "created_by"},
		pgx.CopyFromSlice(len(b.ids), func(i int) ([]any, error) {
			return []any{b.ids[i], b.names[i], b.tags[i], b.createdAt[i], b.createdBy[i]}, nil
		}))
	return err
}

// readExisting reads the plants that were not created, in one transaction and by ascending id, and makes sure that they
// are durable.
func (e *Engine) readExisting(ctx context.Context, c *pgx.Conn, ids, created []int64) (map[int64]store.Row, error) {
	slices.Sort(created)
	existing := map[int64]store.Row{}
	var batch pgx.Batch
	for _, id := range ids {
		if _, ok := slices.BinarySearch(created, id); ok {
			continue
		}
		batch.Queue(existingSQL, id).QueryRow(func(found pgx.Row) error {
			r, err := scanRow(found)
			if errors.Is(err, pgx.ErrNoRows) {
				return &missingError{}
			}
			existing[r.ID] = r
			return err
		})
	}
	err := single{e, c}.SendBatch(ctx, &batch).Close() // sends all statements at once, and waits for their COMMIT
	if err == nil {
		err = warning(c)
	}
	return existing, err
}

// outcomes returns the outcome of each plant of the batch, given the existing plants by id. If uncertain is set, an
// earlier attempt may have stored the batch: an existing plant that equals its Create was created by that attempt.
func (b *sortedBatch) outcomes(existing map[int64]store.Row, uncertain bool) []store.Outcome {
	outcomes := make([]store.Outcome, len(b.batch))
	var first *store.Create // first one with the same id
	for _, i := range b.order {
		c := &b.batch[i]
		again := first != nil && first.Plant.ID == c.Plant.ID
		if !again {
			first = c
		}
		stored := first.Plant.Plant
		r, found := existing[c.Plant.ID]
		if found {
			stored = r.Plant
		}
		if again || found && !(uncertain && equal(&r, c)) {
			conflict := plant.Differences(c.Plant.Plant, stored)
			outcomes[i] = store.Outcome{Replayed: conflict == nil, Conflict: conflict}
		}
	}
	return outcomes
}

// equal reports whether c creates exactly the row r.
func equal(r *store.Row, c *store.Create) bool {
	return r.CreatedAt.UnixMicro() == c.At.UnixMicro() && r.CreatedBy == c.By && r.NewPlant == c.Plant
}
