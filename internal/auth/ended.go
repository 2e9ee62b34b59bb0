package auth

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// EndedUse has the uses of an expired or revoked credential since the start of the process.
type EndedUse struct {
	Token

	First, Last time.Time
	Count       int64
	Network     string // of the last client: an IPv4 address or an IPv6 network of 64 bits
}

// EndedAt returns when the credential expired or was revoked.
func (u EndedUse) EndedAt() time.Time {
	if u.Revoked() {
		return u.RevokedAt
	}
	return u.ExpiresAt
}

// RecordUse remembers that a client has sent the credential after its end. It does nothing for an unknown
// credential and for one of the console: a browser sends that again by itself, and people open a sign-in link twice.
func (e *Invalid) RecordUse(now time.Time, client netip.Addr) {
	if e.entry == nil || IsSessionName(e.entry.token.Name) {
		return
	}
	for { // until no other request was faster
		before := e.entry.used.ended.Load()
		after := &EndedUse{First: now, Last: now, Count: 1, Network: networkOf(client)}
		if before != nil {
			after.First, after.Count = before.First, before.Count+1
		}
		if e.entry.used.ended.CompareAndSwap(before, after) {
			return
		}
	}
}

// EndedUses returns the ended credentials that clients have sent since a time, the last one first. A keyring has at
// most one record of each token of the store.
func (k *Keyring) EndedUses(since time.Time) (uses []EndedUse) {
	for _, e := range k.entries() {
		if u := e.used.ended.Load(); u != nil && !u.Last.Before(since) {
			use := *u
			use.Token = e.token
			uses = append(uses, use)
		}
	}
	slices.SortFunc(uses, func(a, b EndedUse) int { return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(b.ID, a.ID)) })
	return uses
}

func networkOf(a netip.Addr) string {
	if a = a.Unmap(); !a.Is6() {
		return a.String()
	}
	network, _ := a.WithZone("").Prefix(64) // an IPv6 address has 64 bits
	return network.String()
}
