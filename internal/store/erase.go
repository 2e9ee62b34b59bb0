package store

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"plantstore/internal/audit"
)

// A stored plant changes only by an operator, who erases it, or corrects it: that is, erases it and creates it with
// other content in one transaction. In the same transaction the deliveries of its earlier content are replaced by one
// about the change, and the audit log gets an entry with the ids and without the content.

// Version is a stored plant as somebody has read it. A plant that was erased and created again is another one.
type Version struct {
	ID        int64
	CreatedAt time.Time // to the microsecond
	CreatedBy int64     // as in Create
}

// VersionOf returns the version of a row.
func VersionOf(r Row) Version { return Version{r.ID, r.CreatedAt, r.CreatedBy} }

// Erase implements admin.Engine.
func (o *Operations) Erase(
	ctx context.Context, plants []Version, reason string, by audit.Origin,
) (erased int64, err error) {
	err = o.Write(ctx, func(tx Tables) error {
		ids, err := tx.DeletePlants(plants)
		if err != nil || len(ids) == 0 {
			return err
		}
		erased = int64(len(ids))
		if err := tx.replaceDeliveries(ids, tx.Now, true); err != nil {
			return err
		}
		return tx.AppendAudit(plantsChanged(audit.PlantsErase, ids, reason, by))
	})
	if err != nil {
		return 0, err
	}
	o.SignalEvents()
	return erased, nil
}

// Correct implements admin.Engine.
func (o *Operations) Correct(ctx context.Context, old Version, c Create, reason string, by audit.Origin) error {
	err := o.Write(ctx, func(tx Tables) error {
		ids, err := tx.DeletePlants([]Version{old})
		if err == nil && len(ids) == 0 {
			err = ErrNotFound
		}
		if err == nil {
			err = tx.InsertPlant(c)
		}
		if err == nil {
			err = tx.replaceDeliveries(ids, c.At, false)
		}
		if err != nil {
			return err
		}
		return tx.AppendAudit(plantsChanged(audit.PlantsCorrect, ids, reason, by))
	})
	if err == nil {
		o.SignalEvents()
	}
	return err
}

// replaceDeliveries replaces the events and deliveries of plants by deliveries to the active webhooks. The deletion
// from the outbox waits for a FanOut of the same events, so that none of its deliveries comes later.
func (t Tables) replaceDeliveries(ids []int64, since time.Time, erased bool) error {
	each := make([][]any, len(ids))
	upserts := make([][]any, len(ids))
	for i, id := range ids {
		each[i], upserts[i] = []any{id}, []any{id, since, t.Now, erased, t.Now.Add(ClaimMax)}
	}
	for _, change := range []struct {
		sql  string
		args [][]any
	}{
		{"DELETE FROM plantstore_outbox WHERE plant = $1", each},
		{"DELETE FROM plantstore_deliveries WHERE plant = $1 " +
			"AND webhook IN (SELECT id FROM plantstore_webhooks WHERE NOT active)", each},
		{`INSERT INTO plantstore_deliveries (webhook, plant, since, due_at, attempts, erased)
			SELECT id, $1, $2, $3, 0, $4 FROM plantstore_webhooks WHERE active
			ON CONFLICT (webhook, plant) DO UPDATE SET since = excluded.since, ` + DueAfterClaim("$5") + `,
				dead_at = NULL, attempts = 0, reason = NULL, erased = excluded.erased`, upserts},
	} {
		if _, err := t.ExecEach(change.sql, change.args); err != nil {
			return err
		}
	}
	return nil
}

// plantsChanged returns the event of an erasure or a correction. Its details have all ids, in parts that no detail is
// too short for.
func plantsChanged(action audit.Action, ids []int64, reason string, by audit.Origin) audit.Event {
	details := []audit.Detail{{Key: "plants", Value: strconv.Itoa(len(ids))}}
	if reason != "" {
		details = append(details, audit.Detail{Key: "reason", Value: reason})
	}
	var part strings.Builder
	parts := 0
	end := func() {
		parts++
		details = append(details, audit.Detail{Key: fmt.Sprintf("ids_%d", parts), Value: part.String()})
		part.Reset()
	}
	for _, id := range ids {
		text := strconv.FormatInt(id, 10)
		if part.Len()+len(" ")+len(text) > audit.ValueBytesMax {
			end()
		}
		if part.Len() > 0 {
			part.WriteByte(' ')
		}
		part.WriteString(text)
	}
	end()
	return audit.Event{Time: time.Now(), Action: action, Origin: by, Details: details}
}
