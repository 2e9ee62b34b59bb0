// Package auth authenticates requests by bearer tokens and checks the scopes of a token.
package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"math/big"
	"regexp"
	"strings"
	"time"
)

// Token is a credential that the operator creates. It has the hash of the secret; only the client has the secret.
// Engines also store subjects and revoked JWTs as tokens, see Kind.
type Token struct {
	ID         int64  // assigned by the engine
	Name       string // chosen by the operator; unique among valid tokens, except during the overlap of a rotation
	Hash       Hash
	Prefix     string // the first characters of the secret; empty for a token created without it
	Scopes     Scopes
	CreatedAt  time.Time // this and the times below: UTC, whole microseconds
	ExpiresAt  time.Time // zero: never
	LastUsedAt time.Time // zero: never; exact to about a minute
	RevokedAt  time.Time // zero: not revoked; any other time, even a future one: revoked

	Kind       Kind
	Issuer     string // KindSubject and KindJWT: the claim iss
	Identifier string // KindSubject: the claim sub; KindJWT: the claim jti
}

// DefaultLifetime is the lifetime of a token if its creator chooses none.
const DefaultLifetime = 90 * 24 * time.Hour

// NewToken returns a new token with its secret. A lifetime of 0 is no expiry.
func NewToken(name string, scopes Scopes, lifetime time.Duration) (t Token, secret string) {
	secret = Mint()
	t = Token{
		Name: name, Scopes: scopes, Hash: HashOf(secret), Prefix: secret[:prefixBytes],
		CreatedAt: time.Now().UTC().Truncate(time.Microsecond),
	}
	if lifetime != 0 {
		t.ExpiresAt = t.CreatedAt.Add(lifetime)
	}
	return t, secret
}

// IsToken reports whether the token is a credential that the operator created.
func (t Token) IsToken() bool { return t.Kind == KindToken }

// ValidAt reports whether the token is neither revoked nor expired at that time.
func (t Token) ValidAt(now time.Time) bool { return !t.Revoked() && !t.expiredAt(now) }

// Revoked reports whether the token was revoked. It compares no times, because the clock of the revocation may be ahead
// of this one.
func (t Token) Revoked() bool { return !t.RevokedAt.IsZero() }

func (t Token) expiredAt(now time.Time) bool {
	return !t.ExpiresAt.IsZero() && !now.Before(t.ExpiresAt)
}

// Hash is the SHA-256 of a token's secret. A secret of 256 random bits needs neither a salt nor a slow hash.
type Hash [sha256.Size]byte

// MarshalText returns the hash in hexadecimal digits.
func (h Hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText parses the result of MarshalText.
func (h *Hash) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(h)) {
		return fmt.Errorf("a hash has %d hexadecimal digits; got %d characters", hex.EncodedLen(len(h)), len(text))
	}
	_, err := hex.Decode(h[:], text)
	return err
}

// HashOf returns the hash of a secret.
func HashOf(secret string) Hash {
	var buffer [2 * secretBytes]byte // on the stack, because it is called for every request
	return sha256.Sum256(append(buffer[:0], secret...))
}

// A secret has a prefix and a checksum, so a scanner for leaked secrets finds it without false positives.
const (
	secretPrefix   = "pst_"
	randomDigits   = 43                    // 62^43 > 2^256
	checksumDigits = 6                     // 62^6 > 2^32
	prefixBytes    = len(secretPrefix) + 4 // 232 of the 256 random bits stay secret
	secretBytes    = len(secretPrefix) + randomDigits + checksumDigits
)

const base62Digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// Mint returns a new secret: pst_, 256 random bits in base 62, and the CRC-32 (IEEE 802.3) of these characters in base
// 62.
func Mint() string {
	var random [32]byte
	_, _ = rand.Read(random[:]) // it never returns an error
	body := secretPrefix + base62(new(big.Int).SetBytes(random[:]), randomDigits)
	return body + checksum(body)
}

// WellFormed reports whether a text has the format and the checksum of a secret.
func WellFormed(secret string) bool {
	if len(secret) != secretBytes || !strings.HasPrefix(secret, secretPrefix) {
		return false
	}
	body := secret[:secretBytes-checksumDigits]
	return secret[len(body):] == checksum(body)
}

// LooksLikeSecret reports whether a text may contain a secret or a part of one, or a JWT, and must not be shown.
func LooksLikeSecret(text string) bool {
	return strings.Contains(text, secretPrefix) || jwtStart.MatchString(text)
}

// jwtStart matches the header of a JWT, which has at least 16 characters, a dot, and the first character of the claims.
// In base64url a JSON object without white space starts with eyJ.
var jwtStart = regexp.MustCompile(`eyJ[\w-]{13,}\.[\w-]`)

func checksum(body string) string {
	sum := crc32.ChecksumIEEE([]byte(body))
	return base62(new(big.Int).SetUint64(uint64(sum)), checksumDigits)
}

// base62 returns n in base 62 with that many digits, the highest first.
func base62(n *big.Int, digits int) string {
	out := make([]byte, digits)
	base, digit := big.NewInt(int64(len(base62Digits))), new(big.Int)
	for i := digits - 1; i >= 0; i-- {
		n.DivMod(n, base, digit)
		out[i] = base62Digits[digit.Int64()]
	}
	return string(out)
}
