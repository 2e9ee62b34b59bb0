package client

import (
	"bytes"
	"net/http"
	"strconv"
)

// created reads the response of a created plant if it has arrived whole and in its usual form: a Content-Length, and
// nothing that changes the connection. net/http reads all others; its map of headers costs as much as the rest of a
// create. It reads nothing if it returns false.
func (c *conn) created() (*response, bool) {
	buffered, _ := c.reader.Peek(c.reader.Buffered()) // never more than there is
	head, rest, ok := bytes.Cut(buffered, []byte("\r\n\r\n"))
	if !ok {
		return nil, false
	}
	res, length, ok := parseHead(head)
	if !ok || length > len(rest) {
		return nil, false
	}
	res.body = bytes.Clone(rest[:length])
	_, _ = c.reader.Discard(len(buffered) - len(rest) + length) // as Peek
	return res, true
}

// parseHead reads the head of a response with status 200, and returns the length of its body.
func parseHead(head []byte) (res *response, length int, ok bool) {
	lines, ok := bytes.CutPrefix(head, []byte("HTTP/1.1 200 OK\r\n"))
	if !ok {
		return nil, 0, false
	}
	res, length = &response{status: http.StatusOK}, -1
	for line := range bytes.SplitSeq(lines, []byte("\r\n")) {
		name, value, ok := bytes.Cut(line, []byte(": "))
		if !ok || bytes.ContainsAny(name, " \t\r\n") || bytes.ContainsAny(value, "\r\n") {
			return nil, 0, false
		}
		switch string(name) {
		case "Content-Length":
			n, err := strconv.ParseUint(string(value), 10, 31)
			if err != nil || length >= 0 {
				return nil, 0, false
			}
			length = int(n)
		case requestIDHeader:
			res.requestID = string(value)
		case replayedHeader:
			res.replayed = string(value) == "true"
		case "Cache-Control", "Content-Security-Policy", "Content-Type", "Date", "Ratelimit", "Ratelimit-Policy",
			"Strict-Transport-Security", "Traceresponse", "Vary", "X-Content-Type-Options":
		default: // such as Connection, Transfer-Encoding, or the same in another case
			return nil, 0, false
		}
	}
	return res, length, length >= 0
}
