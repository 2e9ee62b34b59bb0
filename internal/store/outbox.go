package store

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/plant"
)

// Webhook is an address that receives an event for each created plant. An engine writes events in the transactions that
// create the plants, while the store has an active webhook.
type Webhook struct {
	ID     int64 // never used for another address
	URL    string
	Active bool // new events are for it
}

// Address returns the URL for logs and lists, without the parts that may have a secret.
func (w Webhook) Address() string { return WebhookAddress(w.URL) }

// WebhookAddress returns the URL of a webhook without user, query and fragment. A text that is no URL may be a secret
// as a whole.
func WebhookAddress(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return "(hidden: it is not a URL)"
	}
	if u.User != nil {
		u.User = nil
		text = u.String()
	}
	return text[:strings.IndexAny(text+"?", "?#")]
}

// Delivery is a claimed delivery of an event to a webhook.
type Delivery struct {
	Webhook   int64 // Webhook.ID
	Plant     plant.NewPlant
	CreatedAt time.Time // when the plant was created
	Since     time.Time // creation or erasure of the plant, or the last RetryDead
	Erased    bool      // the plant was erased; Plant has its id only
	Attempts  int       // attempts that have failed
	Lease     time.Time // end of the claim, by the clock of the engine
}

// Claim selects deliveries for TakeDeliveries.
type Claim struct {
	Most  map[int64]int // most deliveries by Webhook.ID
	Lease time.Duration // for which no other call returns the deliveries; whole microseconds
}

// ClaimMax is the longest claim that a change of a plant waits for.
const ClaimMax = time.Minute

// DueAfterClaim is the part of an upsert of a delivery that sets when it is due: as given; but if it replaces a claimed
// one, at the end of that claim, so that no two attempts about a plant run at the same time. A result of the claimed
// one makes it due at once. limit is the parameter with ClaimMax from now: a later time is a failed delivery's next.
func DueAfterClaim(limit string) string {
	const due = "plantstore_deliveries.due_at"
	return "due_at = CASE WHEN " + due + " > excluded.due_at AND " + due + " <= " + limit + " THEN " + due +
		" ELSE excluded.due_at END"
}

// DeliveryResult is the result of a claimed delivery. Its zero value, with the fields that identify the delivery,
// releases the claim: the delivery is due again at once.
type DeliveryResult struct {
	Webhook  int64     // as in Delivery
	Plant    int64     // id of the plant
	Since    time.Time // as in Delivery
	Lease    time.Time // as in Delivery
	Done     bool      // the event was delivered; the other fields have no effect
	Dead     bool      // the delivery becomes a dead letter
	Attempts int       // attempts that have failed
	Wait     time.Duration
	Reason   string // why the last attempt failed
}

// OutboxTotals counts the deliveries of a webhook.
type OutboxTotals struct {
	Pending int64     // events that were not delivered, without dead letters
	Oldest  time.Time // the least Delivery.Since of them; the zero value for none
	Dead    int64     // dead letters
}

// DeadLetter is a delivery that the store does not attempt any more.
type DeadLetter struct {
	Webhook  int64
	URL      string
	Plant    int64     // id of the plant
	Since    time.Time // as in Delivery
	DeadAt   time.Time
	Attempts int
	Reason   string
}

// DeadSelector selects dead letters. The zero value selects all.
type DeadSelector struct {
	Webhook int64  // Webhook.ID; 0: of every webhook
	Plant   *int64 // id of the plant; nil: of every plant
}

// DeadPage selects a page of dead letters, in the order of webhook and plant.
type DeadPage struct {
	Webhook int64 // the webhook of the last dead letter of the page before; 0 for the first page
	Plant   int64 // its plant
	Limit   int   // at least 1
}

// ChangeMax is the most rows that a transaction changes where their number has no other limit, so that creates wait
// shortly for it, and its copy in a journal is small.
const ChangeMax = 1000

// Expiry selects deliveries for ExpireDeliveries.
type Expiry struct {
	PendingBefore time.Time // deliveries that are due and have an earlier Since become dead letters
	DeadBefore    time.Time // earlier dead letters are removed
	Reason        string    // for the new dead letters; LastAttempt and the reason of the last failure follow
}

// LastAttempt introduces the last failure in the reason of a dead letter that is too old.
const LastAttempt = "; last attempt: "

// Expired counts the deliveries of ExpireDeliveries.
type Expired struct{ Dead, Removed int64 }

// WebhooksChanged returns the event of a change of the active webhooks.
func WebhooksChanged(added, removed []string, by audit.Origin) audit.Event {
	list := func(urls []string) string {
		addresses := make([]string, len(urls))
		for i, u := range urls {
			addresses[i] = WebhookAddress(u)
		}
		return strings.Join(addresses, " ")
	}
	return audit.Event{Time: time.Now(), Action: audit.WebhookChange, Origin: by, Details: []audit.Detail{
		{Key: "added", Value: list(added)}, {Key: "removed", Value: list(removed)},
	}}
}

// DeadLettersChanged returns the event of a RetryDead or a DropDead.
func DeadLettersChanged(action audit.Action, s DeadSelector, n int64, by audit.Origin) audit.Event {
	details := []audit.Detail{{Key: "dead_letters", Value: strconv.FormatInt(n, 10)}}
	if s.Webhook != 0 {
		details = append(details, audit.Detail{Key: "webhook_id", Value: strconv.FormatInt(s.Webhook, 10)})
	}
	if s.Plant != nil {
		details = append(details, audit.Detail{Key: "plant_id", Value: strconv.FormatInt(*s.Plant, 10)})
	}
	return audit.Event{Time: time.Now(), Action: action, Origin: by, Details: details}
}

// compareWebhooks compares the webhooks of a store with the URLs of its active ones.
func compareWebhooks(stored []Webhook, urls []string) (added, removed []string) {
	added = slices.Clone(urls)
	for _, w := range stored {
		if i := slices.Index(added, w.URL); w.Active && i >= 0 {
			added = slices.Delete(added, i, i+1)
		} else if w.Active {
			removed = append(removed, w.URL)
		}
	}
	return added, removed
}

// absentPause is the time until the next claim of a delivery whose plant does not exist, so that other deliveries go
// first: another program has removed the plant, or a worker of Citus has not ended its transaction yet.
const absentPause = 10 * time.Second

// ReasonRemoved is the reason of a dead letter whose webhook is not active any more.
const ReasonRemoved = "the address was removed from the settings"

// TakeDeliveries stores the results of deliveries, and claims others that are due. If they are fewer than the claim
// allows, it turns events of the outbox into deliveries and claims these.
func (t Tables) TakeDeliveries(settled []DeliveryResult, claim Claim) ([]Delivery, error) {
	if err := t.settle(settled); err != nil {
		return nil, err
	}
	c := claimer{tx: t, lease: t.Now.Add(claim.Lease)}
	most := maps.Clone(claim.Most)
	for again := false; ; again = true {
		missing := 0
		for webhook, n := range most {
			claimed, err := c.claim(webhook, n)
			if err != nil {
				return nil, err
			}
			most[webhook] -= claimed
			missing = max(missing, most[webhook])
		}
		if again || missing == 0 || c.bytes > PlantsBytes {
			return c.taken, nil
		}
		if n, err := t.FanOut(missing, t.Now); err != nil || n == 0 {
			return c.taken, err
		}
	}
}

// settle stores the results of deliveries. It ignores a failure whose claim has expired.
func (t Tables) settle(results []DeliveryResult) error {
	var done, failed, all [][]any
	for _, r := range results {
		all = append(all, []any{t.Now, r.Webhook, r.Plant, r.Since, r.Lease})
		if r.Done {
			done = append(done, []any{r.Webhook, r.Plant, r.Since})
			continue
		}
		due, dead := t.Now.Add(r.Wait), time.Time{}
		if r.Dead {
			due, dead = time.Time{}, t.Now
		}
		failed = append(failed, []any{due, dead, r.Attempts, r.Reason, r.Webhook, r.Plant, r.Lease, r.Since})
	}
	const doneSQL = "DELETE FROM plantstore_deliveries WHERE webhook = $1 AND plant = $2 AND since = $3"
	deleted, err := t.ExecEach(doneSQL, done)
	updated := int64(0)
	if err == nil {
		updated, err = t.ExecEach("UPDATE plantstore_deliveries SET due_at = $1, dead_at = $2, attempts = $3, "+
			"reason = coalesce(nullif($4, ''), reason) WHERE webhook = $5 AND plant = $6 AND due_at = $7 AND since = $8", failed)
	}
	if err != nil || deleted+updated == int64(len(results)) {
		return err
	}
	// Another time means that the plant has changed since the claim: a delivery about the change waits for its end.
	_, err = t.ExecEach("UPDATE plantstore_deliveries SET due_at = $1 "+
		"WHERE webhook = $2 AND plant = $3 AND since <> $4 AND due_at = $5", all)
	return err
}

// Due returns at most that many deliveries to a webhook that are due at a time, by DueAt; none if the webhook is not
// active. Of the plant they have the id only.
func (t Tables) Due(webhook int64, at time.Time, most int) ([]Delivery, error) {
	return collect(t, func(scan Scan) (d Delivery, err error) {
		err = scan(&d.Plant.ID, &d.Since, &d.Attempts, &d.Erased)
		return d, err
	}, "SELECT plant, since, attempts, erased FROM plantstore_deliveries WHERE webhook = $1 AND due_at <= $2 "+
		"AND EXISTS (SELECT 1 FROM plantstore_webhooks WHERE id = $1 AND active) "+
		"ORDER BY due_at LIMIT $3 FOR UPDATE SKIP LOCKED", webhook, at, most)
}

// setDue sets the time of the next attempt of deliveries, or of the end of their claims.
func (t Tables) setDue(webhook int64, plants []int64, at time.Time) error {
	args := make([][]any, len(plants))
	for i, id := range plants {
		args[i] = []any{at, webhook, id}
	}
	_, err := t.ExecEach("UPDATE plantstore_deliveries SET due_at = $1 WHERE webhook = $2 AND plant = $3", args)
	return err
}

// claimer claims deliveries in a transaction.
type claimer struct {
	tx    Tables
	lease time.Time
	bytes int // size of the texts in taken
	taken []Delivery
}

// claim claims deliveries to a webhook until the texts of all claims exceed PlantsBytes.
func (c *claimer) claim(webhook int64, most int) (claimed int, err error) {
	if most == 0 {
		return 0, nil
	}
	due, err := c.tx.Due(webhook, c.tx.Now, most)
	if err != nil || len(due) == 0 {
		return 0, err
	}
	ids := make([]int64, len(due))
	for i, d := range due {
		ids[i] = d.Plant.ID
	}
	rows, err := c.tx.PlantsByID(ids, PlantsBytes-c.bytes)
	if err != nil {
		return 0, err
	}
	plants := make(map[int64]Row, len(rows))
	bytes := c.bytes
	for _, r := range rows {
		plants[r.ID] = r
		bytes += r.Bytes()
	}
	all := bytes <= PlantsBytes // else some plants were not read
	var found, absent []int64
	for _, d := range due {
		r, stored := plants[d.Plant.ID]
		switch {
		case stored: // created again, if it was erased
			d.Plant, d.CreatedAt, d.Erased = r.NewPlant, r.CreatedAt, false
		case !d.Erased || !all:
			absent = append(absent, d.Plant.ID)
			continue
		}
		d.Webhook, d.Lease = webhook, c.lease
		c.bytes += r.Bytes()
		c.taken, found = append(c.taken, d), append(found, d.Plant.ID)
	}
	err = c.tx.setDue(webhook, found, c.lease)
	if err == nil && all && len(absent) > 0 {
		err = c.tx.setDue(webhook, absent, c.tx.Now.Add(absentPause))
	}
	return len(found), err
}

// withOutbox adds events of the outbox, with the time of the oldest one, to the totals of an active webhook.
func (t OutboxTotals) withOutbox(events int64, oldest time.Time) OutboxTotals {
	t.Pending += events
	if t.Oldest.IsZero() || !oldest.IsZero() && oldest.Before(t.Oldest) {
		t.Oldest = oldest
	}
	return t
}

// OutboxRow is an undelivered event or a dead letter as a move copies it.
type OutboxRow struct {
	Webhook  int64 // Webhook.ID; 0: an event without deliveries
	Plant    int64 // id of the plant
	Since    time.Time
	DueAt    time.Time // the zero value for an event and a dead letter
	DeadAt   time.Time // the zero value unless it is a dead letter
	Attempts int
	Reason   string
	Erased   bool // the plant was erased
}

// Bytes returns the size of the text.
func (r OutboxRow) Bytes() int { return len(r.Reason) }
