package admin_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"plantstore/internal/admin"
	"plantstore/internal/auth"
	"plantstore/internal/backup"
	"plantstore/internal/plant"
	"plantstore/internal/sqlite"
	"plantstore/internal/store"
	"plantstore/internal/webhook"
	"plantstore/internal/writepath"
)

// still is an engine for warnings, whose methods return at once.
type still struct {
	admin.Engine

	durability atomic.Pointer[store.Durability] // nil: the zero value
	sizes      atomic.Pointer[store.Sizes]
}

func (s *still) Durability() (d store.Durability) {
	if known := s.durability.Load(); known != nil {
		d = *known
	}
	return d
}

func (s *still) Sizes() *store.Sizes { return s.sizes.Load() }

// watched is a server with these numbers, in a bubble of synctest.
type watched struct {
	*admin.Service

	t          *testing.T
	engine     still
	deliveries map[int64]webhook.Status

	mu      sync.Mutex
	numbers admin.Numbers // guarded by mu; a change replaces a map
}

// watch starts a server after it has been set up.
func watch(t *testing.T, setUp func(*watched)) *watched {
	t.Helper()
	w := &watched{t: t}
	setUp(w)
	var err error
	w.Service, err = admin.New(admin.Config{
		Engine: &w.engine, Deliveries: func() map[int64]webhook.Status { return w.deliveries },
		Numbers: func() admin.Numbers {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.numbers
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	w.Start()
	return w
}

// set changes the numbers.
func (w *watched) set(change func(*admin.Numbers)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.numbers)
}

// after compares the texts of the warnings after a time.
func (w *watched) after(d time.Duration, want ...string) {
	w.t.Helper()
	<-time.After(d)
	synctest.Wait()
	var got []string
	for _, one := range w.Warnings(w.t.Context()) {
		got = append(got, one.ID+": "+one.Text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("warnings, -want +got:\n%s", diff)
	}
}

// TestFailuresAreNoticed shows that a warning tells how often and when a counter has risen, until 15 minutes after.
func TestFailuresAreNoticed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, func(*watched) {})
		w.after(time.Minute)
		w.set(func(n *admin.Numbers) {
			n.Errors = map[plant.Code]int64{plant.CodeQueueFull: 1, plant.CodeCredentialMissing: 1}
		})
		w.after(10*time.Second, "creates-fail: Requests have failed once, at 00:01 UTC: 50301 queue-full.")
		w.set(func(n *admin.Numbers) {
			n.Errors = map[plant.Code]int64{plant.CodeQueueFull: 1, plant.CodeInternal: 2}
		})
		w.after(10*time.Minute,
			"creates-fail: Requests have failed 3 times since 00:01 UTC, the last time at 00:01 UTC: "+
				"50001 internal, 50301 queue-full.")
		w.set(func(n *admin.Numbers) { n.WritePath.CommitsFailed = 1 })
		w.after(10*time.Second, "commits-fail: Commits have failed once, at 00:11 UTC.")
		began := w.Warnings(t.Context())[0].Since
		w.after(14*time.Minute, "commits-fail: Commits have failed once, at 00:11 UTC.")
		if now := w.Warnings(t.Context())[0].Since; !now.Equal(began) {
			t.Errorf("noticed at %s, then at %s", began, now)
		}
		w.after(time.Minute + 10*time.Second)
	})
}

// TestConditions shows the warning of each condition.
func TestConditions(t *testing.T) {
	t.Parallel()
	begin := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // of a bubble
	certificate := func(w *watched, valid, left time.Duration) {
		end := begin.Add(left)
		w.numbers.Certificate = &admin.Validity{Begin: end.Add(-valid), End: end}
	}
	const year = 365 * 24 * time.Hour
	for name, test := range map[string]struct {
		is   func(w *watched)
		want string // empty: no warning
	}{
		"nothing":                {func(*watched) {}, ""},
		"a copy of a minute ago": {func(w *watched) { w.numbers.Backups.CopyLag = time.Minute }, ""},
		"a copy that is late": {
			func(w *watched) { w.numbers.Backups.CopyLag = time.Hour },
			"copy-late: The destination of the backups lacks the commits since 1999-12-31 23:01 UTC: " +
				"it is slower than the creates.",
		},
		"segments": {func(w *watched) { w.numbers.Backups.Segments = 250_000 }, ""},
		"too many segments": {
			func(w *watched) { w.numbers.Backups.Segments = 250_001 },
			"segments-grow: The copied commits are in 250001 segments, because merges of them fail or take too long.",
		},
		"failed merges": {
			func(w *watched) {
				w.numbers.Backups.Segments, w.numbers.Backups.MergeLag = 70, 15*time.Minute+1
			},
			"segments-grow: The copied commits are in 70 segments, because merges of them fail or take too long.",
		},
		"vanished backups": {
			func(w *watched) { w.numbers.Backups.Vanished = 2 },
			"backups-vanish: Backups have vanished 2 times since 00:00 UTC, the last time at 00:00 UTC: " +
				"somebody has removed them, or their disk is not mounted.",
		},
		"a certificate of a year": {func(w *watched) { certificate(w, year, 15*24*time.Hour) }, ""},
		"a certificate of a year, in 13 days": {
			func(w *watched) { certificate(w, year, 13*24*time.Hour) },
			"certificate-expires: The TLS certificate expires at 2000-01-14 00:00 UTC; then clients refuse to connect.",
		},
		"a certificate of a day, in 4 hours": {
			func(w *watched) { certificate(w, 24*time.Hour, 4*time.Hour) },
			"certificate-expires: The TLS certificate expires at 04:00 UTC; then clients refuse to connect.",
		},
		"a certificate of a year, tomorrow": {
			func(w *watched) { certificate(w, year, 24*time.Hour) },
			"CRITICAL certificate-expires: The TLS certificate expires at 2000-01-02 00:00 UTC; then clients refuse to connect.",
		},
		"a certificate of a day, in an hour": {
			func(w *watched) { certificate(w, 24*time.Hour, 65*time.Minute) },
			"CRITICAL certificate-expires: The TLS certificate expires at 01:05 UTC; then clients refuse to connect.",
		},
		"an expired certificate": {
			func(w *watched) { certificate(w, year, 0) },
			"CRITICAL certificate-expires: The TLS certificate expired at 00:00 UTC, so clients refuse to connect.",
		},
		"no certificate": {
			func(w *watched) { w.numbers.Certificate = &admin.Validity{} },
			"CRITICAL certificate-expires: The server has no TLS certificate yet, so no client can connect.",
		},
		"a refused certificate": {
			func(w *watched) { w.numbers.CertificatesRefused = 1 },
			"certificate-refused: New files of the TLS certificate were refused once, at 00:00 UTC; " +
				"the previous one stays in use.",
		},
		"a failed order": {
			func(w *watched) { w.numbers.OrdersFailed = 1 },
			"orders-fail: Orders of the TLS certificate have failed once, at 00:00 UTC.",
		},
		"old keys": {
			func(w *watched) {
				w.numbers.KeyFetchesFailed, w.numbers.KeysFetched = 1, begin.Add(-29*time.Minute) // it is a minute later
			},
			"issuer-keys-old: The keys of the issuer could not be fetched once, at 00:00 UTC.",
		},
		"keys that are not old": {
			func(w *watched) {
				w.numbers.KeyFetchesFailed, w.numbers.KeysFetched = 1, begin.Add(-29*time.Minute+1)
			},
			"",
		},
		"dropped lines of the log": {
			func(w *watched) { w.numbers.LogLinesDropped = 3 },
			"log-incomplete: Lines of the server's log were dropped 3 times since 00:00 UTC, the last time at 00:00 UTC.",
		},
		"a refused connection": {
			func(w *watched) { w.numbers.ConnectionsRefused = map[string]int64{"public address": 1} }, "",
		},
		"a late event": {
			func(w *watched) {
				w.deliveries = map[int64]webhook.Status{1: {}, 2: {Oldest: begin.Add(-time.Hour)}}
			},
			"events-late: An event for a webhook has waited since 1999-12-31 23:00 UTC.",
		},
		"many failing receivers": {
			func(w *watched) {
				w.deliveries = map[int64]webhook.Status{}
				for i := range int64(16) {
					w.deliveries[i] = webhook.Status{
						Address: fmt.Sprintf("https://%d.example", i), Failures: 1, Reason: "status 503",
					}
				}
			},
			"events-late: Deliveries to 16 webhooks fail: https://0.example: status 503; https://1.example: status 503; " +
				"https://2.example: status 503; 13 others.",
		},
		"an unsafe database": {
			func(w *watched) {
				w.engine.durability.Store(&store.Durability{Warnings: []string{"fsync is off; set fsync = on"}})
			},
			"CRITICAL not-durable: Acknowledged plants are at risk: fsync is off; set fsync = on.",
		},
		"a large WAL, and no space for a copy": {
			func(w *watched) {
				w.engine.sizes.Store(&store.Sizes{File: 1 << 30, WAL: 64 << 20, WALMax: 32 << 20, DiskFree: 2_000_000_000})
			},
			"disk-too-small: The store's disk has only 1.9 GiB free, too little for a copy of the store.; wal-grows: " +
				"The write-ahead log has 64.0 MiB, more than its limit: a reader blocks its checkpoint.; backup-missing: " +
				"The server makes no backups.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := watch(t, test.is)
				<-time.After(time.Minute)
				synctest.Wait()
				var got []string
				for _, one := range w.Warnings(t.Context()) {
					text := one.ID + ": " + one.Text
					if one.Severity == admin.Critical {
						text = "CRITICAL " + text
					}
					got = append(got, text)
				}
				if got := strings.Join(got, "; "); got != test.want {
					t.Errorf("got  %s\nwant %s", got, test.want)
				}
			})
		})
	}
}

// TestSuccessEndsWarning shows that an issued certificate ends the warning about orders, which lasts until then, and
// that refusals are a warning once they have lasted.
func TestSuccessEndsWarning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, func(*watched) {})
		refuse := func(plants, connections int64) {
			w.set(func(n *admin.Numbers) {
				n.WritePath.Refused = map[string]int64{"full": plants}
				n.ConnectionsRefused = map[string]int64{"public address": connections}
			})
		}
		w.set(func(n *admin.Numbers) { n.OrdersIssued = 1 })
		w.after(10 * time.Second)
		w.set(func(n *admin.Numbers) { n.OrdersFailed = 1 })
		w.after(10*time.Hour, "orders-fail: Orders of the TLS certificate have failed once, at 00:00 UTC.")
		w.set(func(n *admin.Numbers) { n.OrdersIssued = 2 })
		refuse(1, 0)
		w.after(10 * time.Minute)
		refuse(2, 1)
		const full = "queue-full: The queue is full: plants were refused 2 times since 10:00 UTC, " +
			"the last time at 10:10 UTC, reason full."
		w.after(10*time.Second, full)
		w.after(10*time.Minute, full)
		refuse(2, 5)
		w.after(10*time.Second, full, "connections-refused: Connections were refused 5 times since 10:10 UTC, "+
			"the last time at 10:20 UTC: public address.")
	})
}

// TestStandbyIsLost shows that a database without a standby is a warning only if it had one.
func TestStandbyIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, func(*watched) {})
		w.after(time.Minute)
		w.engine.durability.Store(&store.Durability{Standby: true})
		w.after(time.Minute)
		w.engine.durability.Store(nil)
		w.after(time.Minute, "standby-missing: The database has lost its synchronous standby.")
	})
}

// TestDiskFills shows that a disk that would be full soon is a warning, unless a single step filled it.
func TestDiskFills(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, func(*watched) {})
		const gb = 1_000_000_000
		left := 1000.0 * gb
		pass := func(minutes int, bytesPerMinute float64) (ids []string) {
			for range minutes {
				left -= bytesPerMinute
				w.engine.sizes.Store(&store.Sizes{DiskFree: int64(left)})
				<-time.After(time.Minute)
				synctest.Wait()
			}
			for _, one := range w.Warnings(t.Context()) {
				ids = append(ids, string(one.Severity)+" "+one.ID)
			}
			return ids[:len(ids)-1] // without the one about backups
		}
		for _, step := range []struct {
			minutes int
			rate    float64
			want    []string
		}{
			{60, 0, nil},
			{1, 900 * gb, nil},
			{31, 0, nil},
			{20, gb / 2, nil}, // only in the last half hour
			{43, gb / 2, []string{"critical disk-fills"}},
			{32, 0, nil},
			{6*60 + 3, gb / 10, []string{"warning disk-fills"}},
		} {
			if diff := cmp.Diff(step.want, pass(step.minutes, step.rate), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%d minutes, -want +got:\n%s", step.minutes, diff)
			}
		}
	})
}

// fullEngine is an engine whose disk is full until it is freed.
type fullEngine struct {
	writepath.Engine

	freed atomic.Bool
}

func (e *fullEngine) Insert(ctx context.Context, batch []store.Create) ([]store.Outcome, error) {
	if !e.freed.Load() {
		return nil, store.ErrFull
	}
	return e.Engine.Insert(ctx, batch)
}

func (e *fullEngine) Probe(ctx context.Context) error {
	if !e.freed.Load() {
		return store.ErrFull
	}
	return e.Engine.Probe(ctx)
}

// TestFullDisk shows that a full disk is one warning, which hides those about its effects.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "plants.db")
		engine, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Server: true})
		if err != nil {
			t.Fatal(err)
		}
		defer engine.Close()
		full := &fullEngine{Engine: engine}
		writePath, err := writepath.New(t.Context(), writepath.Config{Engine: full})
		if err != nil {
			t.Fatal(err)
		}
		defer writePath.Close()
		// The error about a missing directory has its name.
		failing := backups(t, path, filepath.Join(t.TempDir(), syscall.ENOSPC.Error()))
		failing.Start()
		var failed atomic.Int64
		service, err := admin.New(admin.Config{
			Engine: engine, WritePath: writePath, Backups: failing, Numbers: func() admin.Numbers {
				return admin.Numbers{
					WritePath: writePath.Numbers(), Backups: failing.Numbers(),
					Errors: map[plant.Code]int64{plant.CodeStoreFull: failed.Load()},
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer service.Close()
		service.Start()
		const effects = "commits-fail creates-fail backups-fail"
		warnings := func() (ids []string) {
			<-time.After(time.Minute)
			synctest.Wait()
			for _, w := range service.Warnings(t.Context()) {
				if w.ID == "disk-fills" || strings.Contains(effects, w.ID) {
					ids = append(ids, string(w.Severity)+" "+w.ID)
				}
			}
			return ids
		}
		<-time.After(time.Minute)
		p := create(1, "Acer", plant.Tag{}).Plant
		if _, err := writePath.Create(nil, auth.Principal{}, p); err == nil {
			t.Error("the plant is stored on a full disk")
		}
		failed.Add(1)
		if diff := cmp.Diff([]string{"critical disk-fills"}, warnings()); diff != "" {
			t.Errorf("full, -want +got:\n%s", diff)
		}
		full.freed.Store(true)
		if diff := cmp.Diff([]string{"warning commits-fail", "warning backups-fail"}, warnings()); diff != "" {
			t.Errorf("freed, -want +got:\n%s", diff)
		}
	})
}

// TestStandby shows that a standby has no warnings, such as about plants that it refuses, until it cannot follow for
// half a minute; and that an owner without a renewal has a critical one.
func TestStandby(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "plants.db"), Server: true})
		if err != nil {
			t.Fatal(err)
		}
		defer engine.Close()
		status := backup.StandbyStatus{Host: "host-a", Current: time.Now()}
		reason := func() error { return status }
		writePath, err := writepath.New(t.Context(), writepath.Config{
			Engine: engine, MayAccept: func() error { return reason() },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer writePath.Close()
		service, err := admin.New(admin.Config{Engine: engine, WritePath: writePath})
		if err != nil {
			t.Fatal(err)
		}
		defer service.Close()
		want := func(want string) {
			t.Helper()
			var got []string
			for _, w := range service.Warnings(t.Context()) {
				got = append(got, fmt.Sprintf("%s %s: %s", w.Severity, w.ID, w.Text))
			}
			if text := strings.Join(got, " "); text != want {
				t.Errorf("got %q, want %q", text, want)
			}
		}
		<-time.After(30 * time.Second)
		want("")
		if s := service.State(t.Context()); s.Ready || s.Reason != "standby of the server on host-a, 30.0 s behind" {
			t.Errorf("got %t, %q", s.Ready, s.Reason)
		}
		_, err = service.Backups(t.Context(), admin.ListQuery{Limit: 1})
		refused, _ := errors.AsType[*plant.Error](err)
		const text = "there are no backups here because this server is a standby; " +
			"make changes at the server that accepts plants"
		if refused == nil || refused.Code != plant.CodeStoreUnavailable || refused.Message != text {
			t.Errorf("got %v, want %s", refused, text)
		}
		status.Fault = errors.New("list s3://plants: no response")
		<-time.After(time.Second)
		want("warning standby-behind: This standby lacks what the server on host-a has stored since 00:00 UTC: " +
			"list s3://plants: no response.")
		reason = func() error { return backup.ErrNotRenewed }
		want("critical commits-fail: The store accepts no plants: " + backup.ErrNotRenewed.Error() + ". " +
			"warning backup-missing: The server makes no backups.")
	})
}
