package server_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/listen"
	"plantstore/internal/plant"
	"plantstore/internal/server"
)

// prover is a server with the route /prove, whose checks end with the results of a test.
type prover struct {
	*harness

	checking chan struct{} // has an element for each check that begins
	results  chan error
}

func startProver(t *testing.T, failures int) prover {
	t.Helper()
	p := prover{checking: make(chan struct{}, 100), results: make(chan error)}
	p.harness = start(t, func(s *setup) {
		s.limits.AuthFailures = failures
		s.proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		s.routes = []server.Route{{
			Method: "GET", Path: "/prove", Open: true,
			Handle: func(c *server.Call) error {
				_, err := c.AuthenticateBy(func() (auth.Principal, error) {
					p.checking <- struct{}{}
					select {
					case err := <-p.results:
						return auth.Principal{}, err
					case <-c.Context().Done(): // after a failed test
						return auth.Principal{}, c.Context().Err()
					}
				})
				if err != nil {
					return err
				}
				_, err = io.WriteString(c, "ok")
				return err
			},
		}}
	})
	return p
}

// prove sends a request of an address, and returns the status of its response.
func (p prover) prove(address string) <-chan int {
	status := make(chan int, 1)
	go func() { // ends with the response
		req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, "http://"+p.admin+"/prove", http.NoBody)
		if err != nil {
			panic(err) // the address is valid
		}
		req.Header.Set("X-Forwarded-For", address)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			close(status)
			return
		}
		_ = res.Body.Close()
		status <- res.StatusCode
	}()
	return status
}

// A check begins only while its address has a failure left: the checks of many requests at once are not more than the
// failures. A success does not count, and no reason of this server.
func TestFailuresOfProofs(t *testing.T) {
	t.Parallel()
	p := startProver(t, 1)
	for address, row := range map[string]struct {
		result error
		status int
		counts bool
	}{
		"192.0.2.1": {nil, 200, false},
		"192.0.2.2": {plant.Errorf(plant.CodeStoreUnavailable, "later"), 503, false},
		"192.0.2.3": {&auth.Invalid{Reason: "sign-in: x"}, 401, true},
		"192.0.2.4": {errors.New("the issuer does not answer"), 500, true},
	} {
		first := p.prove(address)
		<-p.checking
		var others []<-chan int
		for range 20 {
			others = append(others, p.prove(address))
		}
		for _, other := range others {
			select {
			case status := <-other:
				if status != http.StatusTooManyRequests {
					t.Errorf("%s: a request during the check: got %d, want 429", address, status)
				}
			case <-p.checking:
				t.Fatalf("%s: more checks than failures run", address)
			}
		}
		p.results <- row.result
		if got := <-first; got != row.status {
			t.Errorf("%s: got %d, want %d", address, got, row.status)
		}
		next := p.prove(address)
		select {
		case status := <-next:
			if !row.counts || status != http.StatusTooManyRequests {
				t.Errorf("%s: the next request: got %d", address, status)
			}
		case <-p.checking:
			if row.counts {
				t.Errorf("%s: %v does not count as a failure", address, row.result)
			}
			p.results <- nil
			<-next
		}
	}
}

// A request whose credential waits for the issuer does not keep its connection from eviction: anyone can send one.
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
			Handle: func(c *server.Call) error {
				if err := c.ReadForm(); err != nil {
					return err
				}
				_, err := c.Authenticate(jwt)
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
