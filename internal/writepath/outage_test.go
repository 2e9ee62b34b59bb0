package writepath_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/store"
	"plantstore/internal/writepath"
)

// journal collects log lines without their times.
type journal struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(line)
}

func (j *journal) lines() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Split(strings.TrimSuffix(j.text.String(), "\n"), "\n")
}

func (j *journal) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		away := time.Duration(0)
		if a.Key == "outage_us" {
			away = time.Duration(a.Value.Int64()) * time.Microsecond
		}
		switch {
		case a.Key == slog.TimeKey:
			return slog.Attr{}
		case 19*time.Second < away && away < 25*time.Second: // polls and requests are at the same times
			return slog.String("away", "about 20s")
		}
		return a
	}}))
}

func loggedService(t *testing.T, e writepath.Engine) (*writepath.Service, *journal) {
	t.Helper()
	j := &journal{}
	s, err := writepath.New(t.Context(), writepath.Config{Engine: e, Limits: limits, Log: j.log()})
	if err != nil {
		t.Fatal(err)
	}
	return s, j
}

func wantLines(t *testing.T, j *journal, want ...string) {
	t.Helper()
	if len(want) == 0 {
		want = []string{""}
	}
	if diff := cmp.Diff(want, j.lines()); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

// TestOutage has an engine fail or hang for 20 s, while clients send requests: the store is not ready within 2 s, and
// the log has one line for the start of the outage and one for its end.
func TestOutage(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fail, recover func(*stub)
		want          []string
	}{
		"fails": {
			func(e *stub) { e.err = errors.New("dial: refused") },
			func(e *stub) { e.err = nil },
			[]string{
				`level=ERROR msg="store unreachable" error="dial: refused"`,
				`level=INFO msg="store reachable again" away="about 20s" commits_failed=200 plants_failed=200`,
			},
		},
		"hangs": {
			func(e *stub) { e.pollTime = time.Hour },
			func(e *stub) { e.pollTime = 0 },
			[]string{
				`level=ERROR msg="store unreachable" error="no answer in time"`,
				`level=INFO msg="store reachable again" away="about 20s" commits_failed=200 plants_failed=200`,
			},
		},
		"is slow": {
			func(e *stub) { e.pollTime = 2 * time.Second },
			func(e *stub) { e.pollTime = 0 },
			[]string{
				`level=ERROR msg="store unreachable" error="no answer in time"`,
				`level=INFO msg="store reachable again" away="about 20s" commits_failed=200 plants_failed=200`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := &stub{}
				secret, token := newToken(7)
				e.tokens = []auth.Token{token}
				failing := false
				e.insert = func(context.Context, []store.Create) error {
					e.mu.Lock()
					defer e.mu.Unlock()
					if failing {
						return errors.New("dial: refused")
					}
					return nil
				}
				s, j := loggedService(t, e)
				defer s.Close()
				time.Sleep(10 * time.Second) //nolint:forbidigo // the bubble's clock, not a wait
				e.mu.Lock()
				failing = true
				test.fail(e)
				e.mu.Unlock()
				for i := range 200 { // 10 a second
					ready := s.Ready()
					since := time.Duration(i) * 100 * time.Millisecond
					if since < time.Second && ready != nil || since >= 2*time.Second && ready == nil {
						t.Errorf("Ready %s after the failure: %v", since, ready)
					}
					go func() { _, _ = s.Authenticate(t.Context(), secret) }() // ends with its poll
					if _, err := s.Create(nil, auth.Principal{}, newPlant(int64(i))); codeOf(err) != plant.CodeStoreUnavailable {
						t.Errorf("Create: %v", err)
					}
					time.Sleep(100 * time.Millisecond) //nolint:forbidigo // the bubble's clock, not a wait
				}
				e.mu.Lock()
				failing = false
				test.recover(e)
				e.mu.Unlock()
				time.Sleep(10 * time.Second) //nolint:forbidigo // the bubble's clock, not a wait
				if err := s.Ready(); err != nil {
					t.Errorf("Ready after the recovery: %v", err)
				}
				wantLines(t, j, test.want...)
			})
		})
	}
}

// TestReachableMetric has an engine without a request fail and hang.
func TestReachableMetric(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*stub){
		"fails": func(e *stub) { e.err = errors.New("dial: refused") },
		"hangs": func(e *stub) { e.pollTime = time.Hour },
	} {
		synctest.Test(t, func(t *testing.T) {
			e, metrics := &stub{}, prometheus.NewRegistry()
			s, err := writepath.New(t.Context(), writepath.Config{Engine: e, Limits: limits, Metrics: metrics})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			check := func(state string, want int) {
				t.Helper()
				time.Sleep(10 * time.Second) //nolint:forbidigo // the bubble's clock, not a wait
				const name = "plantstore_store_reachable"
				text := fmt.Sprintf("# HELP %[1]s 1 if the store responded within the last 1.5 s; the server polls it four "+
					"times a second.\n# TYPE %[1]s gauge\n%[1]s %[2]d\n", name, want)
				if err := testutil.GatherAndCompare(metrics, strings.NewReader(text), name); err != nil {
					t.Errorf("%s: %v", state, err)
				}
			}
			check("before the engine "+name, 1)
			e.change(fail)
			check("while the engine "+name, 0)
			e.change(func(e *stub) { e.err, e.pollTime = nil, 0 })
			check("after the engine "+name, 1)
		})
	}
}

// TestReadyAfterStop has a process that did not run for an hour: its last poll is old, but none has failed.
func TestReadyAfterStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, j := loggedService(t, &stub{})
		defer s.Close()
		s.SetPolledAt(time.Now().Add(-time.Hour))
		if err := s.Ready(); err != nil {
			t.Errorf("Ready before the next poll: %v", err)
		}
		time.Sleep(10 * time.Second) //nolint:forbidigo // the bubble's clock, not a wait
		if err := s.Ready(); err != nil {
			t.Errorf("Ready after the next poll: %v", err)
		}
		wantLines(t, j)
	})
}

// TestCommitFailed has commits fail for a short time: the log has one line for them.
func TestCommitFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		failing, e := errors.New("reset"), &stub{}
		e.insert = func(_ context.Context, batch []store.Create) error {
			e.mu.Lock()
			defer e.mu.Unlock()
			if failing == nil {
				return nil
			}
			return fmt.Errorf("%w: plant %d", failing, batch[0].Plant.ID)
		}
		s, j := loggedService(t, e)
		time.Sleep(10*time.Second + time.Millisecond) //nolint:forbidigo // the bubble's clock, not a wait
		for i := range int64(5) {
			if _, err := s.Create(nil, auth.Principal{}, newPlant(i)); codeOf(err) != plant.CodeStoreUnavailable {
				t.Errorf("got %v", err)
			}
		}
		e.change(func(*stub) { failing = nil })
		time.Sleep(2 * time.Second) //nolint:forbidigo // the bubble's clock, not a wait
		if err := s.Ready(); err != nil {
			t.Error(err)
		}
		e.change(func(*stub) { failing = errors.New("busy") })
		if _, err := s.Create(nil, auth.Principal{}, newPlant(6)); codeOf(err) != plant.CodeStoreUnavailable {
			t.Errorf("got %v", err)
		}
		s.Close()
		wantLines(t, j,
			`level=ERROR msg="commit failed" commits=5 plants=5 error="reset: plant 0"`,
			`level=ERROR msg="commit failed" commits=1 plants=1 error="busy: plant 6"`)
	})
}

// TestRefusing has every commit fail for a minute, while the engine is reachable. After 2 s, the store is not ready,
// but still tries to store plants. It is ready again when a plant is stored, and without a client within 1 s. The start
// and the end are logged once each.
func TestRefusing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		failure error
		client  bool // ends the failures, otherwise a probe does
		reason  string
	}{
		"full disk, a create":       {store.ErrFull, true, "the disk of the store is full; free space on it"},
		"full disk, no create":      {store.ErrFull, false, "the disk of the store is full; free space on it"},
		"unknown outcome":           {store.ErrOutcomeUnknown, false, "commits fail; see the log"},
		"too many connections":      {errors.New("sorry, too many clients already"), true, "commits fail; see the log"},
		"locked by another process": {store.ErrBusy, false, "commits fail; see the log"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { testRefusing(t, test.failure, test.client, test.reason) })
		})
	}
}

func testRefusing(t *testing.T, failure error, client bool, reason string) {
	t.Helper()
	e, calls, failing := &stub{}, 0, failure
	e.insert = func(context.Context, []store.Create) error {
		e.mu.Lock()
		defer e.mu.Unlock()
		calls++
		return failing
	}
	s, j := loggedService(t, e)
	defer s.Close()
	time.Sleep(time.Millisecond) //nolint:forbidigo // the bubble's clock: the probes are at other times
	for i := range 30 {          // 10 a second
		ready, since := s.Ready(), time.Duration(i)*100*time.Millisecond
		if since < 2*time.Second && ready != nil || since > 2*time.Second && ready == nil {
			t.Errorf("Ready %s after the first failed commit: %v", since, ready)
		}
		if _, err := s.Create(nil, auth.Principal{}, newPlant(1)); err == nil {
			t.Error("Create succeeded")
		}
		time.Sleep(100 * time.Millisecond) //nolint:forbidigo // the bubble's clock, not a wait
	}
	e.change(func(*stub) { calls = 0 })
	time.Sleep(time.Minute) //nolint:forbidigo // the bubble's clock, not a wait
	e.change(func(*stub) {
		if calls != 60 {
			t.Errorf("%d probes in a minute", calls)
		}
		failing = nil
	})
	if err := s.Ready(); err == nil || err.Error() != reason {
		t.Errorf("Ready after a minute: %v; want %s", err, reason)
	}
	if client {
		if _, err := s.Create(nil, auth.Principal{}, newPlant(1)); err != nil {
			t.Errorf("the first Create: %v", err)
		}
	} else {
		time.Sleep(time.Second) //nolint:forbidigo // the bubble's clock, not a wait
	}
	if err := s.Ready(); err != nil {
		t.Errorf("Ready at the end: %v", err)
	}
	time.Sleep(time.Minute) //nolint:forbidigo // the bubble's clock, not a wait
	lines := j.lines()
	if len(lines) != 2 ||
		!strings.HasPrefix(lines[0], `level=ERROR msg="store accepts no plants" error=`) ||
		!strings.Contains(lines[0], failure.Error()) ||
		!strings.HasPrefix(lines[1], `level=INFO msg="store accepts plants again" outage_us=`) ||
		!strings.HasSuffix(lines[1], ` commits_failed=30 plants_failed=30`) {
		t.Errorf("log:\n%s", strings.Join(lines, "\n"))
	}
}

// TestProbeBroken has a probe end the store.
func TestProbeBroken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, failing := &stub{}, store.ErrFull
		e.insert = func(context.Context, []store.Create) error {
			e.mu.Lock()
			defer e.mu.Unlock()
			return failing
		}
		s, _ := loggedService(t, e)
		defer s.Close()
		if _, err := s.Create(nil, auth.Principal{}, newPlant(1)); err == nil {
			t.Error("Create succeeded")
		}
		e.change(func(*stub) { failing = store.ErrBroken })
		<-s.Broken()
	})
}

// TestPollBroken has a poll end the store.
func TestPollBroken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &stub{}
		s, log := loggedService(t, e)
		defer s.Close()
		e.change(func(*stub) { e.err = fmt.Errorf("%w: a read", store.ErrBroken) })
		time.Sleep(time.Second) //nolint:forbidigo // the bubble's clock, not a wait
		select {
		case <-s.Broken():
			t.Error("a failed read ended the store")
		default:
		}
		e.change(func(*stub) { e.err = fmt.Errorf("%w: no file", store.ErrRemoved) })
		<-s.Broken()
		if err := s.Ready(); err == nil || err.Error() != "the store failed; see the log" {
			t.Errorf("Ready: %v", err)
		}
		wantLines(t, log, `level=ERROR msg="store failed" error="the store failed: its files have changed: no file"`)
	})
}

// TestSleep has the clock leap, as after the machine slept: that is no outage.
func TestSleep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &stub{}
		s, j := loggedService(t, e)
		defer s.Close()
		for _, leap := range []time.Duration{-time.Hour, time.Hour} {
			s.SetPolledAt(time.Now().Add(leap))
			time.Sleep(time.Second) //nolint:forbidigo // the bubble's clock, not a wait
			if err := s.Ready(); err != nil {
				t.Error(err)
			}
		}
		wantLines(t, j)
	})
}
