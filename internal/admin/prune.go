package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/store"
)

// PruneAudit removes the oldest entries up to the first one that is not before a time, in batches, and returns their
// number.
func PruneAudit(
	ctx context.Context, engine Engine, before time.Time, by audit.Origin,
) (removed int64, err error) {
	for {
		ends, err := engine.AuditEnds(ctx)
		if err != nil {
			return removed, err
		}
		rows, err := engine.AuditRows(ctx, ends.Anchor.Sequence, store.ChangeMax)
		if err != nil {
			return removed, err
		}
		n, err := olderRows(ends.Anchor, rows, before)
		if err != nil {
			if now, errEnds := engine.AuditEnds(ctx); errEnds == nil && now.Anchor != ends.Anchor {
				continue // another server has pruned between the two reads
			}
		}
		if err != nil || n == 0 {
			return removed, err
		}
		more, err := engine.PruneAudit(ctx, rows[n-1].Link(), by)
		removed += more
		if err != nil {
			return removed, err
		}
	}
}

// olderRows returns the number of rows before the first one that is not before a time, and fewer if their texts exceed
// store.PlantsBytes. The rows follow an entry. It returns an error for a damaged row, because verify could not detect
// the damage after the row is removed.
func olderRows(last audit.Link, rows []audit.Row, before time.Time) (n int, err error) {
	bytes := 0
	for _, row := range rows {
		if err := row.Follows(last); err != nil {
			return 0, fmt.Errorf("%w: %w", store.ErrAuditFault, err)
		}
		last = row.Link()
		e, err := row.Entry()
		if err != nil {
			return 0, err
		}
		if bytes += len(row.Text); !e.Time.Before(before) || n > 0 && bytes > store.PlantsBytes {
			break
		}
		n++
	}
	return n, nil
}

// PruneSubjects removes the subjects that are not in use for a time, in batches, and returns their number.
func PruneSubjects(
	ctx context.Context, engine Engine, unused time.Duration, by audit.Origin,
) (removed int, err error) {
	now := time.Now().UTC().Truncate(time.Microsecond)
	for {
		some, err := engine.PruneSubjects(ctx, store.SubjectPrune{
			UnusedSince: now.Add(-unused), At: now, Limit: store.ChangeMax,
		}, by)
		if errors.Is(err, store.ErrNotFound) {
			return removed, nil
		}
		if err != nil {
			return removed, err
		}
		removed += len(some)
	}
}
