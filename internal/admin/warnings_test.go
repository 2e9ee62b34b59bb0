package admin_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"plantstore/internal/admin"
	"plantstore/internal/store"
	"plantstore/internal/webhook"
)

// still is an engine for warnings, whose methods return at once.
type still struct {
	admin.Engine

	durability store.Durability
	sizes      atomic.Pointer[store.Sizes]
}

func (s *still) Durability() store.Durability { return s.durability }

func (s *still) Sizes() *store.Sizes { return s.sizes.Load() }

// watched is a server with these metrics, in a bubble of synctest.
type watched struct {
	*admin.Service

	t          *testing.T
	metrics    *prometheus.Registry
	engine     still
	deliveries map[int64]webhook.Status
}

// watch starts a server after it has been set up.
func watch(t *testing.T, setUp func(*watched)) *watched {
	t.Helper()
	w := &watched{t: t, metrics: prometheus.NewRegistry()}
	setUp(w)
	var err error
	w.Service, err = admin.New(admin.Config{
		Engine: &w.engine, Metrics: w.metrics, Deliveries: func() map[int64]webhook.Status { return w.deliveries },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// counter registers a counter.
func (w *watched) counter(name string, labels prometheus.Labels) prometheus.Counter {
	return promauto.With(w.metrics).NewCounter(prometheus.CounterOpts{Name: name, ConstLabels: labels})
}

// gauge registers a gauge.
func (w *watched) gauge(name string, value float64) prometheus.Gauge {
	g := promauto.With(w.metrics).NewGauge(prometheus.GaugeOpts{Name: name})
	g.Set(value)
	return g
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
		commits := w.counter("plantstore_commits_failed_total", nil)
		full := w.counter("plantstore_http_errors_total", prometheus.Labels{"error": "50301", "name": "queue-full"})
		failed := w.counter("plantstore_http_errors_total", prometheus.Labels{"error": "50001", "name": "internal"})
		refused := w.counter("plantstore_http_errors_total", prometheus.Labels{"error": "40101", "name": "unauthorized"})
		w.after(time.Minute)
		refused.Inc()
		full.Inc()
		w.after(10*time.Second, "creates-fail: Requests have failed once, at 00:01 UTC: 50301 queue-full.")
		failed.Add(2)
		w.after(10*time.Minute,
			"creates-fail: Requests have failed 3 times since 00:01 UTC, the last time at 00:01 UTC: "+
				"50001 internal, 50301 queue-full.")
		commits.Inc()
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
	type labels = prometheus.Labels
	hour := time.Hour.Seconds()
	begin := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // of a bubble
	certificate := func(w *watched, valid, left time.Duration) {
		end := begin.Add(left)
		w.gauge("plantstore_tls_certificate_not_before_timestamp_seconds", float64(end.Add(-valid).Unix()))
		w.gauge("plantstore_tls_certificate_expiry_timestamp_seconds", float64(end.Unix()))
	}
	const year = 365 * 24 * time.Hour
	for name, test := range map[string]struct {
		is   func(w *watched)
		want string // empty: no warning
	}{
		"no metrics":             {func(*watched) {}, ""},
		"a copy of a minute ago": {func(w *watched) { w.gauge("plantstore_copy_lag_seconds", 60) }, ""},
		"a copy that is late": {
			func(w *watched) { w.gauge("plantstore_copy_lag_seconds", hour) },
			"copy-late: The destination of the backups lacks the commits since 1999-12-31 23:01 UTC: " +
				"it is slower than the creates.",
		},
		"segments": {func(w *watched) { w.gauge("plantstore_copy_segments", 250_000) }, ""},
		"too many segments": {
			func(w *watched) { w.gauge("plantstore_copy_segments", 250_001) },
			"segments-grow: The copied commits are in 250001 segments, because merges of them fail or take too long.",
		},
		"failed merges": {
			func(w *watched) {
				w.gauge("plantstore_copy_segments", 70)
				w.gauge("plantstore_copy_merge_lag_seconds", 901)
			},
			"segments-grow: The copied commits are in 70 segments, because merges of them fail or take too long.",
		},
		"vanished backups": {
			func(w *watched) { w.counter("plantstore_backups_vanished_total", nil).Add(2) },
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
			func(w *watched) {
				w.gauge("plantstore_tls_certificate_not_before_timestamp_seconds", 0)
				w.gauge("plantstore_tls_certificate_expiry_timestamp_seconds", 0)
			},
			"CRITICAL certificate-expires: The server has no TLS certificate yet, so no client can connect.",
		},
		"a refused certificate": {
			func(w *watched) {
				w.counter("plantstore_tls_certificate_reloads_total", labels{"result": "refused"}).Inc()
			},
			"certificate-refused: New files of the TLS certificate were refused once, at 00:00 UTC; " +
				"the previous one stays in use.",
		},
		"a failed order": {
			func(w *watched) { w.counter("plantstore_acme_orders_total", labels{"result": "failed"}).Inc() },
			"orders-fail: Orders of the TLS certificate have failed once, at 00:00 UTC.",
		},
		"old keys": {
			func(w *watched) {
				w.counter("plantstore_oidc_fetch_errors_total", nil).Inc()
				w.gauge("plantstore_oidc_keys_age_seconds", 1800)
			},
			"issuer-keys-old: The keys of the issuer could not be fetched once, at 00:00 UTC.",
		},
		"keys that are not old": {
			func(w *watched) {
				w.counter("plantstore_oidc_fetch_errors_total", nil).Inc()
				w.gauge("plantstore_oidc_keys_age_seconds", 1799)
			},
			"",
		},
		"dropped lines of the log": {
			func(w *watched) { w.counter("plantstore_log_lines_dropped_total", nil).Add(3) },
			"log-incomplete: Lines of the server's log were dropped 3 times since 00:00 UTC, the last time at 00:00 UTC.",
		},
		"a refused connection": {
			func(w *watched) { w.counter("plantstore_connections_refused_total", labels{"reason": "limit"}).Inc() }, "",
		},
		"a late event": {
			func(w *watched) {
				w.gauge("plantstore_webhook_oldest_event_timestamp_seconds", float64(begin.Add(-time.Hour).Unix()))
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
			func(w *watched) { w.engine.durability.Warnings = []string{"fsync is off; set fsync = on"} },
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
		failed := w.counter("plantstore_acme_orders_total", prometheus.Labels{"result": "failed"})
		issued := w.counter("plantstore_acme_orders_total", prometheus.Labels{"result": "issued"})
		refused := w.counter("plantstore_plants_refused_total", prometheus.Labels{"reason": "queue"})
		issued.Inc()
		w.after(10 * time.Second)
		failed.Inc()
		w.after(10*time.Hour, "orders-fail: Orders of the TLS certificate have failed once, at 00:00 UTC.")
		issued.Inc()
		refused.Inc()
		w.after(10 * time.Minute)
		refused.Inc()
		w.after(10*time.Second, "queue-full: The queue is full: plants were refused 2 times since 10:00 UTC, "+
			"the last time at 10:10 UTC, reason queue.")
	})
}

// TestDiskFills shows that a disk that would be full soon is a warning, unless a single step filled it.
func TestDiskFills(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, func(*watched) {})
		free := w.gauge("plantstore_store_disk_free_bytes", 0)
		const gb = 1_000_000_000
		left := 1000.0 * gb
		pass := func(minutes int, bytesPerMinute float64) (ids []string) {
			for range minutes {
				left -= bytesPerMinute
				free.Set(left)
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

// TestFaultyMetric shows that a metric without a value hides no other one.
func TestFaultyMetric(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, func(*watched) {})
		desc := prometheus.NewDesc("plantstore_faulty", "", nil, nil)
		w.metrics.MustRegister(collector(func(to chan<- prometheus.Metric) {
			to <- prometheus.NewInvalidMetric(desc, errors.New("no value"))
		}))
		w.counter("plantstore_commits_failed_total", nil).Inc()
		w.after(10*time.Second, "commits-fail: Commits have failed once, at 00:00 UTC.")
	})
}

// collector collects one metric.
type collector func(chan<- prometheus.Metric)

func (collector) Describe(chan<- *prometheus.Desc) {}

func (c collector) Collect(to chan<- prometheus.Metric) { c(to) }
