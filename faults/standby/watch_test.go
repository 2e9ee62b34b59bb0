package standby

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"time"
)

const (
	watchEvery = 20 * time.Millisecond
	watchMax   = time.Second            // for a response
	watchGap   = 100 * time.Millisecond // longer between two responses, the server may have changed its state twice
)

// interval is a time in which a server was ready. It is never longer than the real one.
type interval struct{ from, to time.Time }

// watch knows when the servers were ready.
type watch struct {
	mu       sync.Mutex    // guards all fields
	ready    [2][]interval // of each machine
	open     [2]bool       // the machine's last response belongs to its last interval
	last     [2]sample     // responses
	holder   int           // which machine was ready last
	switches int           // changes of holder
}

// sample is a response to GET /readyz.
type sample struct {
	sent, received time.Time
	ready          bool
	text           string // of a server that is not ready
}

// follow asks a server whether it is ready, until ctx ends.
func (w *watch) follow(ctx context.Context, machine int, admin string) {
	transport := &http.Transport{MaxIdleConnsPerHost: 1}
	defer transport.CloseIdleConnections()
	asking := http.Client{Timeout: watchMax, Transport: transport}
	for tick := time.NewTicker(watchEvery); ctx.Err() == nil; <-tick.C {
		w.add(machine, ask(ctx, &asking, admin+"/readyz"))
	}
}

func ask(ctx context.Context, c *http.Client, url string) (s sample) {
	s.sent = time.Now()
	defer func() { s.received = time.Now() }()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return s
	}
	response, err := c.Do(request)
	if err != nil {
		return s
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	s.ready, s.text = err == nil && response.StatusCode == http.StatusOK, string(text)
	return s
}

func (w *watch) add(m int, s sample) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.last[m]
	w.last[m] = s
	all := w.ready[m]
	switch {
	case !s.ready:
		w.open[m] = false
	case w.open[m] && s.received.Sub(before.received) < watchGap:
		all[len(all)-1].to = s.sent
	default:
		w.ready[m], w.open[m] = append(all, interval{s.received, s.received}), true
		if w.holder != m {
			w.switches++
		}
		w.holder = m
	}
}

// readyAfter returns when a machine was first seen ready after a time; zero: it was not.
func (w *watch) readyAfter(m int, at time.Time) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, i := range w.ready[m] {
		if i.from.After(at) {
			return i.from
		}
	}
	return time.Time{}
}

// standbyText matches what a standby tells that follows the owner.
var standbyText = regexp.MustCompile(`"standby of the server on \S+, (\d+\.\d) s behind"`)

// settled returns the machine that is ready, if the other one follows it, by responses to requests after a time.
func (w *watch) settled(at time.Time) (owner int, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for m, s := range w.last {
		other := w.last[1-m]
		match := standbyText.FindStringSubmatch(other.text)
		if !s.ready || match == nil || s.sent.Before(at) || other.sent.Before(at) {
			continue
		}
		behind, err := strconv.ParseFloat(match[1], 64)
		return m, err == nil && behind < 1
	}
	return 0, false
}

func (w *watch) changes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.switches
}

// bothReady returns how often and for how long at most both servers were ready.
func (w *watch) bothReady() (count int, longest time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.ready[0] {
		for _, b := range w.ready[1] {
			from, to := a.from, a.to
			if b.from.After(from) {
				from = b.from
			}
			if b.to.Before(to) {
				to = b.to
			}
			if d := to.Sub(from); d > 0 {
				count++
				longest = max(longest, d)
			}
		}
	}
	return count, longest
}

// wasReady reports whether a machine was ready at a time.
func (w *watch) wasReady(m int, at time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, i := range w.ready[m] {
		if !at.Before(i.from) && !at.After(i.to) {
			return true
		}
	}
	return false
}
