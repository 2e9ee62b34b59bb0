package server

import (
	"fmt"
	"net/http"
	"strings"

	"plantstore/internal/auth"
)

// loggedPath returns the path of a request for the log. For a path without a route it returns only the first segment,
// if that is short and plain: enough to find a wrong prefix, too short for a token.
func (h *handler) loggedPath(path string) string {
	if _, served := h.routes.byPath[path]; served || path == "*" || path == "" {
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

// plainSegment reports whether a segment of a path is too short for a token, and has no encoded character.
func plainSegment(segment string) bool {
	const bytesMax = 20
	return len(segment) <= bytesMax && hasOnly(segment, alphanumeric+"._-") &&
		!auth.LooksLikeSecret(strings.ToLower(segment))
}

const alphanumeric = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// hasOnly reports whether a text has only these characters.
func hasOnly(text, characters string) bool { return strings.Trim(text, characters) == "" }

const unknownMethod = "(unknown)"

// loggedMethod returns the method of a request for the log, or "(unknown)": a client can send any text as a method.
func loggedMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return method
	}
	return unknownMethod
}

// Shorten returns text from a client for a response or the log: at most 100 bytes, and nothing that may contain a
// token.
func Shorten(text string) string {
	const bytesMax = 100
	switch {
	case auth.LooksLikeSecret(text):
		return "(hidden: it may contain a token)"
	case len(text) > bytesMax:
		return strings.ToValidUTF8(text[:bytesMax], "") + "…"
	}
	return text
}
