package listen

import "bytes"

// fieldsMax is the number of header fields of a request. net/http has no such limit, and 2,500 short ones cost it as
// much as fifteen requests.
const fieldsMax = 100

const linesMax = 1 + fieldsMax // without the empty line at the end

// head is the part of the head of a request that has been read. It counts lines, so that net/http parses no head with
// too many fields. Those that came with the end of the previous request do not count; they are at most one buffer of
// net/http.
type head struct {
	lines   int  // that have ended, without empty ones
	text    bool // the line that has not ended has text
	ended   bool // lines are no longer counted
	tooLong bool
}

// check counts the lines in the next bytes of the connection. It overwrites the bytes after the first line too many.
func (h *head) check(p []byte) {
	for !h.ended {
		line, rest, found := bytes.Cut(p, newline)
		h.text = h.text || len(bytes.TrimLeft(line, "\r")) > 0
		if !found {
			return
		}
		p = rest
		if h.text {
			h.lines++
		}
		h.ended = !h.text && h.lines > 0 // after a POST, net/http skips an empty line before the next request
		h.text = false
		if h.lines > linesMax {
			h.ended, h.tooLong = true, true
			h.fill(p)
		}
	}
}

// fill fills a buffer of net/http with a line without an end. So net/http refuses the head with 431, as one that has
// too many bytes.
func (h *head) fill(p []byte) int {
	for i := range p {
		p[i] = 'x'
	}
	return len(p)
}
