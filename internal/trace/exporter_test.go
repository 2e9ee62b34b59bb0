package trace

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/encoding/protowire"
)

// transport is an http.RoundTripper that records the times of the requests. It stands for collectors whose pauses would
// be too long for a test.
type transport struct {
	started time.Time
	at      []time.Duration
	respond func(attempt int) (*http.Response, error)
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, r.Body)
	t.at = append(t.at, time.Since(t.started))
	return t.respond(len(t.at))
}

func response(status int, retryAfter string) *http.Response {
	h := http.Header{}
	if retryAfter != "" {
		h.Set("Retry-After", retryAfter)
	}
	return &http.Response{StatusCode: status, Header: h, Body: http.NoBody}
}

// startWith starts a tracer with a transport.
func startWith(t *testing.T, r http.RoundTripper, list ...string) (*Tracer, *strings.Builder) {
	t.Helper()
	variables := map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_BSP_SCHEDULE_DELAY": "1"}
	for i := 0; i < len(list); i += 2 {
		variables[list[i]] = list[i+1]
	}
	c, err := FromEnvironment(variables, "1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	log := &strings.Builder{}
	tr := New(c, slog.New(slog.NewTextHandler(log, nil)), prometheus.NewRegistry())
	tr.exporter.client.Transport = r // before the first span
	return tr, log
}

// TestRetry compares the times of the attempts with the responses of the collector.
func TestRetry(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name       string
		respond    func(attempt int) (*http.Response, error)
		least      []time.Duration // the earliest times of the attempts
		most       []time.Duration // the latest
		sent, lost int
	}{
		{
			"unavailable once, with a time", func(n int) (*http.Response, error) {
				if n == 1 {
					return response(503, "7"), nil
				}
				return response(200, ""), nil
			}, []time.Duration{0, 7 * time.Second}, []time.Duration{0, 7 * time.Second}, 1, 0,
		},
		{
			"too many requests, then away", func(n int) (*http.Response, error) {
				switch n {
				case 1:
					return response(429, ""), nil
				case 2:
					return nil, errors.New("connection refused")
				}
				return response(200, ""), nil
			},
			[]time.Duration{0, 500 * time.Millisecond, 1500 * time.Millisecond},
			[]time.Duration{0, time.Second, 3 * time.Second},
			1, 0,
		},
		{
			"an endless time", func(n int) (*http.Response, error) {
				if n == 1 {
					return response(503, "999999999999"), nil
				}
				return response(503, ""), nil
			}, []time.Duration{0, time.Minute}, []time.Duration{0, time.Minute}, 0, 1,
		},
		{
			"a bad request", func(int) (*http.Response, error) { return response(400, ""), nil },
			[]time.Duration{0},
			[]time.Duration{0},
			0, 1,
		},
		{
			"a redirect", func(int) (*http.Response, error) {
				r := response(307, "")
				r.Header.Set("Location", "http://elsewhere.example/")
				return r, nil
			},
			[]time.Duration{0},
			[]time.Duration{0},
			0, 1,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := &transport{respond: row.respond, started: time.Now().Add(time.Millisecond)}
			tr, log := startWith(t, r)
			tr.Request(nil, time.Now()).End()
			time.Sleep(3 * time.Minute) //nolint:forbidigo // the time of synctest
			tr.Close(t.Context())
			if len(r.at) != len(row.least) {
				t.Fatalf("%s: attempts at %v, want %v", row.name, r.at, row.least)
			}
			for i, at := range r.at {
				if at < row.least[i] || at > row.most[i] {
					t.Errorf("%s: attempt %d at %v, want %v to %v", row.name, i, at, row.least[i], row.most[i])
				}
			}
			sent, lost := testutil.ToFloat64(tr.exporter.exported), testutil.ToFloat64(tr.exporter.failed)
			if int(sent) != row.sent || int(lost) != row.lost {
				t.Errorf("%s: %v exported and %v lost, want %d and %d", row.name, sent, lost, row.sent, row.lost)
			}
			if n := strings.Count(log.String(), "traces are not exported"); n != 1 {
				t.Errorf("%s: the log has %d lines about the failure:\n%s", row.name, n, log)
			}
			if again := strings.Contains(log.String(), "traces are exported again"); again != (row.sent > 0) {
				t.Errorf("%s: got the log\n%s", row.name, log)
			}
		})
	}
}

// TestAttemptsEnd lets the collector refuse for longer than a batch is repeated.
func TestAttemptsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &transport{started: time.Now(), respond: func(int) (*http.Response, error) { return response(503, ""), nil }}
		tr, _ := startWith(t, r)
		tr.Request(nil, time.Now()).End()
		time.Sleep(10 * time.Minute) //nolint:forbidigo // the time of synctest
		tr.Close(t.Context())
		if last := r.at[len(r.at)-1]; last > retryFor+retryMost || len(r.at) < 5 {
			t.Errorf("attempts at %v", r.at)
		}
		if n := testutil.ToFloat64(tr.exporter.failed); n != 1 {
			t.Errorf("%v spans failed, want 1", n)
		}
	})
}

// TestSlowCollector fills the queue while the collector does not respond. No span waits, and Close ends with its
// context.
func TestSlowCollector(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const queue, spans = 10, 50
		hang := roundTripper(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		tr, log := startWith(t, hang,
			"OTEL_BSP_MAX_QUEUE_SIZE", "10", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1", "OTEL_EXPORTER_OTLP_TIMEOUT", "600000")
		started := time.Now()
		for range spans {
			tr.Request(nil, started).End()
			synctest.Wait()
		}
		if took := time.Since(started); took != 0 {
			t.Errorf("the spans waited for %v", took)
		}
		full := int(testutil.ToFloat64(tr.exporter.queueFull))
		if full != spans-queue-1 {
			t.Errorf("%d spans found the queue full, want %d", full, spans-queue-1)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		tr.Close(ctx)
		if took := time.Since(started); took != 2*time.Second {
			t.Errorf("Close took %v, want 2 s", took)
		}
		if lost := int(testutil.ToFloat64(tr.exporter.shutdown)); lost != queue+1 {
			t.Errorf("%d spans were lost at the shutdown, want %d; the log:\n%s", lost, queue+1, log)
		}
		tr.Request(nil, started).End() // after Close
		tr.Close(ctx)                  // again
	})
}

// TestCloseWaitsOnce closes a tracer with several batches while the collector does not respond: it waits for one
// time-out.
func TestCloseWaitsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const spans = 5
		hang := roundTripper(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		tr, _ := startWith(t, hang, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1", "OTEL_EXPORTER_OTLP_TIMEOUT", "500")
		started := time.Now()
		for range spans {
			tr.Request(nil, started).End()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		tr.Close(ctx)
		if took := time.Since(started); took != 500*time.Millisecond {
			t.Errorf("Close took %v, want 500 ms", took)
		}
		if lost := int(testutil.ToFloat64(tr.exporter.shutdown)); lost != spans {
			t.Errorf("%d spans were lost at the shutdown, want %d", lost, spans)
		}
	})
}

type roundTripper func(r *http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestCloseExports closes a tracer whose spans wait for others.
func TestCloseExports(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &transport{started: time.Now(), respond: func(int) (*http.Response, error) { return response(200, ""), nil }}
		tr, _ := startWith(t, r, "OTEL_BSP_SCHEDULE_DELAY", "60000", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4")
		for range 10 {
			tr.Request(nil, time.Now()).End()
		}
		tr.Close(t.Context())
		if n := testutil.ToFloat64(tr.exporter.exported); n != 10 || len(r.at) != 3 {
			t.Errorf("%v spans in %d requests, want 10 in 3", n, len(r.at))
		}
	})
}

// TestRedirect shows that no other host receives the headers.
func TestRedirect(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the other host received %v", r.Header)
	}))
	defer other.Close()
	redirected := make(chan http.Header, 1)
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		redirected <- r.Header
	}))
	defer first.Close()
	tr, log := startWith(t, http.DefaultTransport,
		"OTEL_EXPORTER_OTLP_ENDPOINT", first.URL, "OTEL_EXPORTER_OTLP_HEADERS", "x-secret=s")
	tr.Request(nil, time.Now()).End()
	if h := <-redirected; h.Get("X-Secret") != "s" {
		t.Errorf("the collector received %v", h)
	}
	tr.Close(t.Context())
	if n := testutil.ToFloat64(tr.exporter.failed); n != 1 || !strings.Contains(log.String(), "the status 307") {
		t.Errorf("%v spans failed; the log:\n%s", n, log)
	}
}

// TestRejected counts the spans of a partial success.
func TestRejected(t *testing.T) {
	t.Parallel()
	partial := protowire.AppendTag(nil, 1, protowire.VarintType)
	partial = protowire.AppendVarint(partial, 2)
	partial = protowire.AppendTag(partial, 2, protowire.BytesType)
	partial = protowire.AppendString(partial, "no room")
	whole := protowire.AppendTag(nil, 1, protowire.BytesType)
	whole = protowire.AppendBytes(whole, partial)
	for _, row := range []struct {
		body string
		want int
	}{
		{"", 0}, {string(whole), 2}, {string(whole[:3]), 0}, {"{}", 0}, {"\xff\xff\xff", 0}, {"\x0a\x02\x08", 0},
	} {
		if got := rejectedSpans([]byte(row.body)); got != row.want {
			t.Errorf("%q: got %d, want %d", row.body, got, row.want)
		}
	}
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(whole)
	}))
	defer collector.Close()
	tr, _ := startWith(t, http.DefaultTransport, "OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL,
		"OTEL_BSP_SCHEDULE_DELAY", "60000")
	for range 3 {
		tr.Request(nil, time.Now()).End()
	}
	tr.Close(t.Context())
	exported, rejected := testutil.ToFloat64(tr.exporter.exported), testutil.ToFloat64(tr.exporter.rejected)
	if exported != 1 || rejected != 2 {
		t.Errorf("%v exported and %v rejected, want 1 and 2", exported, rejected)
	}
}

// TestErrorsHaveNoURL sends a span to an endpoint with a secret in its query.
func TestErrorsHaveNoURL(t *testing.T) {
	t.Parallel()
	tr, log := startWith(t, http.DefaultTransport,
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:1/?key=canary4711")
	tr.Request(nil, time.Now()).End()
	tr.Close(t.Context())
	if !strings.Contains(log.String(), "connection refused") || strings.Contains(log.String(), "canary") {
		t.Errorf("got the log\n%s", log)
	}
}

// TestExposedHeaders expects a warning about headers in clear text.
func TestExposedHeaders(t *testing.T) {
	t.Parallel()
	for endpoint, want := range map[string]bool{
		"http://otel.example": true, "https://otel.example": false, "http://localhost:4318": false, "http://[::1]": false,
	} {
		tr, log := startWith(t, http.DefaultTransport,
			"OTEL_EXPORTER_OTLP_ENDPOINT", endpoint, "OTEL_EXPORTER_OTLP_HEADERS", "x=canary4711")
		tr.Close(t.Context())
		if got := strings.Contains(log.String(), "clear text"); got != want || strings.Contains(log.String(), "canary") {
			t.Errorf("%s: got the log\n%s", endpoint, log)
		}
	}
}
