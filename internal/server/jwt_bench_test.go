package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"plantstore/internal/oidc/oidctest"
	"plantstore/internal/store"
	"plantstore/internal/writepath"
)

// instantEngine stores no plants, so that a benchmark measures the rest of the server.
type instantEngine struct{ writepath.Engine }

func (instantEngine) Insert(_ context.Context, batch []store.Create) ([]store.Outcome, error) {
	return make([]store.Outcome, len(batch)), nil
}

// BenchmarkCreate measures a create without its commit: with an opaque token, with a JWT that the server has verified
// before, and with JWTs that it has not.
func BenchmarkCreate(b *testing.B) {
	issuer, verify := startIssuer(b)
	h := start(b, func(s *setup) {
		s.jwt, s.level, s.limits.AuthFailures = verify, slog.LevelWarn, 30
		s.wrap = func(e writepath.Engine) writepath.Engine { return instantEngine{e} }
	})
	jwts := make([]string, 100_000) // far more than the server remembers
	for i := range jwts {
		jwts[i] = issuer.JWT(time.Now(), oidctest.Object{"jti": fmt.Sprint(i)})
	}
	for _, row := range []struct {
		name        string
		credentials []string
	}{{"token", []string{h.token}}, {"JWT", jwts[:1]}, {"new JWT", jwts}} {
		b.Run(row.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				r := httptest.NewRequest(http.MethodPost, "/plants", strings.NewReader(`{"id":1,"name":"Rosa canina"}`))
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Authorization", "Bearer "+row.credentials[i%len(row.credentials)])
				w := httptest.NewRecorder()
				h.publicServer.Handler().ServeHTTP(w, r)
				if w.Code != 200 {
					b.Fatalf("status %d: %s", w.Code, w.Body)
				}
			}
		})
	}
}
