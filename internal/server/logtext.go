package server

import (
	"fmt"
	"net/http"
	"strings"

	"plantstore/internal/auth"
)

// loggedPath returns the path of a request as the log may have it. Of a path
// that is not served it returns the first segment alone, if that is short and
// plain: enough to see a wrong prefix, too little for a token. To look for tokens
// instead would miss those that are encoded.
func (d *handler) loggedPath(path string) string {
	if _, served := d.routes[path]; served || path == "*" || path == "" {
		return path
	}
	rest, absolute := strings.CutPrefix(path, "/")
	segment, _, more := strings.Cut(rest, "/")
	switch plain := absolute && plainSegment(segment); {
	case plain && !more:
		return path
	case plain:
		return fmt.Sprintf("/%s/… (%d bytes)", segment, len(path))
	}
	return fmt.Sprintf("… (%d bytes)", len(path))
}

// plainSegment reports whether a segment of a path is so short that it holds
// no token, and has no character that encodes another one.
func plainSegment(segment string) bool {
	const bytesMax = 20
	if len(segment) > bytesMax || auth.LooksLikeSecret(strings.ToLower(segment)) {
		return false
	}
	for i := range len(segment) {
		c := segment[i]
		alphanumeric := '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
		if !alphanumeric && strings.IndexByte("._-", c) < 0 {
			return false
		}
	}
	return true
}

// loggedMethod returns the method of a request as the log may have it: a client
// may send any text as one.
func loggedMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return method
	}
	return "(unknown)"
}
