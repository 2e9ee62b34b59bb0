package oidc_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/oidc"
	"plantstore/internal/oidc/oidctest"
)

// FuzzVerify signs any header and claims with the key of the issuer, and checks that an accepted JWT has the required
// claims and that no error has a part of the JWT. It also verifies the texts as they are.
func FuzzVerify(f *testing.F) {
	i := oidctest.NewIssuer(issuerURL)
	v := oidc.NewWithTransport(config(i), direct{i})
	f.Cleanup(v.Close)
	now := time.Unix(1_800_000_000, 0)
	if _, err := v.Verify(f.Context(), i.JWT(now, nil), now, true); err != nil {
		f.Fatal(err)
	}
	const claims = `{"iss":"https://login.example/realm","aud":"https://plants.example","sub":"a","client_id":"a",` +
		`"jti":"a","iat":1800000000,"exp":1800003600,"scope":"plants:create"}`
	f.Add(`{"typ":"at+jwt","alg":"ES256","kid":"key-1"}`, claims)
	f.Add(`{"typ":"at+jwt","alg":"none"}`, `{}`)
	f.Fuzz(func(t *testing.T, header, claims string) {
		for _, jwt := range []string{i.Key().SignText(header, claims), header + "." + claims + "."} {
			got, err := v.Verify(t.Context(), jwt, now, false)
			var invalid *auth.Invalid
			switch {
			case err == nil && (got.Issuer != issuerURL || got.Subject == "" || got.Name == ""):
				t.Errorf("%q: accepted with %+v", jwt, got)
			case err != nil && !errors.As(err, &invalid):
				t.Errorf("%q: %v is not an *auth.Invalid", jwt, err)
			case err != nil && len(claims) > 60 && strings.Contains(err.Error(), claims):
				t.Errorf("%q: the error has the claims: %v", jwt, err)
			}
		}
	})
}
