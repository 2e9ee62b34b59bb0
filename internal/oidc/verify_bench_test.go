package oidc_test

import (
	"testing"
	"time"

	"plantstore/internal/oidc"
	"plantstore/internal/oidc/oidctest"
)

// BenchmarkVerify measures the check of a JWT that is in the cache, and of JWTs with the signature of another key,
// which are never in it.
func BenchmarkVerify(b *testing.B) {
	i := oidctest.NewIssuer(issuerURL)
	keys := []oidctest.Key{i.Key()}
	algorithms := []string{"RS256", "ES256", "ES384", "ES512", "EdDSA"}
	for _, alg := range algorithms {
		keys = append(keys, oidctest.NewKey(alg, alg))
	}
	i.Publish(keys...)
	v := oidc.NewWithTransport(config(i), direct{i})
	defer v.Close()
	now := time.Now()
	verify := func(name, jwt string, valid bool) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := v.Verify(b.Context(), jwt, now, true); (err == nil) != valid {
					b.Fatal(err)
				}
			}
		})
	}
	verify("cached", i.JWT(now, nil), true)
	for _, alg := range algorithms {
		other := oidctest.NewKey(alg, alg)
		verify("invalid/"+alg, other.Sign(other.Header(), i.Claims(now)), false)
	}
}
