package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/limit"
	"plantstore/internal/plant"
)

// authorize returns the principal of a request, the zero value if it requires no credential. again is for a request
// whose credential was valid when it arrived. The principal that authorize returns with an error is valid, but lacks
// the scope.
func (h *handler) authorize(rec *responseRecorder, r *http.Request, again bool) (principal auth.Principal, err error) {
	route := rec.route
	switch {
	case rec.scope == 0:
		return auth.Principal{}, nil
	case route.Page:
		principal, err = h.browser.Authenticate(r, func(credential string) (auth.Principal, error) {
			return h.authenticate(rec, r, credential, again)
		})
	default:
		principal, err = h.authorizeBearer(rec, r, again)
	}
	if err != nil {
		return auth.Principal{}, err
	}
	return principal, route.check(principal, rec.scope)
}

func (h *handler) authorizeBearer(rec *responseRecorder, r *http.Request, again bool) (auth.Principal, error) {
	credential, err := auth.Bearer(r.Header)
	if err != nil {
		return auth.Principal{}, err
	}
	if rec.route.stale {
		if principal, err := h.store.AuthenticateStale(credential); err == nil {
			return principal, nil
		}
	}
	return h.authenticate(rec, r, credential, again)
}

// authenticate returns the principal of a credential. While the network of the client has too many failures, the
// store does not look for the credential in the engine, so the limit also bounds the work of the store. A credential
// counts once it has failed: the first requests with a new token don't count, even when concurrent. A credential that
// the store has in memory always works: clients share an address, and one of them must not lock out the others. again
// is for a credential that was valid before: the store has it in memory, or it is no longer valid, which is no
// failure.
func (h *handler) authenticate(
	rec *responseRecorder, r *http.Request, credential string, again bool,
) (auth.Principal, error) {
	principal, err := h.store.AuthenticateKnown(r.Context(), credential)
	if again || !isInvalid(err) {
		return principal, err
	}
	if h.failures == nil {
		return h.store.Authenticate(r.Context(), credential)
	}
	network := limit.NetworkOf(h.proxies.client(r))
	if wait := h.failures.buckets.Wait(network); wait > 0 {
		return auth.Principal{}, h.refuseFailed(rec, r, wait)
	}
	principal, err = h.store.Authenticate(r.Context(), credential)
	if !isInvalid(err) {
		return principal, err
	}
	if level := h.failures.buckets.Take(network); !level.Taken { // concurrent requests have used the rest
		return auth.Principal{}, h.refuseFailed(rec, r, level.NextIn)
	}
	return principal, err
}

// refuseFailed returns the error for a client whose network has too many failures.
func (h *handler) refuseFailed(rec *responseRecorder, r *http.Request, wait time.Duration) error {
	h.failures.logRefusal(h.clientText(r))
	rec.Header()["Retry-After"] = []string{wholeSeconds(wait)}
	return plant.Errorf(plant.CodeTooManyFailures, "this address sent too many failed credentials; "+
		"correct the credential and send the request again after the seconds in Retry-After")
}

func isInvalid(err error) bool {
	_, ok := errors.AsType[*auth.Invalid](err)
	return ok
}

// Authenticate returns the principal of a credential. w and r are the arguments of a HandlerFunc. Authenticate counts
// failures of the address, and refuses the request of an address with too many. The error wraps a *plant.Error.
func Authenticate(w http.ResponseWriter, r *http.Request, credential string) (auth.Principal, error) {
	rec := w.(*responseRecorder)
	principal, err := rec.handler.authenticate(rec, r, credential, false)
	return rec.authenticated(principal, err)
}

// The limits of the checks of AuthenticateBy.
const (
	proofsMax       = 8 // at the same time
	proofsOfNetwork = 2
	proofWaits      = 5 * time.Second
)

// AuthenticateBy returns the principal that check returns for another proof than a credential of the store: the
// response of an issuer. A failure is counted before check, which sends requests to the issuer. It is undone if check
// returns no error, or a *plant.Error that is no *auth.Invalid: a reason of this server. Few checks run at the same
// time, and fewer of an address.
func AuthenticateBy(
	w http.ResponseWriter, r *http.Request, check func() (auth.Principal, error),
) (principal auth.Principal, err error) {
	rec := w.(*responseRecorder)
	h, network := rec.handler, limit.NetworkOf(rec.handler.proxies.client(r))
	if h.failures != nil {
		if level := h.failures.buckets.Take(network); !level.Taken {
			return auth.Principal{}, h.refuseFailed(rec, r, level.NextIn)
		}
		defer func() {
			if _, own := errors.AsType[*plant.Error](err); err == nil || own && !isInvalid(err) {
				h.failures.buckets.Return(network)
			}
		}()
	}
	ctx, cancel := context.WithTimeout(r.Context(), proofWaits)
	defer cancel()
	leave, err := h.proofs.Enter(ctx, network)
	if err != nil {
		return auth.Principal{}, plant.Errorf(plant.CodeStoreUnavailable,
			"Too many people sign in at the same time. Try again in a few seconds.")
	}
	defer leave()
	return rec.authenticated(check())
}

// authenticated stores the principal, or the reason of the refusal, for the log.
func (rec *responseRecorder) authenticated(principal auth.Principal, err error) (auth.Principal, error) {
	if invalid, ok := errors.AsType[*auth.Invalid](err); ok {
		rec.reason = invalid.Reason
	}
	rec.principal = principal.Name
	return principal, err
}
