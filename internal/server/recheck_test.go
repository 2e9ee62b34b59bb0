package server_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/oidc/oidctest"
	"plantstore/internal/plant"
	"plantstore/internal/server"
	"plantstore/internal/store"
	"plantstore/internal/writepath"
)

// startWatched starts a server with the routes /wait, which responds when its context ends, and /stream, whose response
// has no end. running has an element for the start of each request, and for the end of a stream. ended returns the
// events about requests.
func startWatched(
	t *testing.T, verify writepath.VerifyJWT,
) (h *harness, running chan struct{}, ended func() []audit.Event) {
	t.Helper()
	var events []audit.Event
	recorder := audit.NewRecorder(func(_ context.Context, more ...audit.Event) error {
		events = append(events, more...)
		return nil
	}, slog.New(slog.DiscardHandler))
	running = make(chan struct{}, 10)
	wait := func(c *server.Call) error {
		running <- struct{}{}
		<-c.Context().Done()
		return context.Canceled // as of a read of the store
	}
	stream := func(c *server.Call) error {
		running <- struct{}{}
		for {
			err := http.NewResponseController(c).SetWriteDeadline(time.Now().Add(time.Hour))
			if err == nil {
				_, err = io.WriteString(c, strings.Repeat("x", 64<<10))
			}
			if err != nil {
				running <- struct{}{}
				return err
			}
		}
	}
	h = start(t, func(s *setup) {
		s.recorder, s.jwt, s.api = recorder, verify, true
		s.routes = []server.Route{
			{Method: "GET", Path: "/wait", Scope: auth.ScopeMetrics, Handle: wait},
			{Method: "GET", Path: "/stream", Scope: auth.ScopeMetrics, Handle: stream},
		}
	})
	return h, running, func() []audit.Event {
		h.stop()
		recorder.Close()
		var list []audit.Event
		for _, e := range events {
			if e.Action == audit.RequestEnded {
				list = append(list, e)
			}
		}
		return list
	}
}

// open sends a GET request to the admin listener and returns the response without reading it.
func (h *harness) open(path, credential string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, "http://"+h.admin+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+credential)
	return (&http.Client{Timeout: wait}).Do(req)
}

// A request ends when its credential is revoked or has expired, with the cause as its response.
func TestRequestEndsWithItsCredential(t *testing.T) {
	t.Parallel()
	issuer, verify := startIssuer(t)
	h, running, ended := startWatched(t, verify)
	now, by := time.Now(), audit.Origin{}
	revoked := mint(t, h.engine, auth.Token{Name: "revoked", Scopes: auth.ScopeMetrics})
	expired := mint(t, h.engine, auth.Token{Name: "expired", Scopes: auth.ScopeMetrics})
	kept := mint(t, h.engine, auth.Token{Name: "kept", Scopes: auth.ScopeMetrics})
	credentials := []string{
		revoked, expired, issuer.JWT(now, oidctest.Object{"scope": "metrics", "jti": "a", "sub": "one"}),
		issuer.JWT(now, oidctest.Object{"scope": "metrics", "jti": "b", "sub": "two"}),
	}
	var requests sync.WaitGroup
	for _, credential := range credentials {
		requests.Go(func() {
			res, err := h.open("/wait", credential)
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			const want = `{"error":40102,"message":"the request ended because its credential is no longer valid: ` +
				`it has expired or was revoked, or the session has ended"}` + "\n"
			if string(body) != want || err != nil || res.StatusCode != http.StatusUnauthorized {
				t.Errorf("%.20s: got %d %s, %v", credential, res.StatusCode, body, err)
			}
		})
		<-running
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	going := make(chan error, 1)
	go func() { // ends with ctx; the test receives its result
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+h.admin+"/wait", http.NoBody)
		req.Header.Set("Authorization", "Bearer "+kept)
		res, err := http.DefaultTransport.RoundTrip(req)
		if err == nil {
			_ = res.Body.Close()
		}
		going <- err
	}()
	<-running
	_, errRevoked := h.engine.RevokeTokens(ctx, store.Selector{Name: "revoked"}, now, by)
	_, _, errExpired := h.engine.RotateToken(ctx, auth.Token{
		Name: "expired", Hash: auth.HashOf(auth.Mint()), CreatedAt: now,
	}, 0, by)
	_, errJWT := h.engine.RevokeIdentity(ctx, auth.NewRevokedJWT(issuer.URL, "a", now), 10, by)
	subject := auth.NewSubject(issuer.URL, "two", now)
	subject.RevokedAt = now.Add(time.Second)
	_, errSubject := h.engine.RevokeIdentity(ctx, subject, 10, by)
	for _, err := range []error{errRevoked, errExpired, errJWT, errSubject} {
		if err != nil {
			t.Fatal(err)
		}
	}
	requests.Wait()
	select {
	case err := <-going:
		t.Errorf("the request of a valid credential has ended: %v", err)
	default:
	}
	cancel()
	if err := <-going; err == nil {
		t.Error("the canceled request of a valid credential has a response")
	}
	reasons := map[string]bool{}
	for _, e := range ended() {
		request := audit.Detail{Key: "request", Value: "GET /wait"}
		if e.Details[1] != request || e.Address != "127.0.0.1" || e.RequestID == "" {
			t.Errorf("got %+v", e)
		}
		reasons[e.Actor.Name+": "+e.Details[0].Value] = true
	}
	want := map[string]bool{
		"revoked: revoked": true, "expired: expired": true, "one: jwt: its jti is revoked": true,
		"two: jwt: its subject is revoked": true,
	}
	if diff := cmp.Diff(want, reasons); diff != "" {
		t.Errorf("audit log (-want +got):\n%s", diff)
	}
}

// A running response ends in the middle, even while it waits for the client.
func TestResponseEndsWithItsCredential(t *testing.T) {
	t.Parallel()
	h, running, ended := startWatched(t, nil)
	secret := mint(t, h.engine, auth.Token{Name: "scraper", Scopes: auth.ScopeMetrics})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+h.admin+"/stream", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+secret)
	res, err := http.DefaultTransport.RoundTrip(req) // a client with a timeout would end the response itself
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	<-running
	scraper := store.Selector{Name: "scraper"}
	if _, err := h.engine.RevokeTokens(t.Context(), scraper, time.Now(), audit.Origin{}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-running:
	case <-time.After(wait):
		t.Fatal("the response goes on")
	}
	if n, err := io.Copy(io.Discard, res.Body); err == nil {
		t.Errorf("the client received %d bytes as a complete response", n)
	}
	if got := ended(); len(got) != 1 || got[0].Actor.Name != "scraper" {
		t.Errorf("audit log: got %+v", got)
	}
}

// A body that arrives after the revocation of its credential changes nothing.
func TestBodyAfterRevocation(t *testing.T) {
	t.Parallel()
	h, _, _ := startWatched(t, nil)
	both := mint(t, h.engine, auth.Token{Name: "both", Scopes: auth.ScopeCreate | auth.ScopeAdmin})
	body := map[string]string{ // by address and path
		h.public + "/plants":            `{"id":7,"name":"A"}`,
		h.admin + "/api/v1/credentials": `{"name":"b","scopes":["admin"],"no_expiry":true}`,
	}
	open := map[string]*client{}
	for target, text := range body {
		address, path, _ := strings.Cut(target, "/")
		c := h.dial(t, address)
		defer c.Close()
		c.write(message("POST /"+path+" HTTP/1.1", "", "Authorization: Bearer "+both, "Host: "+address,
			"Expect: 100-continue", fmt.Sprint("Content-Length: ", len(text))))
		if got := c.read(http.MethodPost); got.Status != http.StatusContinue {
			t.Fatalf("%s: got %+v", target, got)
		}
		open[target] = c
	}
	started := time.Now() // the server reads the bodies
	valid := func() bool {
		// A request would be cut if it lasted for so long.
		_, err := h.writePath.Authenticate(t.Context(), both)
		return err == nil
	}
	if !valid() {
		t.Fatal("the credential is not valid")
	}
	if _, err := h.engine.RevokeTokens(t.Context(), store.Selector{Name: "both"}, time.Now(), audit.Origin{}); err != nil {
		t.Fatal(err)
	}
	for valid() || time.Since(started) <= server.CheckEvery {
		<-time.After(10 * time.Millisecond)
	}
	for target, c := range open {
		c.write(body[target])
		if got := c.read(http.MethodPost); got.code(t) != plant.CodeCredentialInvalid {
			t.Errorf("%s: got %+v", target, got)
		}
	}
	h.notStored(7)
	tokens, err := h.engine.Tokens(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range tokens {
		if token.Name == "b" {
			t.Error("the revoked token has created a token")
		}
	}
}
