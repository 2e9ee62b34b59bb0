package server

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"strings"

	"plantstore/internal/auth"
)

// requestID returns the X-Request-Id of the request if it is valid, otherwise a new id of 128 random bits.
func requestID(header http.Header) string {
	if id := header["X-Request-Id"]; len(id) == 1 && validID(id[0]) {
		return id[0]
	}
	return newRequestID()
}

// newRequestID uses the generator of the runtime, which the kernel has seeded: an id must be unique and is not secret,
// and crypto/rand takes 0.3 µs.
func newRequestID() string {
	var random [16]byte
	binary.NativeEndian.PutUint64(random[:8], rand.Uint64()) //nolint:gosec // see above
	binary.NativeEndian.PutUint64(random[8:], rand.Uint64()) //nolint:gosec // see above
	var id [2 * len(random)]byte
	hex.Encode(id[:], random[:])
	return string(id[:])
}

// validID reports whether an id from a client may appear in the log and in the response: 1 to 128 characters of a small
// set, and not a token.
func validID(id string) bool {
	const bytesMax = 128
	return id != "" && len(id) <= bytesMax && hasOnly(id, alphanumeric+"._~+/=:@-") &&
		!auth.LooksLikeSecret(id) && !auth.LooksLikeSecret(strings.ToLower(id)) // a JWT is case-sensitive
}
