package admin_test

import (
	"context"
	"testing"
	"testing/synctest"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/store"
	"plantstore/internal/store/storetest"
)

// An operation that waits for another client's operation ends with its context.
func TestWaitEndsWithContext(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(*admin.Service, context.Context) error{
		"verification": func(s *admin.Service, ctx context.Context) error {
			_, err := s.VerifyAudit(ctx, audit.Link{})
			return err
		},
		"totals of the outbox": func(s *admin.Service, ctx context.Context) error {
			_, err := s.Webhooks(ctx, admin.ListQuery{Limit: 1})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				service, err := admin.New(admin.Config{Engine: stuck{}})
				if err != nil {
					t.Fatal(err)
				}
				defer service.Close()
				go func() { _ = do(service, t.Context()) }() // ends with Close
				synctest.Wait()
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- do(service, ctx) }()
				synctest.Wait()
				cancel()
				synctest.Wait()
				select {
				case err := <-ended:
					if err == nil {
						t.Error("got no error")
					}
				default:
					t.Error("the second operation still waits for the first one")
					service.Close()
					t.Log(<-ended)
				}
			})
		})
	}
}

// A change of dead letters does not wait for a count of the outbox, whose result the next list does not use.
func TestDeadLettersDuringCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine := counting{started: make(chan struct{}), end: make(chan struct{})}
		service, err := admin.New(admin.Config{Engine: engine})
		if err != nil {
			t.Fatal(err)
		}
		defer service.Close()
		list := func() {
			if _, err := service.Webhooks(t.Context(), admin.ListQuery{Limit: 1}); err != nil {
				t.Error(err)
			}
		}
		go list()
		<-engine.started
		if _, err := service.DropDead(t.Context(), admin.DeadSelection{All: true}, audit.Origin{}); err != nil {
			t.Error(err)
		}
		engine.end <- struct{}{}
		go list()
		<-engine.started // else a deadlock
		engine.end <- struct{}{}
		synctest.Wait()
		list()
	})
}

// counting is an engine that counts the outbox until end receives a value.
type counting struct {
	storetest.Engine

	started, end chan struct{}
}

func (counting) Webhooks(context.Context) ([]store.Webhook, error) { return nil, nil }

func (c counting) OutboxTotals(context.Context) (map[int64]store.OutboxTotals, error) {
	c.started <- struct{}{}
	<-c.end
	return nil, nil
}

func (counting) DropDead(context.Context, store.DeadSelector, audit.Origin) (int64, error) {
	return 1, nil
}

// stuck is an engine whose long reads take until their context ends.
type stuck struct{ storetest.Engine }

func (stuck) AuditEnds(ctx context.Context) (audit.Ends, error) {
	<-ctx.Done()
	return audit.Ends{}, ctx.Err()
}

func (stuck) Webhooks(context.Context) ([]store.Webhook, error) { return nil, nil }

func (stuck) OutboxTotals(ctx context.Context) (map[int64]store.OutboxTotals, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
