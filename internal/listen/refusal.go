package listen

import (
	"sync"
	"time"
)

// reason is the cause of a refusal, in metrics and log lines.
type reason string

const (
	noDescriptor reason = "descriptors"     // the process has no free file descriptor
	tooMany      reason = "connections-max" // the listener has its maximum of connections
	badHeader    reason = "proxy-header"    // a trusted proxy sent no valid PROXY header
)

// reasons are all reasons.
var reasons = []reason{noDescriptor, tooMany, badHeader}

// lines limits log lines to one a second for each reason.
type lines struct {
	mu       sync.Mutex // guards the rest
	loggedAt map[reason]time.Time
	unlogged map[reason]int // events since the last line
}

// due counts an event. It returns the number of events for a line, or 0 if the last
// line is less than a second old.
func (l *lines) due(r reason) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unlogged == nil {
		l.loggedAt, l.unlogged = map[reason]time.Time{}, map[reason]int{}
	}
	l.unlogged[r]++
	now := time.Now()
	if now.Sub(l.loggedAt[r]) < time.Second {
		return 0
	}
	n := l.unlogged[r]
	l.loggedAt[r], l.unlogged[r] = now, 0
	return n
}

// refuse counts and logs a refused connection.
func (l *Listener) refuse(r reason, cause error) {
	l.metrics.refused[r].Inc()
	if n := l.refused.due(r); n > 0 {
		l.log.Warn("connections refused", "listener", l.name, "reason", string(r), "connections", n, "error", cause)
	}
}
