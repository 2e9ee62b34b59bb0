package server

import (
	"errors"
	"net/http"

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
	return h.authenticateBy(rec, r, func() (auth.Principal, error) {
		return h.store.Authenticate(r.Context(), credential)
	})
}

// authenticateBy returns the principal that check returns. It refuses the request if the network of the client has too
// many failures, and counts an *auth.Invalid as one.
func (h *handler) authenticateBy(
	rec *responseRecorder, r *http.Request, check func() (auth.Principal, error),
) (auth.Principal, error) {
	if h.failures == nil {
		return check()
	}
	network := limit.NetworkOf(h.proxies.client(r))
	wait := h.failures.buckets.Wait(network)
	if wait == 0 {
		principal, err := check()
		if !isInvalid(err) {
			return principal, err
		}
		level := h.failures.buckets.Take(network)
		if level.Taken {
			return principal, err
		}
		wait = level.NextIn // concurrent requests have used the rest
	}
	h.failures.logRefusal(h.clientText(r))
	rec.Header()["Retry-After"] = []string{wholeSeconds(wait)}
	return auth.Principal{}, plant.Errorf(plant.CodeTooManyFailures, "this address sent too many failed credentials; "+
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

// AuthenticateBy is Authenticate for another proof than a credential of the store. check returns an *auth.Invalid if
// the proof is wrong.
func AuthenticateBy(
	w http.ResponseWriter, r *http.Request, check func() (auth.Principal, error),
) (auth.Principal, error) {
	rec := w.(*responseRecorder)
	principal, err := rec.handler.authenticateBy(rec, r, check)
	return rec.authenticated(principal, err)
}

// authenticated stores the principal, or the reason of the refusal, for the log.
func (rec *responseRecorder) authenticated(principal auth.Principal, err error) (auth.Principal, error) {
	if invalid, ok := errors.AsType[*auth.Invalid](err); ok {
		rec.reason = invalid.Reason
	}
	rec.principal = principal.Name
	return principal, err
}
