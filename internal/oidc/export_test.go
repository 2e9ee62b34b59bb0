package oidc

import (
	"net/http"

	"plantstore/internal/auth"
)

// NewWithTransport is New with another transport for the requests to the issuer.
func NewWithTransport(c Config, t http.RoundTripper) *Verifier { return newVerifier(c, t) }

// VerifiedMax is the number of tokens that a cache keeps.
const VerifiedMax = verifiedMax

// Verified returns the number of tokens in a cache after n tokens were verified, and whether the last one is in it.
func Verified(n int) (kept int, last bool) {
	c := newCache()
	var hash auth.Hash
	for i := range n {
		hash = auth.Hash{byte(i), byte(i >> 8)}
		c.put(hash, &entry{})
	}
	return len(c.entries), c.get(hash) != nil
}
