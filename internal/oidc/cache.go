package oidc

import (
	"sync"
	"sync/atomic"

	"plantstore/internal/auth"
)

// verifiedMax bounds the tokens of a cache.
const verifiedMax = 8192

// entry is a token with a valid signature.
type entry struct {
	claims *auth.Claims
	valid  lifetime
}

// cache has tokens that were verified, by their SHA-256, so that the second request with a
// token verifies no signature. It has two generations of half its size: when the young one is
// full, it becomes the old one, and the cache forgets the previous old one. Reads lock nothing.
type cache struct {
	young, old atomic.Pointer[generation]
	mu         sync.Mutex // guards the exchange of generations
}

type generation struct {
	entries sync.Map // auth.Hash -> *entry
	n       atomic.Int64
}

func newCache() *cache {
	c := &cache{}
	c.young.Store(&generation{})
	c.old.Store(&generation{})
	return c
}

// get returns the entry of a token, or nil.
func (c *cache) get(hash auth.Hash) *entry {
	if found, ok := c.young.Load().entries.Load(hash); ok {
		return found.(*entry)
	}
	found, ok := c.old.Load().entries.Load(hash)
	if !ok {
		return nil
	}
	c.put(hash, found.(*entry)) // it is in use
	return found.(*entry)
}

func (c *cache) put(hash auth.Hash, e *entry) {
	young := c.young.Load()
	if _, loaded := young.entries.Swap(hash, e); loaded || young.n.Add(1) < verifiedMax/2 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.young.Load() == young {
		c.old.Store(young)
		c.young.Store(&generation{})
	}
}
