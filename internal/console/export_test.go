package console

import (
	"context"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/server"
)

// SetClock sets the clock of the sessions.
func (c *Console) SetClock(now func() time.Time) { c.clock.Store(&now) }

// Sessions returns the number of open sessions.
func (c *Console) Sessions() int {
	c.sessions.mu.Lock()
	defer c.sessions.mu.Unlock()
	return len(c.sessions.all)
}

// Credential returns a function that reports whether the credential of a session is valid, even after a sign-out.
// cookie is name=value.
func (c *Console) Credential(cookie string) (valid func(context.Context) error) {
	_, value, _ := strings.Cut(cookie, "=")
	found, _ := c.sessions.find(value, c.now())
	return func(ctx context.Context) error { return c.valid(ctx, found) }
}

// EndSessions ends all sessions, as a restart of the server does.
func (c *Console) EndSessions() {
	c.sessions.mu.Lock()
	defer c.sessions.mu.Unlock()
	c.sessions.all = nil
}

// CookieWithTLS returns the cookie of a console with TLS.
func CookieWithTLS() *http.Cookie {
	w := httptest.NewRecorder()
	c := &Console{Config: Config{Secure: true}}
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	c.setCookie(&server.Call{Request: r, ResponseWriter: w}, "x")
	return w.Result().Cookies()[0]
}

// Sample adds a sample as if the metrics had been zero that long ago.
func (c *Console) Sample(since time.Duration) {
	now := c.read()
	c.samples.add(now.since(reading{at: now.at.Add(-since)}))
}

// AddDay adds the samples of a day of work in a nursery, which ends now with the values of now.
func (c *Console) AddDay() {
	n := c.read()
	plants := admin.OrNaN(n.Plants)
	random := rand.New(rand.NewPCG(1, 2)) // the same images in each run
	for i := samplesMax - 1; i >= 0; i-- {
		hours := float64(i) / 360                                   // before now
		work := max(0, math.Cos(2*math.Pi*(hours-3)/24))            // busy three hours ago
		creates := work * (0.4 + 1.6*math.Pow(random.Float64(), 3)) // in batches
		c.samples.add(sample{
			at: n.at.Add(-time.Duration(i) * sampleEvery), creates: creates,
			p50: 0.0021 + 0.0004*random.Float64(), p99: 0.005 + 0.004*random.Float64() + 0.003*work,
			clientErrors: math.Floor(work*random.Float64()*1.2) / 10, plants: plants - hours*900,
			store: admin.OrNaN(n.StoreBytes) - hours*70e3, wal: 3e6 + 2e6*random.Float64(),
			connections: math.Round(4 + 20*work*random.Float64()), queued: math.Round(2 * work * random.Float64()),
		})
	}
}

// UsedMax is the number of states that flows keeps.
const UsedMax = usedMax

// AddSample adds a sample of now with the 99th percentile of the latency of creates.
func (c *Console) AddSample(p99 float64) {
	nan := math.NaN()
	c.samples.add(sample{
		at: c.now(), creates: 1, p50: p99 / 2, p99: p99, plants: nan, store: nan, wal: nan, connections: nan, queued: nan,
	})
}

// Draw returns the paths of a line of values and of the area below it.
func Draw(values []float64, top float64) (path, area string) { return draw(values, top) }

// FormatAgo returns an age as the pages show it.
func FormatAgo(age time.Duration) string { return formatAgo(age) }
