// Package oidc verifies the JWT access tokens of one issuer (RFC 9068, and the forms that common issuers send
// instead) with the keys that the issuer publishes (OpenID Connect Discovery 1.0, RFC 8414, RFC 7517). A Client signs
// people in at the issuer (OpenID Connect Core 1.0).
package oidc

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/auth"
)

// Config configures a Verifier. Issuer is required.
type Config struct {
	Issuer   string // exactly as in the claim iss; CheckIssuer accepts it
	Audience string // exactly as in the claim aud; empty: Verify accepts no access token
	ClientID string // the console's ID at the issuer: a token for it is an ID token; empty: none

	// ScopeClaim is the claim with the values that grant scopes; empty: scope.
	ScopeClaim string
	// Scopes are the scopes that a value of ScopeClaim grants.
	Scopes map[string]auth.Scopes
	// NameClaim is the claim with the name for the log; empty: sub.
	NameClaim string

	Log     *slog.Logger          // nil: no log
	Metrics prometheus.Registerer // nil: no metrics
}

// ErrNoKeys means that the token cannot be verified: the issuer has not responded with its keys since the start, or the
// Verifier was closed before it had the key of the token.
var ErrNoKeys = errors.New("the issuer has not responded with its keys yet")

// Verifier verifies tokens. It is safe for concurrent use.
type Verifier struct {
	config Config
	client *http.Client

	set       atomic.Pointer[keySet] // without keys: not fetched yet
	metadata  atomic.Pointer[metadata]
	fetchedAt atomic.Int64 // the last successful fetch, in Unix nanoseconds; 0: none
	failed    atomic.Int64 // fetches since then
	cause     string       // why the last fetch failed; only the running fetch uses it
	failures  atomic.Int64 // fetches since the start

	waiting     chan struct{} // semaphore of the requests that wait for a fetch
	mu          sync.Mutex
	fetching    chan struct{} // closed when the running fetch ends; nil: none; guarded by mu
	requestedAt time.Time     // the last fetch for an unknown key; guarded by mu

	ctx        context.Context // ends with Close
	stop       context.CancelFunc
	goroutines sync.WaitGroup // Add needs mu and a ctx that has not ended
}

// New returns a Verifier that fetches the keys in the background: the issuer may be unreachable. The caller closes it.
func New(c Config) *Verifier { return newVerifier(c, nil) }

func newVerifier(c Config, transport http.RoundTripper) *Verifier {
	c.ScopeClaim = cmp.Or(c.ScopeClaim, "scope")
	c.NameClaim = cmp.Or(c.NameClaim, "sub")
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	v := &Verifier{config: c, client: newClient(transport), waiting: make(chan struct{}, waitingMax)}
	v.set.Store(newKeySet())
	v.measure(c.Metrics)
	v.ctx, v.stop = context.WithCancel(context.Background())
	v.mu.Lock()
	defer v.mu.Unlock()
	first := v.startFetch() // the first requests wait for it
	v.goroutines.Go(func() { v.run(first) })
	return v
}

// Close ends the goroutines that fetch the keys. Requests that wait for a key receive ErrNoKeys.
func (v *Verifier) Close() {
	v.mu.Lock()
	v.stop()
	v.mu.Unlock()
	v.goroutines.Wait()
	v.client.CloseIdleConnections()
}

// Verify returns the claims of a token that is valid at that time. The error is an *auth.Invalid, or ErrNoKeys. The
// caller checks revocations.
//
// A token with an unknown key causes a fetch of the keys, at most one a minute. With wait, the request waits for it.
// Until the first fetch has ended, every request waits for it; if it fails, no request waits before there are keys. A
// request waits for at most 5 s, with at most 999 others.
func (v *Verifier) Verify(ctx context.Context, token string, now time.Time, wait bool) (*auth.Claims, error) {
	hash := hashOf(token)
	if e := v.set.Load().verified.get(hash); e != nil {
		if err := e.valid.check(now); err != nil {
			return nil, &auth.Invalid{Reason: "jwt: " + err.Error()}
		}
		return e.claims, nil
	}
	e, set, err := v.verify(ctx, token, now, wait, rules{
		"jwt", tokenBytesMax, []string{"at+jwt", "jwt"}, v.checkAccessToken, v.config.ScopeClaim, v.config.Scopes,
	})
	if err != nil {
		return nil, err
	}
	set.verified.put(hash, e)
	return e.claims, nil
}

// verify returns a token that follows the rules, and the set whose key has verified the signature. The error is
// ErrNoKeys, or an *auth.Invalid without a part of the token.
func (v *Verifier) verify(
	ctx context.Context, token string, now time.Time, wait bool, r rules,
) (e *entry, set *keySet, err error) {
	e, t, err := v.check(token, now, r)
	if err == nil {
		set, err = v.checkSignature(ctx, t, wait)
	}
	if err != nil && !errors.Is(err, ErrNoKeys) {
		err = &auth.Invalid{Reason: r.kind + ": " + err.Error()}
	}
	return e, set, err
}

// checkSignature returns the set whose key has verified the signature.
func (v *Verifier) checkSignature(ctx context.Context, t parsed, wait bool) (*keySet, error) {
	ctx, cancel := context.WithTimeout(ctx, requestWaits)
	defer cancel()
	const fetchesMax = 3 // the running one may have read the keys before the issuer published this one
	for n := 0; ; n++ {
		set := v.set.Load()
		err := set.verify(t)
		unknown := errors.Is(err, errKeyUnknown)
		switch {
		case !unknown && !errors.Is(err, ErrNoKeys) || n == fetchesMax && v.ctx.Err() == nil:
			return set, err
		case v.ctx.Err() != nil: // no fetch shows whether the issuer has the key
			return nil, ErrNoKeys
		}
		fetching, waits := v.requestFetch(unknown), wait
		if !unknown {
			waits = v.failed.Load() == 0
		}
		if waits && !v.awaitAmong(ctx, fetching) {
			return nil, ErrNoKeys
		}
	}
}

// hashOf returns the SHA-256 of a token. The buffer is on the stack, because most requests need nothing but the hash.
func hashOf(token string) auth.Hash {
	var buffer [2 << 10]byte
	return sha256.Sum256(append(buffer[:0], token...))
}
