package serve

import (
	"context"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/audit"
	"plantstore/internal/config"
	"plantstore/internal/webhook"
)

// eventSender delivers the events of a store by the settings in force.
type eventSender struct {
	outbox    webhook.Outbox
	by        audit.Origin // recorded with changes of the webhooks
	userAgent string
	log       *slog.Logger
	metrics   *prometheus.Registry

	changed chan struct{}      // holds a value after a reload has changed the webhooks
	cancel  context.CancelFunc // ends endRemoved
	closing sync.WaitGroup     // endRemoved, and senders that a reload has replaced

	current        atomic.Pointer[webhook.Sender] // nil: the settings have no webhooks
	currentMetrics *prometheus.Registry           // metrics of current
}

// openWebhooks makes the URLs of the settings the webhooks of the store.
func (v *instance) openWebhooks(ctx context.Context) error {
	e := &eventSender{
		outbox: v.engine, by: v.By, userAgent: "plantstore/" + v.Version, log: v.log, metrics: v.metrics,
		changed: make(chan struct{}, 1),
	}
	v.events = e
	if v.standby != nil { // the owner sends the events
		e.cancel = func() {}
		return nil
	}
	ending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	e.cancel = cancel
	v.onStart(func(context.Context) {
		e.start()
		e.closing.Go(func() { e.endRemoved(ending) })
	})
	v.onRetire(e.retire)
	v.onClose(e.close)
	return e.use(ctx, v.Settings.Webhook)
}

// use makes the URLs of settings the webhooks of the store, and replaces the sender. The caller starts the new one. The
// old one ends in the background: a claim keeps both from sending the same delivery at the same time. After an error
// the old one stays.
func (e *eventSender) use(ctx context.Context, c webhook.Config) error {
	if len(c.URLs) == 0 {
		removed, err := webhook.Off(ctx, e.outbox, e.by)
		if removed > 0 {
			e.log.Warn("webhooks are off: new plants have no events any more", "removed", removed)
		}
		if err == nil {
			e.replace(nil, nil)
		}
		return err
	}
	metrics := prometheus.NewRegistry()
	c.Outbox, c.UserAgent, c.By, c.Log, c.Metrics = e.outbox, e.userAgent, e.by, e.log, metrics
	next, err := webhook.New(ctx, c)
	if err == nil {
		e.replace(next, metrics)
	}
	return err
}

// replace makes a sender the current one, and closes the one before in the background.
func (e *eventSender) replace(next *webhook.Sender, metrics *prometheus.Registry) {
	if old := e.current.Swap(next); old != nil {
		e.metrics.Unregister(e.currentMetrics)
		e.closing.Go(old.Close)
	}
	if next != nil {
		e.metrics.MustRegister(metrics)
	}
	e.currentMetrics = metrics
}

// reload replaces the sender if its settings have changed.
func (e *eventSender) reload(ctx context.Context, old, next *config.Settings) error {
	if reflect.DeepEqual(next.Webhook, old.Webhook) {
		return nil
	}
	const storeTimeMax = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, storeTimeMax)
	defer cancel()
	if err := e.use(ctx, next.Webhook); err != nil {
		return err
	}
	e.start()
	select {
	case e.changed <- struct{}{}:
	default: // endRemoved has not received the last signal yet
	}
	return nil
}

// endRemoved ends the deliveries to removed webhooks at the start, after each change, and every minute: an attempt may
// have failed, or another server may have ended before its last one.
func (e *eventSender) endRemoved(ctx context.Context) {
	for {
		webhook.EndRemoved(ctx, e.outbox, e.log)
		select {
		case <-e.changed:
		case <-time.After(time.Minute):
		case <-ctx.Done():
			return
		}
	}
}

// status returns the state of the deliveries by id of the webhook.
func (e *eventSender) status() map[int64]webhook.Status { return e.current.Load().Status() }

func (e *eventSender) start() {
	if s := e.current.Load(); s != nil {
		s.Start()
	}
}

// retire ends the claims and endRemoved; close waits for the running attempts.
func (e *eventSender) retire() {
	e.cancel()
	if s := e.current.Load(); s != nil {
		s.Retire()
	}
}

func (e *eventSender) close() {
	e.cancel()
	if s := e.current.Load(); s != nil {
		s.Close()
	}
	e.closing.Wait()
}
