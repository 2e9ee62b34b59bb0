package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// insertSQL creates what is not there. It is in the order of the ids, so that
// the batches of several servers wait for each other in one direction only.
const insertSQL = `INSERT INTO plants (id, name, tag, created_at, created_by)
	SELECT id, name, tag, created_at, created_by
	FROM unnest($1::bigint[], $2::text[], $3::text[], $4::timestamptz[], $5::bigint[]) AS new (id, name, tag, created_at, created_by)
	ORDER BY id
	ON CONFLICT (id) DO NOTHING
	RETURNING id`

// thereSQL reads a plant that was there. It locks the row, which changes nothing
// in it but makes a transaction that writes: its COMMIT waits until everything
// before it is durable, on a synchronous standby as well, and so is the row that
// it found. A mere SELECT would find rows that a failover takes away. Citus locks
// the rows of one shard only in a statement, so each id has its own
// (https://docs.citusdata.com/en/stable/develop/reference_workarounds.html).
const thereSQL = `SELECT id, name, tag, created_at, created_by FROM plants WHERE id = $1 FOR UPDATE`

// errGone means that a row was there and then was not, which no Plant Store
// does. The next attempt creates it.
var errGone = errors.New("a plant was deleted by somebody else")

// Insert implements store.Engine.
//
// A batch of which it does not know whether it was stored it stores again,
// until it knows or ctx ends.
func (e *Engine) Insert(ctx context.Context, batch []store.Create) ([]store.Outcome, error) {
	if len(batch) == 0 {
		return nil, nil
	}
	b := sorted(batch)
	const pauseFirst, pauseMost = 10 * time.Millisecond, 500 * time.Millisecond
	doubt := false
	for wait := pauseFirst; ; wait = min(2*wait, pauseMost) {
		there, what, err := e.insert(ctx, b)
		if err == nil {
			return b.outcomes(there, doubt), nil
		}
		doubt = doubt || what == unknown
		if !doubt && what == nothing {
			return nil, classify(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		switch {
		case ctx.Err() == nil:
			e.log.Debug("repeating a commit", "plants", len(batch), "outcome unknown", doubt, "error", err)
		case doubt:
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

	ids       []int64 // of the first of each id, as are those below: what is sent
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
		b.tags = append(b.tags, pointer(c.Plant.Tag))
		b.createdAt = append(b.createdAt, c.At)
		b.createdBy = append(b.createdBy, c.By)
	}
	return b
}

// pointer returns nil for no tag.
func pointer(tag plant.Tag) *string {
	text, ok := tag.Get()
	if !ok {
		return nil
	}
	return &text
}

func tagOf(text *string) plant.Tag {
	if text == nil {
		return plant.Tag{}
	}
	return plant.Tagged(*text)
}

// insert stores a batch and returns the plants that it did not create, by id, or
// tells what it may have done.
func (e *Engine) insert(ctx context.Context, b *sortedBatch) (map[int64]row, effect, error) {
	conn, err := e.pool.Acquire(ctx)
	if err != nil {
		return nil, nothing, err
	}
	defer conn.Release()
	switch err := e.standby(ctx, conn.Conn()); {
	case errors.Is(err, errNoStandby):
		return nil, nothing, err
	case err != nil:
		return nil, again, err
	}
	created, err := b.create(ctx, conn.Conn())
	if err != nil {
		return nil, effectOf(err), err
	}
	if err := warning(conn.Conn()); err != nil {
		return nil, unknown, err
	}
	there := map[int64]row{}
	if len(created) < len(b.ids) {
		if there, err = e.there(ctx, conn.Conn(), b.ids, created); err != nil {
			return nil, unknown, err
		}
	}
	if err := e.standby(ctx, conn.Conn()); err != nil {
		return nil, unknown, err
	}
	return there, nothing, nil
}

// copyMin is from how many plants on COPY is worth trying: it is several times
// faster, but stores nothing if a single one is there already.
const copyMin = 2000

// create creates what is not there, and returns the ids of that.
func (b *sortedBatch) create(ctx context.Context, c *pgx.Conn) (created []int64, err error) {
	if len(b.ids) >= copyMin {
		_, err = c.CopyFrom(ctx, pgx.Identifier{"plants"}, []string{"id", "name", "tag", "created_at", "created_by"},
			pgx.CopyFromSlice(len(b.ids), func(i int) ([]any, error) {
				return []any{b.ids[i], b.names[i], b.tags[i], b.createdAt[i], b.createdBy[i]}, nil
			}))
		var said *pgconn.PgError
		if !errors.As(err, &said) || said.Code != "23505" { // unique_violation
			return b.ids, err
		}
	}
	rows, _ := c.Query(ctx, insertSQL, b.ids, b.names, b.tags, b.createdAt, b.createdBy) // the error comes with the rows
	return pgx.CollectRows(rows, pgx.RowTo[int64])
}

// row is a plant as the table has it.
type row struct {
	ID        int64
	Name      string
	Tag       *string
	CreatedAt time.Time
	CreatedBy int64
}

func (r row) plant() plant.Plant { return plant.Plant{Name: r.Name, Tag: tagOf(r.Tag)} }

// madeBy reports whether a create would have made exactly this row.
func (r row) madeBy(c *store.Create) bool {
	return r.CreatedAt.UnixMicro() == c.At.UnixMicro() && r.CreatedBy == c.By && r.plant() == c.Plant.Plant
}

// there reads the plants that were not created, in one transaction and by
// ascending id, and makes sure that they are durable.
func (e *Engine) there(ctx context.Context, c *pgx.Conn, ids, created []int64) (map[int64]row, error) {
	slices.Sort(created)
	there := map[int64]row{}
	var batch pgx.Batch
	for _, id := range ids {
		if _, ok := slices.BinarySearch(created, id); ok {
			continue
		}
		batch.Queue(thereSQL, id).QueryRow(func(found pgx.Row) error {
			var r row
			err := found.Scan(&r.ID, &r.Name, &r.Tag, &r.CreatedAt, &r.CreatedBy)
			if errors.Is(err, pgx.ErrNoRows) {
				return errGone
			}
			there[r.ID] = r
			return err
		})
	}
	err := c.SendBatch(ctx, &batch).Close() // sends all at once, and waits for their COMMIT
	if err == nil {
		err = warning(c)
	}
	return there, err
}

// outcomes returns the outcome of each plant of the batch, given the stored plants
// that were not created, by id. With doubt, an attempt before may have stored the
// batch: it made a plant that is there as this very create would have made it.
func (b *sortedBatch) outcomes(there map[int64]row, doubt bool) []store.Outcome {
	outcomes := make([]store.Outcome, len(b.batch))
	var first *store.Create // of those with the same id
	for _, i := range b.order {
		c := &b.batch[i]
		again := first != nil && first.Plant.ID == c.Plant.ID
		if !again {
			first = c
		}
		stored := first.Plant.Plant
		r, found := there[c.Plant.ID]
		if found {
			stored = r.plant()
		}
		if again || found && !(doubt && r.madeBy(c)) {
			conflict := plant.Differences(c.Plant.Plant, stored)
			outcomes[i] = store.Outcome{Replayed: conflict == nil, Conflict: conflict}
		}
	}
	return outcomes
}
