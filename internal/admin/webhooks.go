package admin

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/store"
	"plantstore/internal/webhook"
)

// WebhookQuery selects a page of webhooks.
type WebhookQuery struct {
	Cursor string // WebhookPage.Next of the page before; empty: the first page
	Limit  int    // from 1 to PageMax
}

// WebhookPage is a page of webhooks by ascending id.
type WebhookPage struct {
	CountedAt time.Time `json:"counted_at"` // time of the numbers of events
	Webhooks  []Webhook `json:"webhooks"`
	Next      string    `json:"next,omitempty"` // cursor of the next page; empty: this is the last page
}

// Webhook is a webhook of the store for the operator. Its JSON is that of the API.
type Webhook struct {
	ID       int64     `json:"id"`
	Address  string    `json:"address"` // the URL without the parts that may have a secret
	Active   bool      `json:"active"`  // new events are for it
	Pending  int64     `json:"pending_events"`
	OldestAt time.Time `json:"oldest_event_at,omitzero"` // of the pending events
	Dead     int64     `json:"dead_letters"`

	Deliveries *Deliveries `json:"deliveries,omitempty"` // nil: this server does not deliver to it
}

// Deliveries describes the deliveries of this server to a webhook.
type Deliveries struct {
	DeliveredAt time.Time `json:"delivered_at,omitzero"` // the last one since the start of the server
	FailedAt    time.Time `json:"failed_at,omitzero"`    // the last attempt that failed
	Reason      string    `json:"reason,omitempty"`      // of that failure
	Failures    int       `json:"failures"`              // attempts that failed since the last delivery
	PausedUntil time.Time `json:"paused_until,omitzero"`
	Gone        bool      `json:"gone"` // the receiver answered 410: no attempts until a restart
}

func newWebhook(w store.Webhook, t store.OutboxTotals) Webhook {
	return Webhook{
		ID: w.ID, Address: w.Address(), Active: w.Active, Pending: t.Pending, OldestAt: t.Oldest.UTC(), Dead: t.Dead,
	}
}

func newDeliveries(s webhook.Status, now time.Time) *Deliveries {
	d := &Deliveries{
		DeliveredAt: s.Delivered.UTC(), FailedAt: s.Failed.UTC(), Reason: s.Reason, Failures: s.Failures, Gone: s.Gone,
	}
	if s.Paused.After(now) {
		d.PausedUntil = s.Paused.UTC()
	}
	return d
}

// Deliveries returns the state of the deliveries of this server by the id of the webhook. It does not read the store.
func (s *Service) Deliveries() map[int64]webhook.Status { return s.deliveries() }

// Webhooks returns a page of the active webhooks, and of removed ones with dead letters.
func (s *Service) Webhooks(ctx context.Context, q WebhookQuery) (WebhookPage, error) {
	page := WebhookPage{Webhooks: []Webhook{}}
	from, err := parseCursor(q.Cursor)
	if err != nil {
		return page, err
	}
	if q.Limit < 1 || q.Limit > PageMax {
		return page, invalid(fmt.Sprintf("limit must be from 1 to %d; got %d", PageMax, q.Limit))
	}
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return page, err
	}
	defer end()
	all, err := s.engine.Webhooks(ctx)
	if err != nil {
		return page, s.unreadable(err)
	}
	totals, at, err := s.totals.get(ctx, s.engine)
	if err != nil {
		return page, s.unreadable(err)
	}
	page.CountedAt = at.UTC()
	deliveries := s.deliveries()
	for _, w := range all {
		one := newWebhook(w, totals[w.ID])
		if w.ID < from || !one.Active && one.Dead == 0 {
			continue
		}
		if len(page.Webhooks) == q.Limit {
			page.Next = cursorAfter(page.Webhooks[q.Limit-1].ID)
			break
		}
		if status, ok := deliveries[w.ID]; ok {
			one.Deliveries = newDeliveries(status, time.Now())
		}
		page.Webhooks = append(page.Webhooks, one)
	}
	return page, nil
}

// outboxTotals keeps the totals of the outbox for a short time, because a count reads every delivery. The count of one
// request serves those that wait for it.
type outboxTotals struct {
	slot   chan struct{} // has an element while a goroutine uses the fields below
	totals map[int64]store.OutboxTotals
	at     time.Time // start of the count; the zero value: no count is valid
	took   time.Duration
}

// get returns the totals, and the time of their count.
func (o *outboxTotals) get(ctx context.Context, from Outbox) (map[int64]store.OutboxTotals, time.Time, error) {
	const (
		ageMax = time.Second
		share  = 50 // of the time: a count takes at most a fiftieth of it
	)
	select {
	case o.slot <- struct{}{}:
	case <-ctx.Done():
		return nil, time.Time{}, ctx.Err()
	}
	defer func() { <-o.slot }()
	if time.Since(o.at) < max(ageMax, share*o.took) {
		return o.totals, o.at, nil
	}
	start := time.Now()
	totals, err := from.OutboxTotals(ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	o.totals, o.at, o.took = totals, start, time.Since(start)
	return o.totals, o.at, nil
}

// expire makes the next call of get count again, after a change of the outbox.
func (o *outboxTotals) expire() {
	o.slot <- struct{}{}
	o.at = time.Time{}
	<-o.slot
}

// DeadLetterQuery selects a page of dead letters.
type DeadLetterQuery struct {
	Cursor string // DeadLetterPage.Next of the page before; empty: the first page
	Limit  int    // from 1 to PageMax
}

// DeadLetterPage is a page of dead letters, in the order of webhook and plant.
type DeadLetterPage struct {
	DeadLetters []DeadLetter `json:"dead_letters"`
	Next        string       `json:"next,omitempty"` // cursor of the next page; empty: this is the last page
}

// DeadLetter is a dead letter for the operator. Times are in UTC. Its JSON is that of the API and of webhook list.
type DeadLetter struct {
	WebhookID int64     `json:"webhook_id"`
	Address   string    `json:"address"` // the URL without the parts that may have a secret
	PlantID   int64     `json:"plant_id"`
	Since     time.Time `json:"since"` // creation of the plant, or the last retry by an operator
	DeadAt    time.Time `json:"dead_at"`
	Attempts  int       `json:"attempts"`
	Reason    string    `json:"reason,omitempty"`
}

func newDeadLetter(d store.DeadLetter) DeadLetter {
	return DeadLetter{
		WebhookID: d.Webhook, Address: store.WebhookAddress(d.URL), PlantID: d.Plant,
		Since: d.Since.UTC(), DeadAt: d.DeadAt.UTC(), Attempts: d.Attempts, Reason: d.Reason,
	}
}

// DeadLetters returns a page of dead letters.
func (s *Service) DeadLetters(ctx context.Context, q DeadLetterQuery) (DeadLetterPage, error) {
	page := DeadLetterPage{DeadLetters: []DeadLetter{}}
	if q.Limit < 1 || q.Limit > PageMax {
		return page, invalid(fmt.Sprintf("limit must be from 1 to %d; got %d", PageMax, q.Limit))
	}
	from, err := parseDeadCursor(q.Cursor)
	if err != nil {
		return page, err
	}
	from.Limit = q.Limit + 1 // the last one shows whether more follow
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return page, err
	}
	defer end()
	letters, err := s.engine.DeadLetters(ctx, from)
	if err != nil {
		return page, s.unreadable(err)
	}
	for i, d := range letters[:min(q.Limit, len(letters))] {
		page.DeadLetters = append(page.DeadLetters, newDeadLetter(d))
		if i == q.Limit-1 && len(letters) > q.Limit {
			page.Next = deadCursor(d)
		}
	}
	return page, nil
}

// deadCursor returns the cursor of the page after a dead letter: cursorVersion, the webhook and the plant.
func deadCursor(d store.DeadLetter) string {
	b := binary.BigEndian.AppendUint64([]byte{cursorVersion}, uint64(d.Webhook))
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(b, uint64(d.Plant)))
}

func parseDeadCursor(text string) (p store.DeadPage, err error) {
	if text == "" {
		return p, nil
	}
	const size = 17
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != size || b[0] != cursorVersion {
		return p, errCursor()
	}
	p.Webhook, p.Plant = int64(binary.BigEndian.Uint64(b[1:])), int64(binary.BigEndian.Uint64(b[9:]))
	return p, nil
}

// DeadLettersChanged is the result of a change of dead letters.
type DeadLettersChanged struct {
	DeadLetters int64 `json:"dead_letters"` // that were changed; at most store.DeadBatch
	More        bool  `json:"more"`         // there may be further ones; repeat the change
}

// RetryDead makes selected dead letters of active webhooks due at once.
func (s *Service) RetryDead(
	ctx context.Context, selector store.DeadSelector, by audit.Origin,
) (DeadLettersChanged, error) {
	return s.changeDead(ctx, func(ctx context.Context) (int64, error) { return s.engine.RetryDead(ctx, selector, by) })
}

// DropDead removes selected dead letters.
func (s *Service) DropDead(
	ctx context.Context, selector store.DeadSelector, by audit.Origin,
) (DeadLettersChanged, error) {
	return s.changeDead(ctx, func(ctx context.Context) (int64, error) { return s.engine.DropDead(ctx, selector, by) })
}

func (s *Service) changeDead(
	ctx context.Context, do func(context.Context) (int64, error),
) (result DeadLettersChanged, err error) {
	defer s.totals.expire()
	err = s.change(ctx, func(ctx context.Context) (err error) {
		result.DeadLetters, err = do(ctx)
		return err
	})
	result.More = result.DeadLetters == store.DeadBatch
	return result, err
}
