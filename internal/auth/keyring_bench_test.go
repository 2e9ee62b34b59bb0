package auth_test

import (
	"fmt"
	"testing"
	"time"

	"plantstore/internal/auth"
)

// BenchmarkAuthenticate measures the check of a valid token among 1000, by one goroutine and by all processors.
func BenchmarkAuthenticate(b *testing.B) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	secret := auth.Mint()
	tokens := []auth.Token{{ID: 1, Name: "ours", Hash: auth.HashOf(secret), Scopes: auth.ScopeCreate, CreatedAt: now}}
	for i := range int64(999) {
		tokens = append(tokens, auth.Token{
			ID: i + 2, Name: fmt.Sprint("other ", i), Hash: auth.HashOf(auth.Mint()), Scopes: auth.ScopeCreate, CreatedAt: now,
		})
	}
	var ring auth.Keyring
	ring.Replace(tokens)

	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := ring.Authenticate(secret, now); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := ring.Authenticate(secret, now); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
}
