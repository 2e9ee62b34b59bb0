package webhook_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"plantstore/internal/audit"
	"plantstore/internal/plant"
	"plantstore/internal/sqlite"
	"plantstore/internal/store"
	"plantstore/internal/store/storetest"
	"plantstore/internal/webhook"
)

const waitLimit = time.Minute

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openStore(t testing.TB, path string) storetest.Engine {
	t.Helper()
	e, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Server: true})
	must(t, err)
	t.Cleanup(func() { must(t, e.Close()) })
	return e
}

func newStore(t testing.TB) storetest.Engine {
	t.Helper()
	return openStore(t, filepath.Join(t.TempDir(), "plantstore.db"))
}

// delivery is a request to a receiver.
type delivery struct {
	method, path, body string
	header             http.Header
}

// receiver is an HTTP server that receives deliveries.
type receiver struct {
	*httptest.Server
	got chan delivery
}

// newReceiver starts a receiver; answer returns the status of the n-th request, from 1.
func newReceiver(t testing.TB, answer func(n int, w http.ResponseWriter)) *receiver {
	t.Helper()
	r := &receiver{got: make(chan delivery, 1000)}
	var mu sync.Mutex
	n := 0 // guarded by mu
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		n++
		answer(n, w)
		mu.Unlock()
		r.got <- delivery{request.Method, request.URL.Path, string(body), request.Header.Clone()}
	}))
	t.Cleanup(r.Close)
	return r
}

func ok(int, http.ResponseWriter) {}

// next returns the next request.
func (r *receiver) next(t testing.TB) delivery {
	t.Helper()
	select {
	case d := <-r.got:
		return d
	case <-time.After(waitLimit):
		t.Fatal("no delivery")
		return delivery{}
	}
}

// config returns the Config of a Sender to receivers on this machine.
func config(t testing.TB, o webhook.Outbox, urls ...string) webhook.Config {
	t.Helper()
	secrets, err := webhook.ParseSecrets(secretOf(32, "a") + " " + secretOf(32, "b"))
	must(t, err)
	return webhook.Config{
		Outbox: o, URLs: urls, Secrets: secrets, AllowPrivate: true, Rate: 500,
		UserAgent: "plantstore/test",
	}
}

func start(t testing.TB, c webhook.Config) *webhook.Sender {
	t.Helper()
	s, err := webhook.New(t.Context(), c)
	must(t, err)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func create(t testing.TB, e storetest.Engine, plants ...plant.NewPlant) {
	t.Helper()
	batch := make([]store.Create, len(plants))
	for i, n := range plants {
		batch[i] = store.Create{Plant: n, At: time.Now()}
	}
	_, err := e.Insert(t.Context(), batch)
	must(t, err)
}

func named(id int64, name string) plant.NewPlant {
	return plant.NewPlant{ID: id, Plant: plant.Plant{Name: name}}
}

// totals waits until the totals of the first webhook are as wanted.
func totals(t testing.TB, o webhook.Outbox, isWanted func(store.OutboxTotals) bool) {
	t.Helper()
	deadline := time.Now().Add(waitLimit)
	for {
		all, err := o.OutboxTotals(t.Context())
		must(t, err)
		if isWanted(all[1]) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("totals: %+v", all)
		}
	}
}

func empty(o store.OutboxTotals) bool { return o.Pending == 0 && o.Dead == 0 }

// TestDelivery compares a whole request, and verifies both signatures.
func TestDelivery(t *testing.T) {
	t.Parallel()
	e, r := newStore(t), newReceiver(t, ok)
	start(t, config(t, e, r.URL+"/events"))
	create(t, e, plant.NewPlant{ID: -7, Plant: plant.Plant{Name: "Äpfel \"rot\"\n", Tag: plant.Tagged("")}})
	d := r.next(t)
	id, stamp := d.header.Get("Webhook-Id"), d.header.Get("Webhook-Timestamp")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if at := time.Unix(seconds, 0); err != nil || time.Since(at).Abs() > time.Minute {
		t.Errorf("webhook-timestamp %s: %v", stamp, err)
	}
	var signatures []string
	for _, letter := range []string{"a", "b"} {
		mac := hmac.New(sha256.New, []byte(strings.Repeat(letter, 32)))
		_, _ = io.WriteString(mac, id+"."+stamp+"."+d.body)
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	want := delivery{
		http.MethodPost, "/events", `{"id":-7,"name":"Äpfel \"rot\"\n","tag":""}`, http.Header{
			"Content-Type": {"application/json"}, "User-Agent": {"plantstore/test"}, "Content-Length": {"44"},
			"Webhook-Id": {id}, "Webhook-Timestamp": {stamp}, "Webhook-Signature": {strings.Join(signatures, " ")},
		},
	}
	if diff := cmp.Diff(want, d, cmp.AllowUnexported(delivery{})); diff != "" || !strings.HasPrefix(id, "evt_") {
		t.Errorf("id %s (-want +got):\n%s", id, diff)
	}
	totals(t, e, empty)
}

// TestRetry shows that a failed delivery is repeated with the same id, and that each status but 2xx is a failure.
func TestRetry(t *testing.T) {
	t.Parallel()
	e := newStore(t)
	statuses := []int{500, 400, 302, 204}
	r := newReceiver(t, func(n int, w http.ResponseWriter) {
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(statuses[n-1])
	})
	release(t, e, config(t, e, r.URL), len(statuses)-1)
	create(t, e, named(1, "Acer"))
	ids := map[string]bool{}
	for range statuses {
		d := r.next(t)
		ids[d.header.Get("Webhook-Id")] = true
		if d.path != "/" {
			t.Errorf("a redirect was followed to %s", d.path)
		}
	}
	if len(ids) != 1 {
		t.Errorf("ids %v, want one", ids)
	}
	totals(t, e, empty)
}

// impatient is an outbox whose failed deliveries are due at once.
type impatient struct {
	storetest.Engine
	t    testing.TB
	mu   sync.Mutex
	left int // failures; guarded by mu
}

func (o *impatient) TakeDeliveries(
	ctx context.Context, settled []store.DeliveryResult, claim store.Claim,
) ([]store.Delivery, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range settled {
		if settled[i].Reason != "" {
			o.left--
			settled[i].Wait = 0
		}
	}
	return o.Engine.TakeDeliveries(ctx, settled, claim)
}

// release starts a Sender whose failed deliveries are due at once; at the end of the test, it must have failed as
// often as wanted.
func release(t testing.TB, e storetest.Engine, c webhook.Config, failures int) *webhook.Sender {
	t.Helper()
	o := &impatient{Engine: e, t: t, left: failures}
	c.Outbox = o
	s := start(t, c)
	t.Cleanup(func() {
		if o.left != 0 {
			t.Errorf("%d failures more than were stored", o.left)
		}
	})
	return s
}

// TestEndRemoved ends more deliveries than a transaction changes, and logs their number, and a failure.
func TestEndRemoved(t *testing.T) {
	t.Parallel()
	const plants = store.ChangeMax + 500
	e := newStore(t)
	_, err := e.SetWebhooks(t.Context(), []string{"https://a.example"}, audit.Origin{})
	must(t, err)
	var all []plant.NewPlant
	for id := range int64(plants) {
		all = append(all, named(id, "Acer"))
	}
	create(t, e, all...)
	_, err = e.TakeDeliveries(t.Context(), nil, store.Claim{Most: map[int64]int{1: plants}, Lease: time.Hour})
	must(t, err)
	_, err = e.SetWebhooks(t.Context(), nil, audit.Origin{})
	must(t, err)
	for name, row := range map[string]struct {
		outbox webhook.Outbox
		want   string
	}{
		"complete": {e, "dead letters; see plantstore webhook list\" events=1500\n"},
		"failure":  {unending{e}, "retries within a minute\" error=\"no disk\"\n"},
	} {
		var log bytes.Buffer
		webhook.EndRemoved(t.Context(), row.outbox, slog.New(slog.NewTextHandler(&log, nil)))
		if !strings.HasSuffix(log.String(), row.want) || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("%s: %s", name, log.String())
		}
	}
	totals(t, e, func(o store.OutboxTotals) bool { return o.Pending == 0 && o.Dead == plants })
}

// unending is an outbox that cannot end deliveries.
type unending struct{ webhook.Outbox }

func (unending) EndDeliveries(context.Context) (int64, error) { return 0, errors.New("no disk") }

// TestRetryAfter shows that a delivery waits as long as the receiver demands, within bounds.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Duration{"1800": 30 * time.Minute, "9999999": webhook.RetryAfterMax} {
		e := newStore(t)
		r := newReceiver(t, func(_ int, w http.ResponseWriter) {
			w.Header().Set("Retry-After", value)
			w.WriteHeader(http.StatusTooManyRequests)
		})
		o := &watching{Engine: e, settled: make(chan store.DeliveryResult, 10)}
		var log bytes.Buffer
		c := config(t, e, r.URL)
		c.Outbox, c.Log = o, slog.New(slog.NewTextHandler(&log, nil))
		sender := start(t, c)
		create(t, e, named(1, ""))
		defer func() {
			sender.Close()
			if text := log.String(); !strings.Contains(text, `deliveries fail; they are repeated"`) {
				t.Errorf("log: %s", text)
			}
		}()
		if s := <-o.settled; s.Wait != want || s.Attempts != 1 || s.Reason != "status 429" {
			t.Errorf("Retry-After %s: got %+v, want a wait of %s", value, s, want)
		}
	}
}

// watching is an outbox that reports the results of deliveries.
type watching struct {
	storetest.Engine
	settled chan store.DeliveryResult
}

func (o *watching) TakeDeliveries(
	ctx context.Context, settled []store.DeliveryResult, claim store.Claim,
) ([]store.Delivery, error) {
	for _, s := range settled {
		o.settled <- s
	}
	return o.Engine.TakeDeliveries(ctx, settled, claim)
}

// TestFailures shows the reasons of failures that are no status.
func TestFailures(t *testing.T) {
	t.Parallel()
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that the server notices the end of the connection
		<-r.Context().Done()
	}))
	t.Cleanup(hanging.Close)
	secure := httptest.NewTLSServer(nil)
	t.Cleanup(secure.Close)
	for _, row := range []struct {
		name, url string
		private   bool
		want      string
	}{
		{"timeout", hanging.URL + "?key=secret", true, "no response within 2s"},
		{"refused", "http://127.0.0.1:1?key=secret", true, "connection refused"},
		{"certificate", secure.URL + "?key=secret", true, "failed to verify certificate"},
		{"private", "https://localhost:9?key=secret", false, "the address is not public"},
		{"unknown", "https://plants.invalid?key=secret", true, "lookup plants.invalid"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			e := newStore(t)
			o := &watching{Engine: e, settled: make(chan store.DeliveryResult, 10)}
			c := config(t, e, row.url)
			c.Outbox, c.AllowPrivate, c.Timeout = o, row.private, 2*time.Second
			if row.name != "timeout" {
				c.Timeout = waitLimit
			}
			start(t, c)
			create(t, e, named(1, ""))
			s := <-o.settled
			for s.Attempts == 0 { // a slow machine begins the attempt too late for its claim, and releases it
				s = <-o.settled
			}
			if !strings.Contains(s.Reason, row.want) || strings.Contains(s.Reason, "secret") || s.Attempts != 1 || s.Dead {
				t.Errorf("got %+v, want the reason %s", s, row.want)
			}
		})
	}
}

// TestTLS delivers by HTTP/2 over TLS.
func TestTLS(t *testing.T) {
	t.Parallel()
	e := newStore(t)
	protocols := make(chan string, 1)
	r := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		protocols <- r.Proto
	}))
	r.EnableHTTP2 = true
	r.StartTLS()
	t.Cleanup(r.Close)
	s, err := webhook.New(t.Context(), config(t, e, r.URL))
	must(t, err)
	s.Trust(&tls.Config{RootCAs: r.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs})
	s.Start()
	t.Cleanup(s.Close)
	create(t, e, named(1, ""))
	if got := <-protocols; got != "HTTP/2.0" {
		t.Errorf("got %s", got)
	}
	totals(t, e, empty)
}

// TestDeadLetter shows that an old event that fails becomes a dead letter, and is delivered after a retry.
func TestDeadLetter(t *testing.T) {
	t.Parallel()
	e := newStore(t)
	r := newReceiver(t, func(n int, w http.ResponseWriter) {
		if n == 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	metrics := prometheus.NewRegistry()
	c := config(t, e, r.URL+"/e?key=secret")
	c.Metrics = metrics
	s := start(t, c)
	_, err := e.Insert(t.Context(), []store.Create{{Plant: named(1, ""), At: time.Now().Add(-webhook.GiveUp)}})
	must(t, err)
	r.next(t)
	totals(t, e, func(o store.OutboxTotals) bool { return o.Dead == 1 && o.Pending == 0 })
	want := fmt.Sprintf(`
		# HELP plantstore_webhook_dead_letters Dead letters of the address, when they were counted last.
		# TYPE plantstore_webhook_dead_letters gauge
		plantstore_webhook_dead_letters{address=%q} 1
		# HELP plantstore_webhook_deliveries_given_up_total Deliveries that became dead letters after a failed attempt.
		# TYPE plantstore_webhook_deliveries_given_up_total counter
		plantstore_webhook_deliveries_given_up_total{address=%[1]q} 1
	`, r.URL+"/e")
	names := []string{"plantstore_webhook_dead_letters", "plantstore_webhook_deliveries_given_up_total"}
	for deadline := time.Now().Add(waitLimit); ; { // the sender itself may set an older number at the same time
		s.Maintain()
		err := testutil.GatherAndCompare(metrics, strings.NewReader(want), names...)
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	n, err := e.RetryDead(t.Context(), store.DeadSelector{}, c.By)
	if err != nil || n != 1 {
		t.Errorf("RetryDead: %d, %v", n, err)
	}
	r.next(t)
	totals(t, e, empty)
}

// TestGone shows that a receiver that answers 410 gets no more events, and that they stay in the outbox.
func TestGone(t *testing.T) {
	t.Parallel()
	e := newStore(t)
	gone := newReceiver(t, func(_ int, w http.ResponseWriter) { w.WriteHeader(http.StatusGone) })
	other := newReceiver(t, ok)
	var log bytes.Buffer
	o := &watching{Engine: e, settled: make(chan store.DeliveryResult, 10)}
	c := config(t, e, gone.URL+"/?key=secret", other.URL)
	c.Outbox, c.Log = o, slog.New(slog.NewTextHandler(&log, nil))
	s := start(t, c)
	create(t, e, named(1, ""))
	gone.next(t)
	other.next(t)
	<-o.settled
	<-o.settled
	create(t, e, named(2, ""), named(3, ""))
	other.next(t)
	other.next(t)
	totals(t, e, func(o store.OutboxTotals) bool { return o.Pending == 3 })
	s.Close()
	if n := len(gone.got); n != 0 {
		t.Errorf("%d deliveries after 410", n)
	}
	text := log.String()
	if !strings.Contains(text, `msg="webhook disabled:`) || strings.Contains(text, "secret") {
		t.Errorf("log: %s", text)
	}
}

// TestPause shows that a receiver that always fails gets few attempts, and all events when it works again.
func TestPause(t *testing.T) {
	t.Parallel()
	const plants = 200
	e := newStore(t)
	var mu sync.Mutex
	works := false // guarded by mu
	r := newReceiver(t, func(_ int, w http.ResponseWriter) {
		mu.Lock()
		defer mu.Unlock()
		if !works {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	c := config(t, e, r.URL)
	c.Outbox = &impatient{Engine: e, t: t}
	start(t, c)
	all := make([]plant.NewPlant, plants)
	for i := range all {
		all[i] = named(int64(i), "")
	}
	create(t, e, all...)
	for range 65 { // the claims before the pause, and an attempt after it
		r.next(t)
	}
	mu.Lock()
	works = true
	mu.Unlock()
	totals(t, e, empty)
	if n := len(r.got) + 65; n > plants+80 {
		t.Errorf("%d attempts for %d plants", n, plants)
	}
}

// TestSeveral shows that every plant is delivered to every webhook, also to the others of one that hangs, and that one
// plant is delivered to one address once at a time.
func TestSeveral(t *testing.T) {
	t.Parallel()
	const plants = 300
	e := newStore(t)
	a, b := newReceiver(t, ok), newReceiver(t, ok)
	end := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-end }))
	t.Cleanup(hanging.Close)
	t.Cleanup(func() { close(end) })
	c := config(t, e, a.URL, hanging.URL, b.URL)
	c.Rate = 100_000
	start(t, c)
	for i := range int64(plants) {
		create(t, e, named(i, ""))
	}
	for _, r := range []*receiver{a, b} {
		var bodies []string
		for range plants {
			bodies = append(bodies, r.next(t).body)
		}
		slices.Sort(bodies)
		if n := len(slices.Compact(bodies)); n != plants {
			t.Errorf("%d plants were delivered, want %d", n, plants)
		}
	}
}

// TestRate shows that the attempts a second are bounded.
func TestRate(t *testing.T) {
	t.Parallel()
	const plants = 60
	e, r := newStore(t), newReceiver(t, ok)
	c := config(t, e, r.URL)
	c.Rate = 50
	all := make([]plant.NewPlant, plants)
	for i := range all {
		all[i] = named(int64(i), "")
	}
	s, err := webhook.New(t.Context(), c)
	must(t, err)
	create(t, e, all...)
	began := time.Now()
	s.Start()
	t.Cleanup(s.Close)
	for range plants {
		r.next(t)
	}
	const least = 600 * time.Millisecond // after a burst of 20
	if took := time.Since(began); took < least {
		t.Errorf("%d attempts took %s, want at least %s", plants, took, least)
	}
}

// scarce is an outbox without events that counts the rounds in which each webhook may claim.
type scarce struct {
	webhook.Outbox

	rounds map[int64]int
}

func (scarce) SetWebhooks(_ context.Context, urls []string, _ audit.Origin) (all []store.Webhook, err error) {
	for i, url := range urls {
		all = append(all, store.Webhook{ID: int64(i + 1), URL: url, Active: true})
	}
	return all, nil
}

func (scarce) EventsWritten() <-chan struct{} { return nil }

func (scarce) OutboxTotals(context.Context) (map[int64]store.OutboxTotals, error) { return nil, nil }

func (o scarce) TakeDeliveries(
	_ context.Context, _ []store.DeliveryResult, claim store.Claim,
) ([]store.Delivery, error) {
	for id := range claim.Most {
		o.rounds[id]++
	}
	return nil, nil
}

// TestTurns shows that the webhooks take turns if the rate allows less than each of them could claim.
func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rounds = 30 // one a second
		o := scarce{rounds: map[int64]int{}}
		c := config(t, o, "https://a.example/", "https://b.example/", "https://c.example/")
		c.Rate = 1
		s, err := webhook.New(t.Context(), c)
		must(t, err)
		s.Start()
		time.Sleep(rounds*time.Second - time.Millisecond) //nolint:forbidigo // the bubble's clock, not a wait
		s.Close()
		if want := map[int64]int{1: rounds / 3, 2: rounds / 3, 3: rounds / 3}; !maps.Equal(o.rounds, want) {
			t.Errorf("got %v rounds by webhook, want %v", o.rounds, want)
		}
	})
}

// patient is an outbox without a time limit: the limit of Close would be too short for a machine that pauses.
type patient struct{ storetest.Engine }

func (o patient) TakeDeliveries(
	ctx context.Context, settled []store.DeliveryResult, claim store.Claim,
) ([]store.Delivery, error) {
	return o.Engine.TakeDeliveries(context.WithoutCancel(ctx), settled, claim)
}

// TestClose shows that Close ends the running attempts, whose claims stay, and releases the waiting ones.
func TestClose(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plantstore.db")
	e := openStore(t, path)
	arrived := make(chan struct{}, 10)
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	t.Cleanup(hanging.Close)
	c := config(t, patient{e}, hanging.URL)
	c.Concurrency = 1
	c.Timeout = time.Hour // neither the attempt nor its claim ends during the test
	s := start(t, c)
	create(t, e, named(1, ""), named(2, ""))
	<-arrived
	s.Close()
	taken, err := e.TakeDeliveries(t.Context(), nil, store.Claim{Most: map[int64]int{1: 9}, Lease: time.Hour})
	if err != nil || len(taken) != 1 || taken[0].Attempts != 0 {
		t.Errorf("got %+v and %v, want the delivery that was not sent", taken, err)
	}
	totals(t, e, func(o store.OutboxTotals) bool { return o.Pending == 2 })
}

// TestNewRefuses shows the errors of an unusable Config.
func TestNewRefuses(t *testing.T) {
	t.Parallel()
	e := newStore(t)
	for _, c := range []webhook.Config{
		{}, config(t, e), config(t, e, slices.Repeat([]string{"https://a.example"}, webhook.URLsMax+1)...),
	} {
		if _, err := webhook.New(t.Context(), c); err == nil {
			t.Errorf("%+v: no error", c)
		}
	}
	n, err := webhook.Off(t.Context(), e, c().By)
	if n != 0 || err != nil {
		t.Errorf("Off: %d, %v", n, err)
	}
	create(t, e, named(1, ""))
	start(t, config(t, e, "https://plants.invalid"))
	if n, err = webhook.Off(t.Context(), e, c().By); n != 1 || err != nil {
		t.Errorf("Off: %d, %v", n, err)
	}
}

func c() (c webhook.Config) { return c }
