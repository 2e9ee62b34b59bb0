package webhook_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/store"
	"plantstore/internal/webhook"
)

// stuck is an outbox whose database does not answer after the start.
type stuck struct {
	webhook.Outbox

	rounds chan struct{} // holds a value after the first call of TakeDeliveries
}

func (stuck) SetWebhooks(_ context.Context, urls []string, _ audit.Origin) ([]store.Webhook, error) {
	return []store.Webhook{{ID: 1, URL: urls[0], Active: true}}, nil
}

func (stuck) EventsWritten() <-chan struct{} { return nil }

func (s stuck) TakeDeliveries(ctx context.Context, _ []store.DeliveryResult, _ store.Claim) ([]store.Delivery, error) {
	select {
	case s.rounds <- struct{}{}:
	default:
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

func (stuck) OutboxTotals(ctx context.Context) (map[int64]store.OutboxTotals, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestCloseDuringRound shows that Close does not wait for a database that does not answer.
func TestCloseDuringRound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := stuck{rounds: make(chan struct{}, 1)}
		s, err := webhook.New(t.Context(), config(t, o, "https://a.example/"))
		must(t, err)
		s.Start()
		<-o.rounds
		began := time.Now()
		s.Close()
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("Close took %s, want at most 4 s", took)
		}
	})
}
