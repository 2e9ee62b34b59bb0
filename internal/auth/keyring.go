package auth

import (
	"sync"
	"sync/atomic"
	"time"

	"plantstore/internal/plant"
)

// Principal is the token or the subject, with its scopes, that a request is authenticated as.
type Principal struct {
	TokenID int64
	Name    string
	Scopes  Scopes
}

// Require returns nil if the principal has every scope of want, otherwise a *plant.Error with plant.CodeScopeMissing.
func (p Principal) Require(want Scopes) error {
	if p.Scopes.Has(want) {
		return nil
	}
	return plant.Errorf(plant.CodeScopeMissing, "the credential lacks the scope %s", want)
}

// Keyring keeps the tokens that authenticate requests in memory. Its owner replaces them when the store changes. A
// Keyring is safe for concurrent use, and Authenticate locks nothing. The zero value has no tokens.
type Keyring struct {
	byHash atomic.Pointer[map[Hash]*entry]
	added  sync.Map // Hash -> *entry: the subjects of Add
}

// entry is a token of a keyring.
type entry struct {
	token Token
	name  string // of the principal
	used  *uses  // kept by Replace
}

// uses are the uses of a token.
type uses struct {
	last  atomic.Int64             // while it was valid, in Unix microseconds
	ended atomic.Pointer[EndedUse] // since then, without the token; nil: none
}

func newEntry(t Token) *entry { return &entry{t, PrincipalName(t.Name), new(uses)} }

// Replace replaces the tokens. Only the owner calls it, from one goroutine at a time.
func (k *Keyring) Replace(tokens []Token) {
	old := k.entries()
	fresh := make(map[Hash]*entry, len(tokens))
	for _, t := range tokens {
		e := newEntry(t)
		if before, ok := old[t.Hash]; ok {
			e.used = before.used
		} else if before, ok := k.added.Load(t.Hash); ok {
			e.used = before.(*entry).used
		}
		fresh[t.Hash] = e
	}
	k.byHash.Store(&fresh)
	k.added.Clear() // an addition that is lost here is repeated
}

func (k *Keyring) entries() map[Hash]*entry {
	if m := k.byHash.Load(); m != nil {
		return *m
	}
	return nil
}

// Authenticate returns the principal of a credential at that time. The error is an *Invalid. The lookup is by hash, so
// its duration does not depend on the secret.
func (k *Keyring) Authenticate(credential string, now time.Time) (Principal, error) {
	e, ok := k.entries()[HashOf(credential)]
	switch {
	case !ok || e.token.Kind != KindToken:
		return Principal{}, &Invalid{Reason: ReasonUnknown}
	case e.token.Revoked():
		return Principal{}, e.invalid(ReasonRevoked)
	case e.token.expiredAt(now):
		return Principal{}, e.invalid(ReasonExpired)
	}
	e.markUsed(now)
	return Principal{TokenID: e.token.ID, Name: e.name, Scopes: e.token.Scopes}, nil
}

// The reasons of Invalid for a token.
const (
	ReasonUnknown = "unknown"
	ReasonExpired = "expired"
	ReasonRevoked = "revoked"
)

// Invalid is the error of a credential that authenticates no principal. It wraps the *plant.Error for the client, which
// is the same for every reason: a client must not learn that a credential was ever valid.
type Invalid struct {
	// For the log of the server; no field has a part of the credential.
	Reason  string
	TokenID int64  // 0: the credential is unknown
	Name    string // empty: the credential is unknown

	entry *entry
}

// invalid returns the error of a credential that the keyring has.
func (e *entry) invalid(reason string) *Invalid {
	return &Invalid{Reason: reason, TokenID: e.token.ID, Name: e.name, entry: e}
}

func (e *Invalid) Error() string { return "invalid credential: " + e.Reason }

// Unwrap returns the *plant.Error for the client.
func (e *Invalid) Unwrap() error { return errInvalid }

var errInvalid = plant.Errorf(plant.CodeCredentialInvalid,
	"invalid credential; send the whole token or request another from the store's operator")

// usedEvery is the resolution of the time of last use. With a finer one, every request would write to memory that all
// cores share.
const usedEvery = time.Minute

func (e *entry) markUsed(now time.Time) {
	last := e.used.last.Load()
	if micros := now.UnixMicro(); micros-last >= usedEvery.Microseconds() {
		e.used.last.CompareAndSwap(last, micros)
	}
}

// Use is the last use of a token.
type Use struct {
	TokenID int64
	At      time.Time
}

// UsedSince returns the last use of each token that this keyring has authenticated after that time.
func (k *Keyring) UsedSince(since time.Time) []Use {
	var list []Use
	add := func(e *entry) {
		if at := e.used.last.Load(); at > max(0, since.UnixMicro()) { // 0: never
			list = append(list, Use{TokenID: e.token.ID, At: time.UnixMicro(at).UTC()})
		}
	}
	for _, e := range k.entries() {
		add(e)
	}
	k.added.Range(func(_, e any) bool { add(e.(*entry)); return true })
	return list
}

// briefMax is the longest lifetime of a token that its creator does not expect to renew, such as a console session's.
const briefMax = 24 * time.Hour

// Expiring returns the number of tokens that expire within that time, see Token.Expires.
func (k *Keyring) Expiring(now time.Time, within time.Duration) int {
	var tokens []Token
	for _, e := range k.entries() {
		if e.token.IsToken() {
			tokens = append(tokens, e.token)
		}
	}
	n := 0
	for i, state := range States(tokens, now) {
		if tokens[i].Expires(state, now.Add(within)) {
			n++
		}
	}
	return n
}

// Expires reports whether a token in a state expires until a time, and its client must get another one: it is in
// StateValid, and was created for more than a day.
func (t Token) Expires(state State, until time.Time) bool {
	return t.IsToken() && state == StateValid && t.ExpiresAt.Sub(t.CreatedAt) > briefMax && t.expiredAt(until)
}
