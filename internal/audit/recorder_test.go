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
	err    error // for the next calls
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

// TestRecorder records events and sign-ins.
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

		r.Close()
	})
}

// TestRecorderCollects records events that clients cause again and again: one at once, and then one each minute. They
// have the counts and sums of all.
func TestRecorderCollects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &sink{}
		r := audit.NewRecorder(s.append, slog.New(slog.DiscardHandler))
		minute := func() {
			<-time.After(time.Minute)
			synctest.Wait()
		}
		<-time.After(time.Second)
		for i := range 5 {
			collect(r, "export", from("a", fmt.Sprint(i)), "result=complete", int64(i))
			collect(r, "export", from("b", fmt.Sprint(i)), "result=complete", 1)
		}
		collect(r, "export", from("a", "9"), "result=failed", 7)
		collect(r, "import", from("a", "9"), "result=complete", 7)
		check(t, "at once", s.take(), "export a 0 result=complete plants=0", "export b 0 result=complete plants=1",
			"export a 9 result=failed plants=7", "import a 9 result=complete plants=7")
		minute()
		check(t, "after a minute", s.take(), "export a 4 result=complete count=4 plants=10",
			"export b 4 result=complete count=4 plants=4")
		collect(r, "export", from("a", "1"), "result=complete", 2)
		check(t, "in the next minute", s.take())
		minute()
		check(t, "after two minutes", s.take(), "export a 1 result=complete count=1 plants=2")
		minute()
		check(t, "without events", s.take())
		collect(r, "export", from("a", "1"), "result=complete", 2)
		check(t, "again", s.take(), "export a 1 result=complete plants=2")
		collect(r, "export", from("a", "2"), "result=complete", 2)
		r.Close()
		check(t, "at the end", s.take(), "export a 2 result=complete count=1 plants=2")
	})
}

// collect records an event with a number of plants.
func collect(r *audit.Recorder, action audit.Action, by audit.Origin, detail string, plants int64) {
	key, value, _ := strings.Cut(detail, "=")
	r.Collect(audit.Event{
		Time: time.Now(), Action: action, Origin: by, Details: []audit.Detail{{Key: key, Value: value}},
	}, audit.Sum{Key: "plants", N: plants})
}

// refuse records a refused scope.
func refuse(r *audit.Recorder, by audit.Origin) {
	r.Collect(audit.Event{
		Time: time.Now(), Action: audit.ScopeRefused, Origin: by, Details: []audit.Detail{{Key: "scope", Value: "admin"}},
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
			refuse(r, from(fmt.Sprint(i), ""))
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
		if len(got) != 1001 || got[0] != "0  " || got[999] != "999  " || got[1000] != "audit.lost   count=8" {
			t.Errorf("%d events, %q … %q", len(got), got[0], got[len(got)-1])
		}
		for range 2 {
			<-time.After(time.Minute)
		}
		if got = s.take(); len(got) != 1000 || got[0] != "scope.refused 0  scope=admin count=1" {
			t.Errorf("%d refusals, %q", len(got), got[:min(len(got), 1)])
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
		if n := len(s.take()); n != 450 {
			t.Errorf("%d entries of other actors, want 450", n)
		}
		for range 101 {
			r.SignedIn(from("0", "192.0.2.1"), false, audit.Detail{Key: "console", Value: "token"})
			synctest.Wait()
		}
		if got := s.take(); len(got) != 100 || got[0] != "admin.sign_in 0 192.0.2.1 console=token" {
			t.Errorf("%d entries of sign-ins to the console, want 100", len(got))
		}
		signIn("operator", "192.0.2.1", true)
		check(t, "with the scope admin", s.take(), "admin.sign_in operator 192.0.2.1")
		<-time.After(time.Minute)
		check(t, "after a minute", s.take(), "audit.lost   count=953")
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
			refuse(r, from(fmt.Sprint(i), ""))
		}
		<-time.After(time.Minute) // counts the lost ones
		synctest.Wait()           // for the attempt at the same time
		r.SignedIn(from("operator", "192.0.2.1"), true)
		s.fail(nil)
		<-time.After(time.Minute)
		got := s.take()
		if len(got) != 502 || got[500] != "audit.lost   count=100" || got[501] != "admin.sign_in operator 192.0.2.1" {
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
				refuse(r, from(fmt.Sprint(i), ""))
			}
		})
	}
	wg.Wait()
	r.Close()
	slices.Sort(s.events)
	got := slices.DeleteFunc(s.events, func(e string) bool { return e == "x  " })
	check(t, "events", got,
		"admin.sign_in 0 ", "admin.sign_in 1 ", "admin.sign_in 2 ", "admin.sign_in 3 ",
		"scope.refused 0  scope=admin", "scope.refused 0  scope=admin count=99",
		"scope.refused 1  scope=admin", "scope.refused 1  scope=admin count=99",
		"scope.refused 2  scope=admin", "scope.refused 2  scope=admin count=99",
		"scope.refused 3  scope=admin", "scope.refused 3  scope=admin count=99")
	var none *audit.Recorder
	none.SignedIn(from("a", ""), true)
	refuse(none, from("a", ""))
	none.Flush(t.Context())
}
