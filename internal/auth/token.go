// Package auth is about who may do what: bearer tokens, the header they come
// in, and the scopes that they carry.
package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"hash/crc32"
	"math/big"
	"strings"
	"time"
)

// Token is what is known of a credential. The secret itself is known only to
// its holder: the store keeps its hash.
type Token struct {
	ID         int64  // given by the engine
	Name       string // the operator's name for it; at most one valid token has it, and one more while it is rotated
	Hash       Hash
	Prefix     string // PrefixOf the secret; empty for a token that is older than this field
	Scopes     Scopes
	CreatedAt  time.Time // this and all times below: UTC, whole microseconds
	ExpiresAt  time.Time // zero: never
	LastUsedAt time.Time // zero: never; kept to about a minute
	RevokedAt  time.Time // zero: not revoked; any other time, even one to come: revoked (see Revoked)
}

// ValidAt reports whether the token is accepted at that time.
func (t Token) ValidAt(now time.Time) bool { return !t.Revoked() && !t.expiredAt(now) }

// Revoked reports whether the token was revoked. It compares no clocks: the
// clock that revoked a token may be ahead of the one that checks it.
func (t Token) Revoked() bool { return !t.RevokedAt.IsZero() }

func (t Token) expiredAt(now time.Time) bool {
	return !t.ExpiresAt.IsZero() && !now.Before(t.ExpiresAt)
}

// Hash is the SHA-256 of a token's secret. The secret has 256 random bits, so
// there is nothing for a salt or a slow hash to protect.
type Hash [sha256.Size]byte

// HashOf returns the hash of a secret.
func HashOf(secret string) Hash {
	var room [2 * secretBytes]byte // on the stack: every request is hashed
	return sha256.Sum256(append(room[:0], secret...))
}

// PrefixOf returns the first characters of a secret, by which an operator
// recognises it in a list. They leave 235 of its 256 random bits unknown.
func PrefixOf(secret string) string { return secret[:min(prefixBytes, len(secret))] }

// The form of a secret: a prefix and a checksum, so that a scanner for leaked
// secrets finds it and does not mistake anything else for one.
const (
	secretPrefix   = "pst_"
	randomDigits   = 43 // 62^43 > 2^256
	checksumDigits = 6  // 62^6 > 2^32
	prefixBytes    = len(secretPrefix) + 4
	secretBytes    = len(secretPrefix) + randomDigits + checksumDigits
)

const base62Digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// Mint returns a new secret: pst_, 256 random bits in base 62, and the CRC-32
// (IEEE 802.3) of all that in base 62.
func Mint() string {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the program instead
	body := secretPrefix + base62(new(big.Int).SetBytes(random[:]), randomDigits)
	return body + checksum(body)
}

// WellFormed reports whether a text has the form and the checksum of a secret.
func WellFormed(secret string) bool {
	if len(secret) != secretBytes || !strings.HasPrefix(secret, secretPrefix) {
		return false
	}
	body := secret[:secretBytes-checksumDigits]
	return secret[len(body):] == checksum(body)
}

// LooksLikeSecret reports whether a text may be a secret, whole or not. Where
// it is, the text must not be shown.
func LooksLikeSecret(text string) bool { return strings.Contains(text, secretPrefix) }

func checksum(body string) string {
	sum := crc32.ChecksumIEEE([]byte(body))
	return base62(new(big.Int).SetUint64(uint64(sum)), checksumDigits)
}

// base62 writes n with that many digits, the highest first.
func base62(n *big.Int, digits int) string {
	out := make([]byte, digits)
	base, digit := big.NewInt(int64(len(base62Digits))), new(big.Int)
	for i := digits - 1; i >= 0; i-- {
		n.DivMod(n, base, digit)
		out[i] = base62Digits[digit.Int64()]
	}
	return string(out)
}
