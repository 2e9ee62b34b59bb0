package listen

import (
	"net/netip"
	"sync"
	"time"
)

// reason is the cause of a refusal or an eviction, in metrics and log lines.
type reason string

// The reasons of refusals.
const (
	noDescriptor     reason = "descriptors"  // the system has no free file descriptor or memory
	tooMany          reason = "connections"  // the listener has its maximum of connections
	tooManyOfAddress reason = "address"      // the client has its maximum of connections
	badHeader        reason = "proxy-header" // a trusted proxy sent no valid PROXY header
	stranger         reason = "credential"   // the client sent too many requests without a valid credential
)

var refusals = []reason{noDescriptor, tooMany, tooManyOfAddress, badHeader, stranger}

// The reasons of evictions.
const (
	longIdle       reason = "idle"
	longIncomplete reason = "incomplete"
)

var evictions = []reason{longIdle, longIncomplete}

// refusal is the error of a refused connection.
type refusal struct {
	reason reason
	text   string
}

func (r *refusal) Error() string { return r.text }

// lines limits log lines to one a second for each reason.
type lines struct {
	mu       sync.Mutex // guards the rest
	loggedAt map[reason]time.Time
	unlogged map[reason]int // connections since the last line
}

// due counts connections. It returns the number for a line, or 0 if the last line is
// less than a second old.
func (l *lines) due(r reason, connections int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unlogged == nil {
		l.loggedAt, l.unlogged = map[reason]time.Time{}, map[reason]int{}
	}
	l.unlogged[r] += connections
	now := time.Now()
	if now.Sub(l.loggedAt[r]) < time.Second {
		return 0
	}
	n := l.unlogged[r]
	l.loggedAt[r], l.unlogged[r] = now, 0
	return n
}

// refuse counts and logs a refused connection.
func (l *Listener) refuse(r *refusal) {
	l.metrics.refused[r.reason].Inc()
	if n := l.lines.due(r.reason, 1); n > 0 {
		l.log.Warn("connections refused",
			"listener", l.name, "reason", string(r.reason), "connections", n, "error", r.text)
	}
}

// limited counts and logs a connection that waits, or a forwarded request that is refused.
func (l *Listener) limited(client netip.Addr) {
	l.metrics.limited.Inc()
	if n := l.lines.due(stranger, 1); n > 0 {
		l.log.Warn("clients without a valid credential limited",
			"listener", l.name, "count", n, "client", client.String())
	}
}

// evict closes, counts and logs connections that the registry removed.
func (l *Listener) evict(victims []*Conn) {
	counts := map[reason]int{}
	for _, c := range victims {
		_ = c.Conn.Close()
		l.metrics.open.Dec()
		if c.evictedFrom == Idle {
			counts[longIdle]++
		} else {
			counts[longIncomplete]++
		}
	}
	for _, r := range evictions {
		l.metrics.evicted[r].Add(float64(counts[r]))
		if counts[r] == 0 {
			continue
		}
		if n := l.lines.due(r, counts[r]); n > 0 {
			l.log.Warn("connections evicted", "listener", l.name, "reason", string(r), "connections", n)
		}
	}
}
