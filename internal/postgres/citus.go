package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Citus distributes the table plants over shards on several workers. It routes the rows of COPY and of VALUES to their
// shards, but writes the rows of a SELECT to files on every worker first, which takes 20 times as long.

// citusSQL finds the extension Citus. With it, statements of the session use one connection to each worker. By default
// they use one for each shard, and a COMMIT prepares a transaction on every one of them.
const citusSQL = `SELECT pg_catalog.set_config('citus.multi_shard_modify_mode', 'sequential', FALSE)
	FROM pg_extension WHERE extname = 'citus'`

// prepareCitus prepares a new connection for Citus, if the database has it.
func (e *Engine) prepareCitus(ctx context.Context, c *pgx.Conn) error {
	tag, err := c.Exec(ctx, citusSQL)
	if err == nil {
		e.citus.Store(tag.RowsAffected() > 0)
	}
	return err
}

// valuesMax is the largest number of rows of insertValuesSQL. Each connection prepares at most ten of these statements.
const valuesMax = 512

// insertValuesSQL is insertPlantsSQL for that number of plants, for Citus.
func insertValuesSQL(rows int) string {
	values := make([]string, rows)
	for i := range values {
		n := i * plantColumns
		values[i] = fmt.Sprintf("($%d, $%d, $%d, $%d, $%d)", n+1, n+2, n+3, n+4, n+5)
	}
	return "INSERT INTO plants (id, name, tag, created_at, created_by) VALUES " + strings.Join(values, ", ") +
		" ON CONFLICT (id) DO NOTHING RETURNING id"
}

const plantColumns = 5

// copyPause is the number of batches that create does not try to COPY after a COPY has failed: a client that repeats
// many plants would cost a failed COPY for each batch.
const copyPause = 64

// createOnCitus is create with the statements that Citus routes. It tries COPY first, which takes a third of the
// processor time of VALUES, unless the batch is one plant, for which VALUES needs one worker and no two-phase commit.
func (e *Engine) createOnCitus(
	ctx context.Context, c *pgx.Conn, b *sortedBatch, events bool,
) (created []int64, err error) {
	if len(b.ids) > 1 && e.copyPause.Add(-1) < 0 {
		copied, err := b.copyOnCitus(ctx, e, c, events)
		if copied || err != nil {
			return b.ids, err
		}
		e.copyPause.Store(copyPause)
	}
	created, err = b.createByValues(ctx, e, c, events)
	return created, workerError(err)
}

// copyOnCitus creates all plants, or returns false if an id may exist. Citus returns no code for that, but an error
// before the COMMIT stored nothing.
func (b *sortedBatch) copyOnCitus(ctx context.Context, e *Engine, c *pgx.Conn, events bool) (copied bool, err error) {
	started := false // the COPY of the plants has succeeded
	err = e.inTransaction(ctx, c, func(tx pgx.Tx) error {
		if err := b.copyPlants(ctx, tx); err != nil {
			return err
		}
		started = true
		if !events {
			return nil
		}
		return copyEvents(ctx, tx, b.events(b.ids))
	})
	if !started && (hasCode(err, codeUniqueViolation) || hasCode(err, codeInternal)) {
		return false, nil
	}
	return err == nil, workerError(err)
}

// errWorker means that a statement failed on a worker of Citus, perhaps after the worker stored the batch. Citus does
// not return the worker's code.
var errWorker = errors.New("a worker of the database failed")

// workerError wraps an error with Citus's code for errors of a worker in errWorker.
func workerError(err error) error {
	if hasCode(err, codeInternal) {
		return fmt.Errorf("%w: %w", errWorker, err)
	}
	return err
}

// createByValues is create with insertValuesSQL.
func (b *sortedBatch) createByValues(
	ctx context.Context, e *Engine, c *pgx.Conn, events bool,
) (created []int64, err error) {
	if !events && len(b.ids) <= valuesMax {
		return b.insertValues(ctx, single{e, c}, 0, len(b.ids))
	}
	err = e.inTransaction(ctx, c, func(tx pgx.Tx) error {
		for from := 0; from < len(b.ids); from += valuesMax {
			some, err := b.insertValues(ctx, tx, from, min(from+valuesMax, len(b.ids)))
			if err != nil {
				return err
			}
			created = append(created, some...)
		}
		if !events || len(created) == 0 {
			return nil
		}
		slices.Sort(created)
		return copyEvents(ctx, tx, b.events(created))
	})
	return created, err
}

// insertValues creates the plants from one index up to another, at most valuesMax of them. It repeats the last plant
// until their number is a power of two: a repeated id is not free.
func (b *sortedBatch) insertValues(ctx context.Context, to querier, from, end int) ([]int64, error) {
	rows := 1 << bits.Len(uint(end-from-1))
	args := make([]any, 0, rows*plantColumns)
	for i := from; i < from+rows; i++ {
		at := min(i, end-1)
		args = append(args, b.ids[at], b.names[at], b.tags[at], b.createdAt[at], b.createdBy[at])
	}
	return collect(ctx, to, pgx.RowTo[int64], insertValuesSQL(rows), args...)
}
