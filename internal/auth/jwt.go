package auth

import (
	"crypto/sha256"
	"strings"
	"time"
)

const (
	// JWTLeeway is the clock difference that the checks of a JWT allow.
	JWTLeeway = 60 * time.Second
	// JWTLifetimeMax is the longest lifetime of a JWT.
	JWTLifetimeMax = 30 * 24 * time.Hour
)

// Kind is the kind of a Token.
type Kind string

// The kinds, as engines store them.
const (
	KindToken   Kind = ""        // a credential that the operator creates
	KindSubject Kind = "subject" // a subject of an issuer; RevokedAt: the JWTs issued until then are invalid
	KindJWT     Kind = "jwt"     // a revoked JWT
)

// Claims are the claims of a verified JWT. NewClaims makes them.
type Claims struct {
	Issuer   string // iss
	Subject  string // sub
	ID       string // jti
	Name     string // for the log, and the creator of plants
	Scopes   Scopes
	IssuedAt time.Time // iat

	subject, jwt Hash // identify the tokens of KindSubject and KindJWT
}

// NewClaims returns claims that a Keyring can authenticate.
func NewClaims(c Claims) *Claims {
	c.subject = hashOfIdentity(KindSubject, c.Issuer, c.Subject)
	c.jwt = hashOfIdentity(KindJWT, c.Issuer, c.ID)
	return &c
}

// Token returns the token of KindSubject that stands for the subject of the claims.
func (c *Claims) Token(now time.Time) Token {
	t := NewSubject(c.Issuer, c.Subject, now)
	t.Name = c.Name
	return t
}

// NewSubject returns a token of KindSubject, with the subject as its name.
func NewSubject(issuer, subject string, now time.Time) Token {
	return newIdentity(KindSubject, issuer, subject, now)
}

// NewRevokedJWT returns a token of KindJWT. It expires when a JWT with this id can no longer be valid.
func NewRevokedJWT(issuer, id string, now time.Time) Token {
	t := newIdentity(KindJWT, issuer, id, now)
	t.RevokedAt = t.CreatedAt
	t.ExpiresAt = t.CreatedAt.Add(JWTLifetimeMax + 2*JWTLeeway) // iat and exp may differ from this clock
	return t
}

func newIdentity(kind Kind, issuer, identifier string, now time.Time) Token {
	return Token{
		Kind: kind, Issuer: issuer, Identifier: identifier, Name: identifier,
		Hash: hashOfIdentity(kind, issuer, identifier), CreatedAt: now.UTC().Truncate(time.Microsecond),
	}
}

// hashOfIdentity returns the hash of a token of another kind than KindToken. It is the hash of no credential, because
// no bearer credential contains a zero byte.
func hashOfIdentity(kind Kind, issuer, identifier string) Hash {
	return sha256.Sum256([]byte(string(kind) + "\x00" + issuer + "\x00" + identifier))
}

// LooksLikeJWT reports whether a credential has the form of a JWT and not of a token.
func LooksLikeJWT(credential string) bool {
	return strings.Count(credential, ".") == 2 && !strings.HasPrefix(credential, secretPrefix)
}

// AuthenticateJWT returns the principal of a verified JWT at that time, without a TokenID if the keyring lacks its
// subject. The error is an *Invalid: the JWT was revoked.
func (k *Keyring) AuthenticateJWT(c *Claims, now time.Time) (Principal, error) {
	entries := k.entries()
	if revoked, ok := entries[c.jwt]; ok {
		return Principal{}, revoked.invalid("jwt: its jti is revoked")
	}
	e, ok := entries[c.subject]
	if !ok {
		added, found := k.added.Load(c.subject)
		if !found {
			return Principal{Name: c.Name, Scopes: c.Scopes}, nil
		}
		e = added.(*entry)
	}
	return e.authenticate(c, now)
}

// authenticate returns the principal of claims whose subject the entry stands for.
func (e *entry) authenticate(c *Claims, now time.Time) (Principal, error) {
	if e.token.Revoked() && !c.IssuedAt.After(e.token.RevokedAt.Add(JWTLeeway)) {
		return Principal{}, e.invalid("jwt: its subject is revoked")
	}
	e.markUsed(now)
	return Principal{TokenID: e.token.ID, Name: c.Name, Scopes: c.Scopes}, nil
}

// Add adds the token of the subject of verified claims until the next Replace, and returns their principal at that
// time. The principal has the ID of the token, although a concurrent Replace may remove the token again. The error is
// an *Invalid: the token or the keyring has a revocation of the JWT. Any goroutine may call it.
func (k *Keyring) Add(t Token, c *Claims, now time.Time) (Principal, error) {
	e := newEntry(t)
	k.added.Store(t.Hash, e)
	if _, err := k.AuthenticateJWT(c, now); err != nil {
		return Principal{}, err
	}
	return e.authenticate(c, now)
}
