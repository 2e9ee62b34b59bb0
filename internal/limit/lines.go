package limit

import (
	"sync"
	"time"
)

// LogLines limits the log lines about events that clients cause to one a second for each key. The zero value is ready.
// Keys must be from a small set. It is safe for concurrent use.
type LogLines struct {
	mu   sync.Mutex // guards the rest
	keys map[string]*lines
}

type lines struct {
	last     time.Time // time of the last line
	unlogged int       // events since then
}

// Add counts n events of a key. It returns their number since the last line, if the caller must log one now, and
// otherwise 0.
func (l *LogLines) Add(key string, n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.keys == nil {
		l.keys = map[string]*lines{}
	}
	k := l.keys[key]
	if k == nil {
		k = &lines{}
		l.keys[key] = k
	}
	k.unlogged += n
	now := time.Now()
	if now.Sub(k.last) < time.Second {
		return 0
	}
	n, k.unlogged, k.last = k.unlogged, 0, now
	return n
}
