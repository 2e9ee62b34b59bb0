package oidc

import (
	"sync"

	"plantstore/internal/auth"
)

// verifiedMax bounds the tokens of a cache.
const verifiedMax = 8192

// entry is a token with a valid signature.
type entry struct {
	claims *auth.Claims
	valid  lifetime
}

// cache has tokens that were verified, by their SHA-256, so that the second request with a token verifies no
// signature. A full cache replaces a random token: only a token of the issuer can replace another.
type cache struct {
	mu      sync.RWMutex
	entries map[auth.Hash]*entry // guarded by mu
}

func newCache() *cache { return &cache{entries: map[auth.Hash]*entry{}} }

// get returns the entry of a token, or nil.
func (c *cache) get(hash auth.Hash) *entry {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.entries[hash]
}

func (c *cache) put(hash auth.Hash, e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.entries) >= verifiedMax {
		for other := range c.entries { // in random order
			delete(c.entries, other)
			break
		}
	}
	c.entries[hash] = e
}
