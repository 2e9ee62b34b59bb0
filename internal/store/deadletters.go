package store

import (
	"context"
	"math"
	"slices"
	"time"

	"plantstore/internal/audit"
)

// EndDeliveries implements webhook.Outbox.
func (o *Operations) EndDeliveries(ctx context.Context) (ended int64, err error) {
	removed := func(w Webhook) bool { return !w.Active }
	all, err := o.Webhooks(ctx)
	if err != nil || !slices.ContainsFunc(all, removed) {
		return 0, err
	}
	err = o.Write(ctx, func(tx Tables) (err error) {
		ended, err = tx.changeDeliveries(removed, func(webhook int64, most int) (int64, error) {
			return tx.Exec(`UPDATE plantstore_deliveries SET due_at = NULL, dead_at = $3, reason = $4
				WHERE webhook = $1 AND plant IN (SELECT plant FROM plantstore_deliveries
					WHERE webhook = $1 AND due_at IS NOT NULL ORDER BY due_at LIMIT $2)`,
				webhook, most, tx.Now, ReasonRemoved)
		})
		return err
	})
	return ended, err
}

// DeadLetters implements admin.Engine.
func (o *Operations) DeadLetters(ctx context.Context, page DeadPage) (letters []DeadLetter, err error) {
	err = o.Read(ctx, func(t Tables) error {
		all, err := t.webhooks()
		if err != nil {
			return err
		}
		for _, w := range all {
			from := int64(math.MinInt64)
			switch {
			case w.ID < page.Webhook, w.ID == page.Webhook && page.Plant == math.MaxInt64:
				continue
			case w.ID == page.Webhook:
				from = page.Plant + 1
			}
			some, err := t.deadLetters(w, from, page.Limit-len(letters))
			if letters = append(letters, some...); err != nil || len(letters) == page.Limit {
				return err
			}
		}
		return nil
	})
	return letters, err
}

// deadLetters returns dead letters of a webhook by ascending id of the plant, from an id on. The subquery makes SQLite
// read the index by due_at: the primary key also has the pending deliveries.
func (t Tables) deadLetters(w Webhook, from int64, most int) ([]DeadLetter, error) {
	return collect(t, func(scan Scan) (DeadLetter, error) {
		d := DeadLetter{Webhook: w.ID, URL: w.URL}
		err := scan(&d.Plant, &d.Since, &d.DeadAt, &d.Attempts, &d.Reason)
		return d, err
	}, `SELECT plant, since, dead_at, attempts, reason FROM plantstore_deliveries
		WHERE webhook = $1 AND plant IN (SELECT plant FROM plantstore_deliveries
			WHERE webhook = $1 AND due_at IS NULL AND plant >= $2 ORDER BY plant LIMIT $3) ORDER BY plant`,
		w.ID, from, most)
}

// deadSQL selects dead letters of a webhook. The order makes PostgreSQL read the index by due_at.
const deadSQL = ` WHERE webhook = $1 AND plant IN (SELECT plant FROM plantstore_deliveries
	WHERE webhook = $1 AND due_at IS NULL AND plant >= $2 AND plant <= $3 ORDER BY due_at LIMIT $4)`

// RetryDead implements admin.Engine. A retried dead letter is due at once, as a new delivery.
func (o *Operations) RetryDead(ctx context.Context, s DeadSelector, by audit.Origin) (int64, error) {
	const sql = `UPDATE plantstore_deliveries SET since = $5, due_at = $5, dead_at = NULL, attempts = 0, reason = NULL`
	return o.changeDead(ctx, s, by, audit.WebhookRetry, func(tx Tables, args ...any) (int64, error) {
		return tx.Exec(sql+deadSQL, append(args, tx.Now)...)
	})
}

// DropDead implements admin.Engine.
func (o *Operations) DropDead(ctx context.Context, s DeadSelector, by audit.Origin) (int64, error) {
	return o.changeDead(ctx, s, by, audit.WebhookDrop, func(tx Tables, args ...any) (int64, error) {
		return tx.Exec("DELETE FROM plantstore_deliveries"+deadSQL, args...)
	})
}

func (o *Operations) changeDead(
	ctx context.Context, s DeadSelector, by audit.Origin, action audit.Action,
	do func(tx Tables, args ...any) (int64, error),
) (changed int64, err error) {
	selected := func(w Webhook) bool {
		return (s.Webhook == 0 || s.Webhook == w.ID) && (w.Active || action == audit.WebhookDrop)
	}
	first, last := int64(math.MinInt64), int64(math.MaxInt64)
	if s.Plant != nil {
		first, last = *s.Plant, *s.Plant
	}
	err = o.Write(ctx, func(tx Tables) error {
		changed, err = tx.changeDeliveries(selected, func(webhook int64, most int) (int64, error) {
			return do(tx, webhook, first, last, most)
		})
		if err != nil || changed == 0 {
			return err
		}
		return tx.AppendAudit(DeadLettersChanged(action, s, changed, by))
	})
	return changed, err
}

// changeDeliveries calls do for the selected webhooks until it has changed ChangeMax deliveries, and returns their
// number.
func (t Tables) changeDeliveries(
	selected func(Webhook) bool, do func(webhook int64, most int) (int64, error),
) (changed int64, err error) {
	all, err := t.webhooks()
	for _, w := range all {
		if err != nil || changed == ChangeMax {
			break
		}
		if selected(w) {
			var n int64
			n, err = do(w.ID, ChangeMax-int(changed))
			changed += n
		}
	}
	return changed, err
}

// ExpireDeliveries implements webhook.Outbox. It reads all deliveries, before its transactions.
func (o *Operations) ExpireDeliveries(ctx context.Context, x Expiry) (expired Expired, err error) {
	const changes = 10 // of each kind, for a read
	for range changes {
		if fanned, err := o.fanOutOld(ctx, x.PendingBefore); err != nil {
			return expired, err
		} else if fanned == 0 {
			break
		}
	}
	var pending, dead [][]any
	if err := o.ReadLong(ctx, func(t Tables) (err error) {
		const keys = "SELECT webhook, plant FROM plantstore_deliveries "
		pending, err = collect(t, deliveryKey, keys+"WHERE due_at <= $1 AND since < $2 LIMIT $3",
			time.Now(), x.PendingBefore, changes*ChangeMax)
		if err == nil {
			dead, err = collect(t, deliveryKey, keys+"WHERE dead_at < $1 LIMIT $2", x.DeadBefore, changes*ChangeMax)
		}
		return err
	}); err != nil {
		return expired, err
	}
	// Since the read, a server may have claimed a delivery, or an operator may have retried a dead letter.
	expired.Dead, err = o.changeEach(ctx, pending, `UPDATE plantstore_deliveries SET due_at = NULL, dead_at = $3,
		reason = $4 || coalesce($5 || reason, '') WHERE webhook = $1 AND plant = $2 AND due_at <= $3`,
		func(tx Tables) []any { return []any{tx.Now, x.Reason, LastAttempt} })
	if err == nil {
		expired.Removed, err = o.changeEach(ctx, dead, `DELETE FROM plantstore_deliveries
			WHERE webhook = $1 AND plant = $2 AND due_at IS NULL`, func(Tables) []any { return nil })
	}
	return expired, err
}

// deliveryKey returns the webhook and the plant of a delivery as the first arguments of a statement.
func deliveryKey(scan Scan) ([]any, error) {
	var webhook, plant int64
	err := scan(&webhook, &plant)
	return []any{webhook, plant}, err
}

// changeEach runs a statement for each key, with more arguments, in transactions of at most ChangeMax keys, and returns
// the number of changed rows.
func (o *Operations) changeEach(
	ctx context.Context, keys [][]any, sql string, more func(Tables) []any,
) (changed int64, err error) {
	for some := range slices.Chunk(keys, ChangeMax) {
		var n int64
		if err := o.Write(ctx, func(tx Tables) (err error) {
			args := make([][]any, len(some))
			for i, key := range some {
				args[i] = slices.Concat(key, more(tx))
			}
			n, err = tx.ExecEach(sql, args)
			return err
		}); err != nil {
			return changed, err
		}
		changed += n
	}
	return changed, nil
}

// fanOutOld fans out some events if the oldest one is from before a time: so many that they have at most ChangeMax
// deliveries. It returns the number of events.
func (o *Operations) fanOutOld(ctx context.Context, before time.Time) (events int64, err error) {
	oldest, err := read(ctx, o, Tables.OldestEvent)
	if err != nil || oldest.IsZero() || !oldest.Before(before) {
		return 0, err
	}
	err = o.Write(ctx, func(tx Tables) error {
		all, err := tx.webhooks()
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(w Webhook) bool { return !w.Active })
		events, err = tx.FanOut(ChangeMax/max(1, len(all)), tx.Now)
		return err
	})
	return events, err
}
