package audit_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/audit"
)

// sink is the store of a Recorder.
type sink struct {
	mu     sync.Mutex
	events []string
	err    error // of the next calls
	calls  int
}

func (s *sink) append(_ context.Context, events ...audit.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.err != nil {
		return s.err
	}
	for _, e := range events {
		text := fmt.Sprint(e.Action, " ", e.Actor.Name, " ", e.Address)
		for _, d := range e.Details {
			if d.Key != "since" {
				text += " " + d.Key + "=" + d.Value
			}
		}
		s.events = append(s.events, text)
	}
	return nil
}

func (s *sink) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// take returns the appended events and forgets them.
func (s *sink) take() []string {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	events := s.events
	s.events = nil
	return events
}

func from(name, address string) audit.Origin {
	return audit.Origin{Actor: audit.Actor{Kind: audit.Token, Name: name}, Address: address}
}

func check(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// TestRecorder records events, sign-ins and refusals.
func TestRecorder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &sink{}
		r := audit.NewRecorder(s.append, slog.New(slog.DiscardHandler))
		r.Record(audit.Event{Action: "x"})
		check(t, "an event", s.take(), "x  ")

		for range 3 {
			r.SignedIn(from("a", "2001:db8::1"), false)
		}
		r.SignedIn(from("b", "192.0.2.2"), false)
		check(t, "sign-ins", s.take(), "admin.sign_in a 2001:db8::1", "admin.sign_in b 192.0.2.2")
		<-time.After(59 * time.Minute)
		r.SignedIn(from("a", "2001:db8::2"), false)
		check(t, "within an hour from the same network", s.take())
		r.SignedIn(from("a", "192.0.2.2"), false)
		check(t, "within an hour from another network", s.take(), "admin.sign_in a 192.0.2.2")
		r.SignedIn(from("a", "192.0.2.2"), true)
		check(t, "with the scope admin", s.take(), "admin.sign_in a 192.0.2.2")
		for range 2 {
			r.SignedIn(from("c", "192.0.2.2"), true, audit.Detail{Key: "console", Value: "code"})
		}
		r.SignedIn(from("c", "192.0.2.2"), true) // a request of the session
		const entry = "admin.sign_in c 192.0.2.2 console=code"
		check(t, "to the console", s.take(), entry, entry)
		<-time.After(time.Minute)
		r.SignedIn(from("a", "2001:db8::3"), false)
		check(t, "after an hour", s.take(), "admin.sign_in a 2001:db8::3")

		<-time.After(time.Second)
		for i := range 5 {
			r.ScopeRefused(from("b", fmt.Sprint(i)), "admin")
			r.ScopeRefused(from("a", fmt.Sprint(i)), "plants:create")
		}
		r.ScopeRefused(from("a", "9"), "admin")
		check(t, "refusals within a minute", s.take())
		<-time.After(time.Minute)
		check(t, "refusals after a minute", s.take(), "scope.refused a 9 scope=admin count=1",
			"scope.refused a 4 scope=plants:create count=5", "scope.refused b 4 scope=admin count=5")
		<-time.After(time.Minute)
		check(t, "no refusals", s.take())

		r.ScopeRefused(from("a", "1"), "admin")
		r.Close()
		check(t, "refusals at the end", s.take(), "scope.refused a 1 scope=admin count=1")
	})
}

// TestRecorderKeepsEvents shows that events wait for a store that accepts none, up to the limit.
func TestRecorderKeepsEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		s := &sink{err: errors.New("no space left")}
		r := audit.NewRecorder(s.append, slog.New(slog.NewTextHandler(&log, nil)))
		for i := range 1005 {
			r.Record(audit.Event{Action: audit.Action(fmt.Sprint(i))})
		}
		for i := range 1003 {
			r.ScopeRefused(from(fmt.Sprint(i), ""), "admin")
		}
		check(t, "while the store accepts none", s.take())
		if !strings.Contains(log.String(), `level=WARN msg="could not append to the audit log; `+
			`a running server retries within a minute" events=`) || !strings.Contains(log.String(), `error="no space left"`) {
			t.Errorf("log:\n%s", &log)
		}
		if n := strings.Count(log.String(), "\n"); n != 1 {
			t.Errorf("%d lines for one attempt:\n%s", n, &log)
		}
		s.fail(nil)
		<-time.After(time.Minute)
		got := s.take()
		if len(got) != 1001 || got[0] != "0  " || got[999] != "999  " || got[1000] != "audit.lost   count=1008" {
			t.Errorf("%d events, %q … %q", len(got), got[0], got[len(got)-1])
		}
		calls := s.calls
		r.Flush(t.Context())
		r.Close()
		check(t, "twice", s.take())
		if s.calls != calls {
			t.Errorf("%d calls without events", s.calls-calls)
		}
	})
}

// TestRecorderResumes records an event during the first successful attempt after a failure.
func TestRecorderResumes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &sink{err: errors.New("no space left")}
		appending, proceed := make(chan struct{}, 3), make(chan struct{}, 3)
		r := audit.NewRecorder(func(ctx context.Context, events ...audit.Event) error {
			appending <- struct{}{}
			<-proceed
			return s.append(ctx, events...)
		}, slog.New(slog.DiscardHandler))
		proceed <- struct{}{}
		r.Record(audit.Event{Action: "a"})
		check(t, "failure", s.take())
		<-appending

		s.fail(nil)
		go r.Flush(t.Context()) // ends with the attempt
		<-appending
		r.Record(audit.Event{Action: "b"})
		synctest.Wait() // the goroutine of the recorder has received the signal
		close(proceed)
		check(t, "success", s.take(), "a  ", "b  ")
		r.Close()
	})
}

// TestRecorderBoundsSignIns signs in with more actors than the recorder remembers, and from more networks: it counts
// the others. Each use of a credential with the scope admin from a new network still has its entry.
func TestRecorderBoundsSignIns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &sink{}
		r := audit.NewRecorder(s.append, slog.New(slog.DiscardHandler))
		signIn := func(actor, address string, admin bool) {
			r.SignedIn(from(actor, address), admin)
			synctest.Wait()
		}
		for i := range 1000 {
			signIn("least", fmt.Sprintf("198.51.%d.%d", i>>8, i&255), false)
		}
		if n := len(s.take()); n != 50 {
			t.Errorf("%d entries of one actor, want 50", n)
		}
		for range 2 {
			for i := range 451 {
				signIn(fmt.Sprint(i), "192.0.2.1", false)
			}
		}
		if got := s.take(); len(got) != 451 || got[1] != "audit.lost   count=950" {
			t.Errorf("%d entries of other actors, %q", len(got), got[:min(len(got), 2)])
		}
		for range 101 {
			r.SignedIn(from("0", "192.0.2.1"), false, audit.Detail{Key: "console", Value: "token"})
			synctest.Wait()
		}
		if got := s.take(); len(got) != 101 || got[0] != "admin.sign_in 0 192.0.2.1 console=token" {
			t.Errorf("%d entries of sign-ins to the console, want 100 and audit.lost", len(got))
		}
		signIn("operator", "192.0.2.1", true)
		check(t, "with the scope admin", s.take(), "admin.sign_in operator 192.0.2.1", "audit.lost   count=1")
		<-time.After(time.Hour)
		for range 2 { // the old ones are forgotten
			signIn("1000", "", false)
		}
		check(t, "after an hour", s.take(), "admin.sign_in 1000 ")
		r.Close()
	})
}

// TestRecorderKeepsAdministrators shows that events which the least credential can cause leave room for others while
// the store accepts none.
func TestRecorderKeepsAdministrators(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &sink{err: errors.New("no space left")}
		r := audit.NewRecorder(s.append, slog.New(slog.DiscardHandler))
		for i := range 600 {
			r.SignedIn(from(fmt.Sprint("reader", i), "192.0.2.1"), false, audit.Detail{Key: "console", Value: "token"})
		}
		for i := range 600 {
			r.ScopeRefused(from(fmt.Sprint(i), ""), "admin")
		}
		<-time.After(time.Minute) // counts the refusals
		synctest.Wait()           // for the attempt at the same time
		r.SignedIn(from("operator", "192.0.2.1"), true)
		s.fail(nil)
		<-time.After(time.Minute)
		got := s.take()
		if len(got) != 502 || got[500] != "admin.sign_in operator 192.0.2.1" || got[501] != "audit.lost   count=700" {
			t.Errorf("%d events, %q", len(got), got[max(0, len(got)-2):])
		}
		r.Close()
	})
}

// TestRecorderRace records from several goroutines, and with a nil Recorder.
func TestRecorderRace(t *testing.T) {
	t.Parallel()
	s := &sink{}
	r := audit.NewRecorder(s.append, slog.New(slog.DiscardHandler))
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 100 {
				r.Record(audit.Event{Action: "x"})
				r.SignedIn(from(fmt.Sprint(i), ""), true)
				r.ScopeRefused(from(fmt.Sprint(i), ""), "admin")
			}
		})
	}
	wg.Wait()
	r.Close()
	slices.Sort(s.events)
	got := slices.DeleteFunc(s.events, func(e string) bool { return e == "x  " })
	check(t, "events", got,
		"admin.sign_in 0 ", "admin.sign_in 1 ", "admin.sign_in 2 ", "admin.sign_in 3 ",
		"scope.refused 0  scope=admin count=100", "scope.refused 1  scope=admin count=100",
		"scope.refused 2  scope=admin count=100", "scope.refused 3  scope=admin count=100")
	var none *audit.Recorder
	none.SignedIn(from("a", ""), true)
	none.ScopeRefused(from("a", ""), "admin")
}
