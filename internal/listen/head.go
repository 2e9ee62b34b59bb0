package listen

import "bytes"

// fieldsMax is the number of header fields of a request. net/http has no such limit, and 2,500 short ones cost it as
// much as fifteen requests.
const fieldsMax = 100

const linesMax = 1 + fieldsMax // of a head, without the empty line

// head is the part of the head of a request that has been read. It counts lines, so that net/http parses no head with
// too many fields.
type head struct {
	lines   int  // that have ended
	partial bool // another line has begun
	ended   bool // lines are no longer counted
	tooLong bool
}

// check counts the lines in the next bytes of the connection. It overwrites the bytes after the first line too many.
func (h *head) check(p []byte) {
	for !h.ended {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			h.partial = h.partial || len(p) > 0 && p[0] != '\r'
			return
		}
		h.ended = !h.partial && (i == 0 || i == 1 && p[0] == '\r') // an empty line
		p = p[i+1:]
		h.lines, h.partial = h.lines+1, false
		if h.lines > linesMax && !h.ended {
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
