package server

import (
	"time"

	"plantstore/internal/plant"
)

// NewChallenges returns a server for a listener without TLS that answers the challenge http-01 of ACME (RFC 8555
// section 8.3) and refuses every other request. It shares the log and the metrics of public, a server of New with the
// same Config. keyAuthorization returns the body of the response to a token, and false for an unknown token.
//
// The server does not redirect to https: a client that sends its token in clear text would not notice.
func NewChallenges(c Config, public *Server, keyAuthorization func(token string) (string, bool)) *Server {
	const timeMax = 5 * time.Second
	c.Limits.RequestTimeout = min(c.Limits.RequestTimeout, timeMax)
	c.Limits.AnswerTimeout, c.Limits.IdleTimeout = timeMax, timeMax
	routes := newRoutes([]Route{{
		Method: "GET", Path: "/.well-known/acme-challenge/{token}", Open: true,
		Handle: func(c *Call) error {
			body, ok := keyAuthorization(c.PathValue("token"))
			if !ok {
				return plant.Errorf(plant.CodeNotFound, "there is no ACME challenge with this token")
			}
			c.Header()["Content-Type"] = []string{"application/octet-stream"}
			_, _ = c.Write([]byte(body)) // fails if the client has disconnected
			return nil
		},
	}})
	return newServer(c, newHandler(c, "challenge", routes, public.handler.Load().metrics))
}
