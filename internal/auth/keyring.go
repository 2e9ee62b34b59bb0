package auth

import (
	"sync/atomic"
	"time"

	"plantstore/internal/plant"
)

// Principal is who sends a request: a credential that was found good.
type Principal struct {
	TokenID int64
	Name    string
	Scopes  Scopes
}

// Require returns nil if the principal has every scope of want, else an
// *plant.Error with plant.CodeScopeMissing.
func (p Principal) Require(want Scopes) error {
	if p.Scopes.Has(want) {
		return nil
	}
	return &plant.Error{
		Code:    plant.CodeScopeMissing,
		Message: "the credential is not allowed to do this: it needs the scope " + want.String(),
	}
}

// Keyring holds the tokens that requests are checked against, in memory. Its
// owner replaces them as the store changes. It is safe for concurrent use, and
// checking takes no lock. The zero value holds no token.
type Keyring struct {
	byHash atomic.Pointer[map[Hash]*key]
}

// key is one token of a keyring.
type key struct {
	token Token
	used  *atomic.Int64 // the last use in Unix microseconds; outlives a Replace
}

// Replace makes tokens the ones to check against. Only the owner calls it, one
// call at a time.
func (k *Keyring) Replace(tokens []Token) {
	old := k.keys()
	fresh := make(map[Hash]*key, len(tokens))
	for _, t := range tokens {
		used := new(atomic.Int64)
		if before, ok := old[t.Hash]; ok {
			used = before.used
		}
		fresh[t.Hash] = &key{token: t, used: used}
	}
	k.byHash.Store(&fresh)
}

func (k *Keyring) keys() map[Hash]*key {
	if m := k.byHash.Load(); m != nil {
		return *m
	}
	return nil
}

// Authenticate returns who a credential stands for at that time. The error is
// an *plant.Error with one of the 401 codes.
//
// The look-up is by hash, so its duration tells nothing about a secret.
func (k *Keyring) Authenticate(credential string, now time.Time) (Principal, error) {
	key, ok := k.keys()[HashOf(credential)]
	switch {
	case !ok:
		return Principal{}, unknown()
	case key.token.Revoked():
		return Principal{}, &plant.Error{Code: plant.CodeCredentialRevoked, Message: "the credential was revoked: ask the store's operator for another"}
	case key.token.expiredAt(now):
		return Principal{}, &plant.Error{Code: plant.CodeCredentialExpired, Message: "the credential has expired: ask the store's operator for another"}
	}
	key.markUsed(now)
	return Principal{TokenID: key.token.ID, Name: key.token.Name, Scopes: key.token.Scopes}, nil
}

func unknown() error {
	return &plant.Error{
		Code:    plant.CodeCredentialUnknown,
		Message: "the credential is none of this store's: check that it was copied whole, or ask the store's operator for one",
	}
}

// usedEvery is how exact the time of last use is. Anything finer would make
// every request write to memory that all cores share.
const usedEvery = time.Minute

func (k *key) markUsed(now time.Time) {
	last := k.used.Load()
	if micros := now.UnixMicro(); micros-last >= usedEvery.Microseconds() {
		k.used.CompareAndSwap(last, micros)
	}
}

// Use is when a token was last used.
type Use struct {
	TokenID int64
	At      time.Time
}

// UsedSince returns the tokens that were used after that time, as far as
// this keyring saw.
func (k *Keyring) UsedSince(since time.Time) []Use {
	var uses []Use
	for _, key := range k.keys() {
		if at := key.used.Load(); at > max(0, since.UnixMicro()) { // 0: never
			uses = append(uses, Use{TokenID: key.token.ID, At: time.UnixMicro(at).UTC()})
		}
	}
	return uses
}

// Expiring returns how many tokens are valid now and expire within that time.
func (k *Keyring) Expiring(now time.Time, within time.Duration) int {
	n := 0
	for _, key := range k.keys() {
		if key.token.ValidAt(now) && key.token.expiredAt(now.Add(within)) {
			n++
		}
	}
	return n
}
