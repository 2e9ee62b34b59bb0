package server

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"strings"

	"plantstore/internal/auth"
)

// requestID returns the request's own id if it is one line of harmless
// characters, or makes one of 128 random bits.
func requestID(header http.Header) string {
	if id := header["X-Request-Id"]; len(id) == 1 && saneID(id[0]) {
		return id[0]
	}
	return newRequestID()
}

func newRequestID() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the program instead
	var id [2 * len(random)]byte
	hex.Encode(id[:], random[:])
	return string(id[:])
}

func saneID(id string) bool {
	const bytesMax = 128
	if id == "" || len(id) > bytesMax || auth.LooksLikeSecret(strings.ToLower(id)) {
		return false
	}
	for i := range len(id) {
		c := id[i]
		alphanumeric := '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
		if !alphanumeric && strings.IndexByte("._~+/=:@-", c) < 0 {
			return false
		}
	}
	return true
}
