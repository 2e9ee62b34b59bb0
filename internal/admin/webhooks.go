package admin

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/plant"
	"plantstore/internal/store"
	"plantstore/internal/webhook"
)

// WebhookPage is a page of webhooks by ascending id.
type WebhookPage struct {
	CountedAt time.Time `json:"counted_at"` // time of the numbers of events
	Webhooks  []Webhook `json:"webhooks"`
	Next      string    `json:"next,omitempty"` // cursor of the next page; empty: this is the last page
}

// Webhook is a webhook of the store, in the form of the API.
type Webhook struct {
	ID       int64     `json:"id"`
	Address  string    `json:"address"` // the URL without the parts that may contain a secret
	Active   bool      `json:"active"`  // it receives new events
	Pending  int64     `json:"pending_events"`
	OldestAt time.Time `json:"oldest_event_at,omitzero"` // when the oldest pending event was created
	Dead     int64     `json:"dead_letters"`

	Deliveries *webhook.Status `json:"deliveries,omitempty"` // nil: this server does not deliver to it
}

// Deliveries returns the state of the deliveries of this server by the id of the webhook. It does not read the store.
func (s *Service) Deliveries() map[int64]webhook.Status {
	if s.config.Deliveries == nil {
		return nil
	}
	return s.config.Deliveries()
}

// Webhooks returns a page of the active webhooks, and of removed ones that still have events or dead letters.
func (s *Service) Webhooks(ctx context.Context, q ListQuery) (WebhookPage, error) {
	page := WebhookPage{Webhooks: []Webhook{}}
	from, err := parseIDCursor(q.Cursor)
	if err != nil {
		return page, err
	}
	all, err := run(ctx, s, s.unreadable, s.engine.Webhooks)
	if err != nil {
		return page, err
	}
	totals, at, err := s.outboxTotals(ctx)
	if err != nil {
		return page, err
	}
	page.CountedAt = at.UTC()
	deliveries := s.Deliveries()
	for _, w := range all {
		t := totals[w.ID]
		if w.ID < from || !w.Active && t.Pending+t.Dead == 0 {
			continue
		}
		one := Webhook{
			ID: w.ID, Address: w.Address(), Active: w.Active, Pending: t.Pending, OldestAt: t.Oldest.UTC(), Dead: t.Dead,
		}
		if status, ok := deliveries[w.ID]; ok {
			if time.Now().After(status.PausedUntil) {
				status.PausedUntil = time.Time{}
			}
			one.Deliveries = &status
		}
		page.Webhooks = append(page.Webhooks, one)
	}
	page.Webhooks, page.Next = cut(page.Webhooks, q.Limit, func(last Webhook) string { return cursorAfter(last.ID) })
	return page, nil
}

// outboxTotals keeps the totals of the outbox for a short time, because a count reads every delivery. Requests that
// wait for a running count use its result.
type outboxTotals struct {
	changes atomic.Int64 // how often the operator changed dead letters

	slot    chan struct{} // full while a goroutine uses the fields below
	totals  map[int64]store.OutboxTotals
	at      time.Time // start of the count
	took    time.Duration
	counted int64 // the number of changes before the count
}

// outboxTotals returns the totals, and the time of their count.
func (s *Service) outboxTotals(ctx context.Context) (map[int64]store.OutboxTotals, time.Time, error) {
	const (
		ageMax = time.Second
		share  = 50 // counts run for at most a fiftieth of the time
	)
	o := &s.totals
	select {
	case o.slot <- struct{}{}:
		defer func() { <-o.slot }()
	case <-ctx.Done():
		return nil, time.Time{}, s.unreadable(ctx.Err())
	}
	changes := o.changes.Load()
	if changes == o.counted && time.Since(o.at) < max(ageMax, share*o.took) {
		return o.totals, o.at, nil
	}
	start := time.Now()
	totals, err := run(ctx, s, s.unreadable, s.engine.OutboxTotals)
	if err != nil {
		return nil, time.Time{}, err
	}
	o.totals, o.at, o.took, o.counted = totals, start, time.Since(start), changes
	return o.totals, o.at, nil
}

// DeadLetterPage is a page of dead letters, in the order of webhook and plant.
type DeadLetterPage struct {
	DeadLetters []DeadLetter `json:"dead_letters"`
	Next        string       `json:"next,omitempty"` // cursor of the next page; empty: this is the last page
}

// DeadLetter is a dead letter, in the form of the API and of webhook list. Times are in UTC.
type DeadLetter struct {
	WebhookID int64     `json:"webhook_id"`
	Address   string    `json:"address"` // see Webhook.Address
	PlantID   int64     `json:"plant_id"`
	Since     time.Time `json:"since"` // creation of the plant, or the last retry by an operator
	DeadAt    time.Time `json:"dead_at"`
	Attempts  int       `json:"attempts"`
	Reason    string    `json:"reason,omitempty"`
}

// DeadLetters returns a page of dead letters.
func (s *Service) DeadLetters(ctx context.Context, q ListQuery) (DeadLetterPage, error) {
	page := DeadLetterPage{DeadLetters: []DeadLetter{}}
	from := store.DeadPage{Limit: q.Limit + 1} // the last one shows whether more follow
	if q.Cursor != "" {
		id, after, err := parseCursor(q.Cursor)
		plantID, errPlant := strconv.ParseInt(after, 10, 64)
		if err != nil || errPlant != nil {
			return page, errCursor
		}
		from.Webhook, from.Plant = id, plantID
	}
	letters, err := run(ctx, s, s.unreadable, func(ctx context.Context) ([]store.DeadLetter, error) {
		return s.engine.DeadLetters(ctx, from)
	})
	if err != nil {
		return page, err
	}
	for _, d := range letters {
		page.DeadLetters = append(page.DeadLetters, DeadLetter{
			WebhookID: d.Webhook, Address: store.WebhookAddress(d.URL), PlantID: d.Plant,
			Since: d.Since.UTC(), DeadAt: d.DeadAt.UTC(), Attempts: d.Attempts, Reason: d.Reason,
		})
	}
	page.DeadLetters, page.Next = cut(page.DeadLetters, q.Limit, func(last DeadLetter) string {
		return newCursor(last.WebhookID, strconv.FormatInt(last.PlantID, 10))
	})
	return page, nil
}

// DeadLettersChanged is the result of a change of dead letters.
type DeadLettersChanged struct {
	DeadLetters int64 `json:"dead_letters"` // that were changed; at most store.ChangeMax
	More        bool  `json:"more"`         // there may be further ones; repeat the change
}

// DeadSelection selects dead letters, in the form of the API: those of a webhook, a plant or both, or all.
type DeadSelection struct {
	WebhookID *int64 `json:"webhook_id,omitempty"`
	PlantID   *int64 `json:"plant_id,omitempty"`
	All       bool   `json:"all,omitempty"`
}

func (d DeadSelection) selector() (selected store.DeadSelector, err error) {
	switch {
	case d.All == (d.WebhookID != nil || d.PlantID != nil):
		return selected, plant.InvalidInput("send webhook_id, plant_id or both, or all with the value true alone")
	case d.WebhookID == nil:
	case *d.WebhookID < 1:
		return selected, plant.InvalidInput("webhook_id must be at least 1; got %d", *d.WebhookID)
	default:
		selected.Webhook = *d.WebhookID
	}
	selected.Plant = d.PlantID
	return selected, nil
}

// RetryDead makes selected dead letters of active webhooks due at once.
func (s *Service) RetryDead(ctx context.Context, d DeadSelection, by audit.Origin) (DeadLettersChanged, error) {
	return s.changeDead(ctx, d, by, s.engine.RetryDead)
}

// DropDead removes selected dead letters.
func (s *Service) DropDead(ctx context.Context, d DeadSelection, by audit.Origin) (DeadLettersChanged, error) {
	return s.changeDead(ctx, d, by, s.engine.DropDead)
}

func (s *Service) changeDead(
	ctx context.Context, d DeadSelection, by audit.Origin,
	do func(context.Context, store.DeadSelector, audit.Origin) (int64, error),
) (DeadLettersChanged, error) {
	selected, err := d.selector()
	if err != nil {
		return DeadLettersChanged{}, err
	}
	defer s.totals.changes.Add(1) // so the next request counts again
	n, err := change(ctx, s, func(ctx context.Context) (int64, error) { return do(ctx, selected, by) })
	return DeadLettersChanged{DeadLetters: n, More: n == store.ChangeMax}, err
}
