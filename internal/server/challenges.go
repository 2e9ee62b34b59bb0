package server

import (
	"context"
	"net/http"
	"strings"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
)

// challengePath is the prefix of the paths of http-01 (RFC 8555 section 8.3).
const challengePath = "/.well-known/acme-challenge/"

// tokenKey is the key of the token in the context of a request.
type tokenKey struct{}

// NewChallenges returns a server for a listener without TLS that answers the
// challenge http-01 of ACME and refuses every other request. It shares the log and
// the metrics of public, a server of New with the same Config. keyAuthorization
// returns the body of the response to a token, and false for an unknown token.
//
// The server does not redirect to https: a client that sends its token in clear text
// would not notice.
func NewChallenges(c Config, public *Server, keyAuthorization func(token string) (string, bool)) *Server {
	const timeMax = 5 * time.Second
	c.CORSOrigins, c.OwnHostOnly = nil, false
	c.Limits.RequestTimeout = min(c.Limits.RequestTimeout, timeMax)
	c.Limits.AnswerTimeout, c.Limits.IdleTimeout = timeMax, timeMax
	routes := newRoutes([]route{{
		method: "GET", path: challengePath, open: true,
		handle: func(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
			token, _ := r.Context().Value(tokenKey{}).(string)
			body, ok := keyAuthorization(token)
			if !ok {
				return &plant.Error{Code: plant.CodeNotFound, Message: "there is no ACME challenge with this token"}
			}
			w.Header()["Content-Type"] = []string{"application/octet-stream"}
			_, _ = w.Write([]byte(body)) // fails if the client has disconnected
			return nil
		},
	}})
	s := newServer(c, newHandler(c, "challenge", routes, public.handler.Load().metrics, false))
	s.http.Handler = withToken(s.http.Handler)
	return s
}

// withToken moves the token from the path to the context, so that the routes, the
// metrics and the log have one path for all tokens.
func withToken(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token, ok := strings.CutPrefix(r.URL.Path, challengePath); ok {
			r = r.WithContext(context.WithValue(r.Context(), tokenKey{}, token))
			target := *r.URL
			target.Path = challengePath
			r.URL = &target
		}
		next.ServeHTTP(w, r)
	})
}
