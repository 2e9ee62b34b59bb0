package oidc_test

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"plantstore/internal/oidc"
	"plantstore/internal/oidc/oidctest"
)

// TestRotation shows that a new key is accepted without a restart, and that an old key is refused after the next fetch,
// also for JWTs in the cache.
func TestRotation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := oidctest.NewIssuer(issuerURL)
		v := start(t, i)
		old := i.JWT(time.Now(), nil)
		if _, err := v.Verify(t.Context(), old, time.Now(), true); err != nil {
			t.Fatal(err)
		}
		before := i.Key()
		i.Publish(oidctest.NewKey("key-2", "ES256"), before)
		if _, err := v.Verify(t.Context(), i.JWT(time.Now(), nil), time.Now(), true); err != nil {
			t.Errorf("a JWT of the new key: %v", err)
		}
		if _, err := v.Verify(t.Context(), old, time.Now(), true); err != nil {
			t.Errorf("a JWT of the old key: %v", err)
		}
		i.Publish(i.Key())
		time.Sleep(11 * time.Minute) //nolint:forbidigo // the bubble's clock, not a wait
		const want = "the issuer has no key with this kid for this alg"
		if _, err := v.Verify(t.Context(), old, time.Now(), true); reasonOf(err) != want {
			t.Errorf("a JWT of the withdrawn key: %v, want %q", err, want)
		}
	})
}

// TestRotationWithoutWait shows that a request that does not wait causes a fetch of an unknown key, too.
func TestRotationWithoutWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := oidctest.NewIssuer(issuerURL)
		v := start(t, i)
		synctest.Wait()
		i.Publish(oidctest.NewKey("key-2", "ES256"))
		jwt := i.JWT(time.Now(), nil)
		_, err := v.Verify(t.Context(), jwt, time.Now(), false)
		if want := "the issuer has no key with this kid for this alg"; reasonOf(err) != want {
			t.Errorf("before the fetch: %v, want %q", err, want)
		}
		synctest.Wait()
		if _, err := v.Verify(t.Context(), jwt, time.Now(), false); err != nil {
			t.Errorf("after the fetch: %v", err)
		}
	})
}

// slow is a transport whose responses are as old as their delay when they arrive.
type slow struct {
	http.RoundTripper

	delay time.Duration
}

func (s slow) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := s.RoundTripper.RoundTrip(r)
	time.Sleep(s.delay) //nolint:forbidigo // the bubble's clock, not a wait
	return res, err
}

// TestKeyDuringFetch has the issuer publish a key during a fetch that has read the keys already: a request waits for
// the next fetch, too, for 5 s in all.
func TestKeyDuringFetch(t *testing.T) {
	t.Parallel()
	const unknown = "the issuer has no key with this kid for this alg"
	for delay, want := range map[time.Duration]struct {
		took   time.Duration
		reason string
	}{
		time.Second:     {500*time.Millisecond + 2*time.Second, ""},
		3 * time.Second: {5 * time.Second, unknown},
	} {
		synctest.Test(t, func(t *testing.T) {
			i := oidctest.NewIssuer(issuerURL)
			v := oidc.NewWithTransport(config(i), slow{direct{i}, delay})
			defer v.Close()
			const refreshEvery = 10 * time.Minute
			// The first fetch takes two delays. The next one has read the keys after one.
			time.Sleep(refreshEvery + 3*delay + delay/2) //nolint:forbidigo // the bubble's clock, not a wait
			i.Publish(oidctest.NewKey("key-2", "ES256"))
			started := time.Now()
			_, err := v.Verify(t.Context(), i.JWT(started, nil), started, true)
			if took := time.Since(started); reasonOf(err) != want.reason || took != want.took {
				t.Errorf("responses after %s: got %v after %s, want %q after %s", delay, err, took, want.reason, want.took)
			}
		})
	}
}

// TestUnknownKeys shows that JWTs with unknown keys cause at most one fetch a minute.
func TestUnknownKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := oidctest.NewIssuer(issuerURL)
		v := start(t, i)
		synctest.Wait()
		foreign := oidctest.NewKey("foreign", "ES256")
		first := i.Fetches()
		const minutes = 8
		for range minutes * 60 {
			for range 5 {
				_, err := v.Verify(t.Context(), foreign.Sign(foreign.Header(), i.Claims(time.Now())), time.Now(), true)
				if want := "the issuer has no key with this kid for this alg"; reasonOf(err) != want {
					t.Fatalf("%v, want %q", err, want)
				}
			}
			time.Sleep(time.Second) //nolint:forbidigo // the bubble's clock, not a wait
		}
		if n := i.Fetches() - first; n < minutes-1 || n > minutes {
			t.Errorf("%d fetches in %d minutes", n, minutes)
		}
	})
}

// TestUnknownKeysAtOnce shows that requests with unknown keys share a fetch.
func TestUnknownKeysAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := oidctest.NewIssuer(issuerURL)
		v := start(t, i)
		synctest.Wait()
		i.Publish(oidctest.NewKey("key-2", "ES256"))
		errs := make(chan error)
		for range 50 {
			jwt := i.JWT(time.Now(), nil)
			go func() {
				_, err := v.Verify(t.Context(), jwt, time.Now(), true)
				errs <- err
			}()
		}
		for range 50 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if n := i.Fetches(); n != 2 {
			t.Errorf("%d fetches, want 2", n)
		}
	})
}

// TestStartWithoutIssuer shows that a verifier starts without its issuer and fetches the keys when it is reachable.
func TestStartWithoutIssuer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := oidctest.NewIssuer(issuerURL)
		i.Answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
		v := start(t, i)
		good := i.JWT(time.Now(), nil)
		for range 30 {
			if _, err := v.Verify(t.Context(), good, time.Now(), true); !errors.Is(err, oidc.ErrNoKeys) {
				t.Fatalf("without keys: %v, want %v", err, oidc.ErrNoKeys)
			}
			if _, err := v.Verify(t.Context(), "..", time.Now(), true); !strings.HasPrefix(reasonOf(err), "header: ") {
				t.Fatalf("a bad JWT without keys: %v", err)
			}
			time.Sleep(time.Second) //nolint:forbidigo // the bubble's clock, not a wait
		}
		i.Answer(nil)
		time.Sleep(time.Minute) //nolint:forbidigo // the bubble's clock, not a wait
		if _, err := v.Verify(t.Context(), good, time.Now(), true); err != nil {
			t.Errorf("when the issuer is back: %v", err)
		}
	})
}

// TestWarningOfEachCause shows that the log has a warning when fetches fail for another cause than before: an issuer
// that comes up late and then refuses the server would leave the first cause as the last one.
func TestWarningOfEachCause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := oidctest.NewIssuer(issuerURL)
		var log strings.Builder
		refuse := func(status int) {
			i.Answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
			time.Sleep(5 * time.Minute) //nolint:forbidigo // the bubble's clock, not a wait
		}
		i.Answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
		c := config(i)
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
		v := oidc.NewWithTransport(c, direct{i})
		refuse(http.StatusBadGateway)
		refuse(http.StatusNotAcceptable)
		v.Close()
		for _, want := range []string{"status 502", "status 406"} {
			if n := strings.Count(log.String(), "realm: "+want); n != 1 {
				t.Errorf("%d warnings with %q, want one:\n%s", n, want, &log)
			}
		}
	})
}

// resets is an issuer that resets each connection, which has another port each time.
type resets struct{ ports int }

// RoundTrip implements http.RoundTripper.
func (r *resets) RoundTrip(*http.Request) (*http.Response, error) {
	r.ports++
	return nil, &net.OpError{Op: "read", Source: &net.TCPAddr{Port: 40000 + r.ports}, Err: syscall.ECONNRESET}
}

func TestWarningOfResets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		c := config(oidctest.NewIssuer(issuerURL))
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
		v := oidc.NewWithTransport(c, &resets{})
		time.Sleep(10 * time.Minute) //nolint:forbidigo // the bubble's clock, not a wait
		v.Close()
		if n := strings.Count(log.String(), "level=WARN"); n != 1 {
			t.Errorf("%d warnings, want one:\n%s", n, &log)
		}
	})
}

// TestClose shows that requests with an unknown key end with the verifier, and later ones at once: neither knows
// whether the issuer has the key. A JWT of a known key is still valid.
func TestClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := oidctest.NewIssuer(issuerURL)
		v := start(t, i)
		synctest.Wait()
		known := i.JWT(time.Now(), oidctest.Object{"exp": time.Now().Add(24 * time.Hour).Unix()})
		i.Publish(oidctest.NewKey("key-2", "ES256"))
		i.Answer(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		time.Sleep(time.Hour) //nolint:forbidigo // the bubble's clock, not a wait
		fresh := i.JWT(time.Now(), nil)
		errs := make(chan error)
		for range 10 {
			go func() {
				_, err := v.Verify(t.Context(), fresh, time.Now(), true)
				errs <- err
			}()
		}
		synctest.Wait() // they wait for a fetch
		closed := time.Now()
		v.Close()
		for range 10 {
			if err := <-errs; !errors.Is(err, oidc.ErrNoKeys) {
				t.Errorf("during Close: %v, want %v", err, oidc.ErrNoKeys)
			}
		}
		if took := time.Since(closed); took != 0 {
			t.Errorf("the requests ended %s after Close", took)
		}
		time.Sleep(time.Minute) //nolint:forbidigo // the bubble's clock, not a wait; another fetch may be requested
		later := time.Now()
		for _, row := range []struct {
			jwt  string
			wait bool
			want error
		}{{fresh, true, oidc.ErrNoKeys}, {fresh, false, oidc.ErrNoKeys}, {known, true, nil}} {
			if _, err := v.Verify(t.Context(), row.jwt, later, row.wait); !errors.Is(err, row.want) {
				t.Errorf("after Close: %v, want %v", err, row.want)
			}
		}
		if took := time.Since(later); took != 0 {
			t.Errorf("requests after Close took %s", took)
		}
	})
}

// TestCloseWithoutKeys shows that requests end with a verifier that has no keys yet.
func TestCloseWithoutKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := oidctest.NewIssuer(issuerURL)
		i.Answer(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		v := start(t, i)
		started := time.Now()
		errs := make(chan error)
		verify := func() {
			_, err := v.Verify(t.Context(), i.JWT(started, nil), started, true)
			errs <- err
		}
		go verify()
		synctest.Wait() // it waits for the first fetch
		v.Close()
		go verify()
		for range 2 {
			if err := <-errs; !errors.Is(err, oidc.ErrNoKeys) {
				t.Errorf("got %v, want %v", err, oidc.ErrNoKeys)
			}
		}
		if took := time.Since(started); took != 0 {
			t.Errorf("the requests ended after %s", took)
		}
	})
}

// While the issuer does not respond, a bad JWT is refused at once, a limited number of others wait for the first fetch,
// and none waits after it.
func TestWaitsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := oidctest.NewIssuer(issuerURL)
		i.Answer(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		v := start(t, i)
		client := oidc.NewClient(v, clientConfig())
		began := time.Now()
		byKeys := []string{
			"the issuer has no key with this kid for this alg", "more than one key of the issuer fits this kid and alg",
			"the signature is invalid",
		}
		for _, bad := range oidctest.BadJWTs(i, oidctest.NewKeys(), began) {
			if slices.Contains(byKeys, bad.Reason) {
				continue
			}
			if _, err := v.Verify(t.Context(), bad.JWT, began, true); reasonOf(err) != bad.Reason {
				t.Errorf("%s: got %v, want %s", bad.Name, err, bad.Reason)
			}
		}
		jwt := i.JWT(began, nil)
		var waiting sync.WaitGroup
		const most = 1000
		for range most {
			waiting.Go(func() {
				if _, err := v.Verify(t.Context(), jwt, began, true); !errors.Is(err, oidc.ErrNoKeys) {
					t.Errorf("got %v, want %v", err, oidc.ErrNoKeys)
				}
			})
		}
		synctest.Wait()
		refused := func(when string) {
			t.Helper()
			at := time.Now()
			_, err := v.Verify(t.Context(), jwt, at, true)
			if took := time.Since(at); !errors.Is(err, oidc.ErrNoKeys) || took != 0 {
				t.Errorf("%s: got %v after %s, want %v at once", when, err, took, oidc.ErrNoKeys)
			}
			if _, _, err = client.Begin(t.Context()); !errors.Is(err, oidc.ErrNoKeys) || time.Since(at) != 0 {
				t.Errorf("%s: a sign-in begins with %v after %s, want %v at once", when, err, time.Since(at), oidc.ErrNoKeys)
			}
		}
		refused("while others wait")
		if took := time.Since(began); took != 0 {
			t.Errorf("bad JWTs took %s", took)
		}
		waiting.Wait()
		time.Sleep(10 * time.Second) //nolint:forbidigo // the bubble's clock, not a wait
		synctest.Wait()              // the second fetch runs
		refused("after the first fetch")
		i.Answer(nil)
		time.Sleep(time.Minute) //nolint:forbidigo // the bubble's clock, not a wait
		if _, err := v.Verify(t.Context(), jwt, time.Now(), true); err != nil {
			t.Errorf("with keys: got %v", err)
		}
	})
}
