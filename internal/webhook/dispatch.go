package webhook

import (
	"context"
	"maps"
	"slices"
	"time"

	"plantstore/internal/store"
)

const (
	roundPause = 100 * time.Millisecond // between two rounds, so that a busy outbox costs few transactions
	pollEvery  = time.Second            // for deliveries that became due, and events of other processes

	roundTimeMax = 10 * time.Second
	closeTimeMax = 2 * time.Second // for a round and the running attempts, and then for their results
	leaseMargin  = 5 * time.Second
)

// dispatcher claims deliveries in rounds, starts their attempts, and stores the results.
type dispatcher struct {
	*Sender

	inFlight map[deliveryKey]bool   // claimed deliveries without a stored result
	settled  []store.DeliveryResult // results to store
	attempts int                    // that run
	tokens   float64                // attempts that Config.Rate allows now
	last     time.Time              // start of the last round
	woken    bool                   // there may be new events
	failing  bool                   // the last round failed
	warned   bool                   // the log has a warning about that
	turn     int                    // receiver that claims first
}

type deliveryKey struct{ webhook, plant int64 }

func (d *dispatcher) run() {
	d.inFlight = map[deliveryKey]bool{}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-d.retired.Done():
			d.finish()
			return
		case r := <-d.results:
			d.collect(r)
		case <-d.config.Outbox.EventsWritten():
			d.woken = true
		case <-timer.C:
		}
		for len(d.results) > 0 {
			d.collect(<-d.results)
		}
		now := time.Now()
		if !now.Before(d.due()) && d.retired.Err() == nil {
			d.round(now)
		}
		timer.Reset(time.Until(d.due()))
	}
}

// due returns the time of the next round.
func (d *dispatcher) due() time.Time {
	if d.failing || !d.woken && len(d.settled) == 0 {
		return d.last.Add(pollEvery)
	}
	return d.last.Add(roundPause)
}

// round stores the results, and claims deliveries and starts their attempts.
func (d *dispatcher) round(now time.Time) {
	// Those that wait for a free slot, and one more.
	attemptsMax := (claimsEach + 1) * d.config.Timeout
	claim := store.Claim{Most: d.claims(now), Lease: attemptsMax + leaseMargin}
	d.last, d.woken = now, false
	taken, ok := d.take(d.sending, claim, roundTimeMax)
	if !ok {
		return
	}
	deadline := now.Add(attemptsMax)
	for _, delivery := range taken {
		key := deliveryKey{delivery.Webhook, delivery.Plant.ID}
		r := d.receivers[delivery.Webhook]
		if d.inFlight[key] { // the clock of the engine was set forward
			continue
		}
		d.inFlight[key] = true
		d.attempts++
		r.claimed++
		d.running.Go(func() { d.results <- d.attempt(r, delivery, deadline) }) // ends with its timeout or sending
	}
	d.tokens -= float64(len(taken))
	d.woken = len(taken) > 0 || d.tokens < 1 // there may be more
}

// claims returns the most deliveries to claim for each webhook.
func (d *dispatcher) claims(now time.Time) map[int64]int {
	const burst = 4 * roundPause
	rate := float64(d.config.Rate)
	d.tokens = min(d.tokens+rate*now.Sub(d.last).Seconds(), max(1, rate*burst.Seconds()))
	budget := max(0, int(d.tokens))
	most := map[int64]int{}
	ids := slices.Sorted(maps.Keys(d.receivers)) // a range over a small map mostly begins with the same one
	d.turn++
	for i := range ids {
		id := ids[(d.turn+i)%len(ids)]
		n := min(budget, d.receivers[id].room(now, d.config.Concurrency*claimsEach))
		if n > 0 {
			most[id] = n
			budget -= n
		}
	}
	return most
}

// take stores the results and claims deliveries. After an error it keeps the results.
func (d *dispatcher) take(
	ctx context.Context, claim store.Claim, within time.Duration,
) (taken []store.Delivery, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	taken, err := d.config.Outbox.TakeDeliveries(ctx, d.settled, claim)
	if err != nil {
		if !d.warned {
			d.warned = true
			d.config.Log.Warn("could not read or write the outbox of the webhooks; the deliveries wait", "error", err)
		}
		d.failing = true
		return nil, false
	}
	if d.warned {
		d.config.Log.Info("the outbox of the webhooks works again")
	}
	d.failing, d.warned = false, false
	for _, s := range d.settled {
		d.release(s.Webhook, s.Plant)
	}
	d.settled = d.settled[:0]
	return taken, true
}

// release ends the claim of a delivery.
func (d *dispatcher) release(webhook, plant int64) {
	delete(d.inFlight, deliveryKey{webhook, plant})
	d.receivers[webhook].claimed--
}

// collect records the result of an attempt.
func (d *dispatcher) collect(r result) {
	d.attempts--
	now := time.Now().UTC()
	s := store.DeliveryResult{
		Webhook: r.delivery.Webhook, Plant: r.delivery.Plant.ID, Since: r.delivery.Since, Lease: r.delivery.Lease,
		Attempts: r.delivery.Attempts,
	}
	switch r.outcome {
	case delivered:
		s.Done = true
		r.receiver.succeeded(now)
		d.metrics.attempt(r, "delivered")
	case failed:
		s.Attempts++
		s.Reason = r.failure.Reason
		s.Dead = now.Sub(r.delivery.Since) >= GiveUp
		s.Wait = max(WaitAfter(s.Attempts), r.failure.RetryAfter)
		r.receiver.failed(now, *r.failure)
		d.metrics.attempt(r, "failed")
		if s.Dead {
			d.metrics.dead.WithLabelValues(r.receiver.webhook.Address()).Inc()
		}
	case interrupted: // the claim expires
		d.release(s.Webhook, s.Plant)
		return
	}
	d.settled = append(d.settled, s)
}

// finish waits for the running attempts, which Retire ends after closeTimeMax, and stores their results.
func (d *dispatcher) finish() {
	for d.attempts > 0 {
		d.collect(<-d.results)
	}
	d.cancel() // also ends the maintenance
	if len(d.settled) > 0 {
		d.take(context.WithoutCancel(d.sending), store.Claim{}, closeTimeMax)
	}
}
