package console

import (
	"net/http"
	"net/http/httptest"
	"time"
)

// SetClock sets the clock of the sessions.
func (c *Console) SetClock(now func() time.Time) { c.clock.Store(&now) }

// Sessions returns the number of open sessions.
func (c *Console) Sessions() int {
	c.sessions.mu.Lock()
	defer c.sessions.mu.Unlock()
	return len(c.sessions.open)
}

// CookieWithTLS returns the cookie of a console with TLS.
func CookieWithTLS() *http.Cookie {
	w := httptest.NewRecorder()
	c := &Console{Config: Config{Secure: true}}
	c.setCookie(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody), "x")
	return w.Result().Cookies()[0]
}

// Sample adds a sample as if the metrics had been zero that long ago.
func (c *Console) Sample(since time.Duration) {
	now := c.read()
	c.samples.add(now.since(reading{at: now.at.Add(-since)}))
}
