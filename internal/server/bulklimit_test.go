package server_test

import (
	"fmt"
	"io"
	"testing"

	"plantstore/internal/auth"
	"plantstore/internal/server"
)

// Two requests of one credential that send many plants leave room for requests of others; the server runs eight.
func TestBulkRequestsAtOnce(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	h := start(t, func(s *setup) {
		s.limits.Rate = 0
		s.routes = []server.Route{{
			Method: "GET", Path: "/bulk", Scope: auth.ScopeRead, Bulk: true,
			Handle: func(c *server.Call) error {
				select {
				case entered <- struct{}{}:
				case <-release:
				}
				<-release
				_, err := io.WriteString(c, "ok")
				return err
			},
		}}
	})
	var secrets []string
	for i := range 5 {
		secrets = append(secrets, mint(t, h.engine, auth.Token{Name: fmt.Sprint("reader", i), Scopes: auth.ScopeRead}))
	}
	const most = 8
	ended := make(chan string, most)
	get := func(secret string) string {
		res, err := h.open("/bulk", secret)
		if err != nil {
			return err.Error()
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		return fmt.Sprintf("%d %s %s", res.StatusCode, res.Header.Get("Retry-After"), body)
	}
	for i := range most {
		go func() { ended <- get(secrets[i/2]) }() // the test receives the response
		<-entered
		const busy = `429 1 {"error":42903,"message":"this credential runs 2 searches, exports or pages of plants already; ` +
			"wait for the end of one\"}\n"
		if i == 1 {
			if got := get(secrets[0]); got != busy {
				t.Errorf("a third request: got %s, want %s", got, busy)
			}
		}
	}
	const full = `503 1 {"error":50307,"message":"too many searches, exports and pages of plants run at the same time; ` +
		"send the request again\"}\n"
	if got := get(secrets[4]); got != full {
		t.Errorf("a ninth request: got %s, want %s", got, full)
	}
	close(release)
	for range most {
		if got := <-ended; got != "200  ok" {
			t.Errorf("got %s", got)
		}
	}
	if got := get(secrets[0]); got != "200  ok" {
		t.Errorf("after them: got %s", got)
	}
}
