package postgres

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// during returns a query with a result during which something happens.
func during(events bool, do func()) func() (bool, error) {
	return func() (bool, error) {
		do()
		return events, nil
	}
}

// TestWebhookState shows that the cached plantstore.webhooks is never older than a change by this engine, than another
// read, or than its age limit.
func TestWebhookState(t *testing.T) {
	t.Parallel()
	type known struct{ events, ok bool }
	yes, nothing := known{true, true}, known{false, false}
	for name, row := range map[string]struct {
		do   func(s *webhookState)
		want known
	}{
		"no read": {func(*webhookState) {}, nothing},
		"a read":  {func(s *webhookState) { _, _ = s.read(during(true, func() {})) }, yes},
		"an old read ends after a change": {func(s *webhookState) {
			_, _ = s.read(during(true, func() { s.forget() }))
		}, nothing},
		"an old read ends after a change and the next read": {func(s *webhookState) {
			_, _ = s.read(during(false, func() {
				s.forget()
				_, _ = s.read(during(true, func() {}))
			}))
		}, yes},
		"an old read ends after a newer one": {func(s *webhookState) {
			_, _ = s.read(during(false, func() {
				<-time.After(time.Millisecond)
				_, _ = s.read(during(true, func() {}))
			}))
		}, yes},
		"a failed read": {func(s *webhookState) {
			_, _ = s.read(during(true, func() {}))
			if events, err := s.read(func() (bool, error) { return true, errors.ErrUnsupported }); events || err == nil {
				t.Errorf("a failed read: %v, %v", events, err)
			}
		}, yes},
		"the age limit": {func(s *webhookState) {
			_, _ = s.read(during(true, func() {}))
			<-time.After(webhooksMaxAge)
		}, yes},
		"beyond the age limit": {func(s *webhookState) {
			_, _ = s.read(during(true, func() {}))
			<-time.After(webhooksMaxAge + 1)
		}, known{true, false}},
		"the age of a slow read": {func(s *webhookState) {
			_, _ = s.read(during(true, func() { <-time.After(webhooksMaxAge + 1) }))
		}, known{true, false}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &webhookState{}
				row.do(s)
				var got known
				if got.events, got.ok = s.known(); got.ok != row.want.ok || got.ok && got.events != row.want.events {
					t.Errorf("got %+v, want %+v", got, row.want)
				}
			})
		})
	}
}
