package server_test

import (
	"testing"

	"plantstore/internal/listen"
	"plantstore/internal/server"
)

// The challenge listener answers the open challenge, refuses every other request with
// an error body, and never redirects.
func TestChallengeListener(t *testing.T) {
	t.Parallel()
	h := start(t)
	l, err := listen.Listen(t.Context(), listen.Config{Name: "challenge", Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	h.run(server.NewChallenges(h.config, h.publicServer, func(token string) (string, bool) {
		return token + ".thumbprint", token == "abc-_"
	}), l)

	const path, unknown = "/.well-known/acme-challenge/", "there is no ACME challenge with this token"
	const missing = "this path does not exist; check the path and the base URL"
	answer := jsonResponse(200, "abc-_.thumbprint", "Content-Type", "application/octet-stream", "X-Request-Id", "a")
	for name, test := range map[string]struct {
		in   string
		want response
	}{
		"challenge": {"GET " + path + "abc-_", answer},
		"unknown":   {"GET " + path + "abc", refused(40401, unknown, "X-Request-Id", "a")},
		"no token":  {"GET " + path, refused(40401, missing, "X-Request-Id", "a")},
		"traversal": {"GET " + path + "../../plants.db", refused(40401, missing, "X-Request-Id", "a")},
		"escaped":   {"GET " + path + "..%2f..%2fabc-_", refused(40401, missing, "X-Request-Id", "a")},
		"other":     {"GET /", refused(40401, missing, "X-Request-Id", "a")},
		"health":    {"GET /healthz", refused(40401, missing, "X-Request-Id", "a")},
		"metrics":   {"GET /metrics", refused(40401, missing, "X-Request-Id", "a")},
		"create": {
			"POST /plants", refused(40401, missing, "X-Request-Id", "a"),
		},
		"method": {
			"POST " + path + "abc-_",
			refused(40501, "method must be GET or HEAD; got POST", "X-Request-Id", "a", "Allow", "GET, HEAD"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := dial(t, l.Addr().String())
			c.write(test.in + " HTTP/1.1\r\nHost: plants.example\r\nAuthorization: Bearer " + h.token +
				"\r\nX-Request-Id: a\r\nContent-Length: 0\r\n\r\n")
			same(t, c.read("GET"), test.want)
		})
	}
	c := dial(t, l.Addr().String())
	c.write("GET\r\n\r\n")
	same(t, c.read("GET"), malformedRow)
}
