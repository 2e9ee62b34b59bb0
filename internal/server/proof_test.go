package server_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/listen"
	"plantstore/internal/server"
)

// A request whose credential waits for the issuer does not keep its connection from eviction: strangers can send it.
func TestWaitingCredentialsAreEvicted(t *testing.T) {
	t.Parallel()
	const jwt = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJ4In0.AAAA"
	waiting := make(chan struct{}, 100)
	verify := func(ctx context.Context, _ string, _ time.Time, _ bool) (*auth.Claims, error) {
		waiting <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	h := start(t, func(s *setup) {
		s.jwt, s.admins = verify, listen.Limits{Incomplete: 1}
		s.routes = []server.Route{{
			Method: "POST", Path: "/sign-in", Open: true,
			Handle: func(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
				if _, err := server.ReadForm(w, r); err != nil {
					return err
				}
				_, err := server.Authenticate(w, r, jwt)
				return err
			},
		}}
	})
	for _, request := range []string{
		message("GET /metrics HTTP/1.1", "", "Host: "+h.admin, "Authorization: Bearer "+jwt),
		message("POST /sign-in HTTP/1.1", "a=b", "Host: "+h.admin, "Content-Type: application/x-www-form-urlencoded"),
	} {
		first, second := h.dial(t, h.admin), h.dial(t, h.admin)
		first.write(request)
		<-waiting
		second.write(request)
		<-waiting
		first.expectClosed()
		_ = second.Close()
	}
}
