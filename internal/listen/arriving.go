package listen

import (
	"bytes"
	"cmp"
	"slices"
)

const (
	// arrivingFree is the memory of a request that Limits.IncompleteBytes does not count: of nearly every head.
	arrivingFree = 4 << 10
	// fieldBytes is the memory of a field of a head beside its text, as net/textproto estimates it.
	fieldBytes = 200
	// plantLinesMax is more than the lines of a plant in a buffer of net/http.
	plantLinesMax = 64
	// bufferBytes is the size of these buffers.
	bufferBytes = 4 << 10
)

// Values of Conn.arriving for a request whose memory does not count.
const (
	admitted = -1 // it has a valid credential
	removed  = -2 // the connection is not in the registry
)

var newline = []byte("\n")

// count counts a part of a head, until Admit. The part with the end of the head does not count, because the server
// serves the request at once, and the body does not, because the server keeps nothing of one that it refuses. count
// reports false if the requests of all connections have twice their limit: so many goroutines can wait for a processor
// that the sweeper comes too late. It then has closed this connection, which has more than its free memory.
func (c *Conn) count(part []byte) bool {
	memory := int64(len(part) + fieldBytes*bytes.Count(part, newline))
	switch n := len(part); {
	case n > bufferBytes:
		c.buffered = 0
	case n > 1: // a read of one byte detects a disconnect while the buffer may have the next request
		c.buffered = memory
	}
	before := c.arriving.Load()
	if before < 0 || c.head.ended {
		return true
	}
	after := before + memory
	if !c.arriving.CompareAndSwap(before, after) || after <= arrivingFree {
		return true
	}
	l := c.listener
	total := l.open.arriving.Add(beyondFree(after) - beyondFree(before))
	if most := l.open.limits.IncompleteBytes; most == 0 || total <= 2*most || !l.open.remove(c) {
		return true
	}
	l.evict([]candidate{{conn: c, reason: heavy}})
	return false
}

func beyondFree(memory int64) int64 { return max(memory-arrivingFree, 0) }

// nextArrives starts the count of the next request. The last part of the previous one may have the start of it.
func (c *Conn) nextArrives() {
	memory := c.buffered
	if c.arriving.Load() < 0 && memory < plantLinesMax*fieldBytes {
		memory = 0 // it was a plant
	}
	c.listener.open.setArriving(c, memory)
}

// setArriving replaces the memory of the request of a connection, until it is removed.
func (r *registry) setArriving(c *Conn, memory int64) {
	for {
		before := c.arriving.Load()
		if before == removed {
			return
		}
		if c.arriving.CompareAndSwap(before, memory) {
			if change := beyondFree(memory) - beyondFree(before); change != 0 {
				r.arriving.Add(change)
			}
			return
		}
	}
}

// heaviest returns the connections that must close so that the others are within IncompleteBytes.
func (r *registry) heaviest() []candidate {
	total, most := r.arriving.Load(), r.limits.IncompleteBytes
	if most == 0 || total <= most {
		return nil
	}
	var found []candidate
	for _, c := range r.conns {
		seen, beyond := stamp(c.state.Load()), beyondFree(c.arriving.Load())
		// A connection is idle until the whole head of its next request has arrived.
		if beyond > 0 && (seen.state() == Incomplete || seen.state() == Idle) {
			found = append(found, candidate{conn: c, seen: seen, reason: heavy, bytes: beyond})
		}
	}
	slices.SortFunc(found, func(a, b candidate) int { return cmp.Compare(b.bytes, a.bytes) })
	n := 0
	for ; n < len(found) && total > most; n++ {
		total -= found[n].bytes
	}
	return found[:n]
}
