package server

import (
	"context"
	"errors"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/limit"
	"plantstore/internal/plant"
)

// authorize returns the principal of a request, the zero value if it requires no credential. again is for a request
// whose credential was valid when it arrived. The principal that authorize returns with an error is valid, but lacks
// the scope.
func (h *handler) authorize(c *Call, again bool) (principal auth.Principal, err error) {
	switch {
	case c.scope == 0:
		return auth.Principal{}, nil
	case c.route.Page:
		principal, err = h.browser.Authenticate(c.Request, func(credential string) (auth.Principal, error) {
			return h.authenticate(c, credential, again)
		})
	default:
		principal, err = h.authorizeBearer(c, again)
	}
	if err != nil {
		return auth.Principal{}, err
	}
	return principal, c.route.check(principal, c.scope)
}

func (h *handler) authorizeBearer(c *Call, again bool) (auth.Principal, error) {
	credential, err := auth.Bearer(c.Request.Header)
	if err != nil {
		return auth.Principal{}, err
	}
	if c.scope == auth.ScopeCreate {
		if other := h.writePath.MayAccept(); other != nil { // Create returns it to a client with a known token
			if principal, err := h.writePath.AuthenticateKnown(c.Context(), credential); err == nil {
				return principal, nil
			}
			return auth.Principal{}, other
		}
	}
	if c.route.staleTokens {
		if principal, err := h.writePath.AuthenticateStale(credential); err == nil {
			return principal, nil
		}
	}
	return h.authenticate(c, credential, again)
}

// authenticate returns the principal of a credential. While the network of the client has too many failures, only
// credentials in memory are valid, so the limit also bounds the work of the engine. A credential counts once it has
// failed: the first requests with a new token don't count, even when concurrent. A credential in memory always works:
// clients share an address, and one of them must not lock out the others. again is for a credential that was valid
// before: it is in memory, or no longer valid, which is no failure.
func (h *handler) authenticate(c *Call, credential string, again bool) (auth.Principal, error) {
	ctx := c.Context()
	principal, err := h.writePath.AuthenticateKnown(ctx, credential)
	invalid, ok := errors.AsType[*auth.Invalid](err)
	if again || !ok {
		return principal, err
	}
	invalid.RecordUse(time.Now(), h.proxies.client(c.Request))
	if h.failures == nil {
		return h.writePath.Authenticate(ctx, credential)
	}
	network := limit.NetworkOf(h.proxies.client(c.Request))
	if wait := h.failures.buckets.Wait(network); wait > 0 {
		return auth.Principal{}, h.refuseFailed(c, wait)
	}
	principal, err = h.writePath.Authenticate(ctx, credential)
	if !isInvalid(err) {
		return principal, err
	}
	if level := h.failures.buckets.Take(network); !level.Taken { // concurrent requests have used the rest
		return auth.Principal{}, h.refuseFailed(c, level.NextIn)
	}
	return principal, err
}

// refuseFailed returns the error for a client whose network has too many failures.
func (h *handler) refuseFailed(c *Call, wait time.Duration) error {
	h.failures.logRefusal(h.clientText(c.Request))
	c.Header()["Retry-After"] = []string{wholeSeconds(wait)}
	return plant.Errorf(plant.CodeTooManyFailures, "this address sent too many failed credentials; "+
		"correct the credential and send the request again after the seconds in Retry-After")
}

func isInvalid(err error) bool {
	_, ok := errors.AsType[*auth.Invalid](err)
	return ok
}

// Authenticate returns the principal of a credential, which becomes the request's. It counts failures of the
// address, and refuses the request of an address with too many. The error wraps a *plant.Error.
func (c *Call) Authenticate(credential string) (auth.Principal, error) {
	return c.authenticated(c.handler.authenticate(c, credential, false))
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
func (c *Call) AuthenticateBy(check func() (auth.Principal, error)) (principal auth.Principal, err error) {
	h, network := c.handler, limit.NetworkOf(c.handler.proxies.client(c.Request))
	if h.failures != nil {
		if level := h.failures.buckets.Take(network); !level.Taken {
			return auth.Principal{}, h.refuseFailed(c, level.NextIn)
		}
		defer func() {
			if _, own := errors.AsType[*plant.Error](err); err == nil || own && !isInvalid(err) {
				h.failures.buckets.Return(network)
			}
		}()
	}
	ctx, cancel := context.WithTimeout(c.Context(), proofWaits)
	defer cancel()
	leave, err := h.proofs.Enter(ctx, network)
	if err != nil {
		return auth.Principal{}, plant.Errorf(plant.CodeStoreUnavailable,
			"Too many people sign in at the same time. Try again in a few seconds.")
	}
	defer leave()
	return c.authenticated(check())
}

// authenticated sets the principal of the request, or the reason of the refusal for the log.
func (c *Call) authenticated(principal auth.Principal, err error) (auth.Principal, error) {
	if invalid, ok := errors.AsType[*auth.Invalid](err); ok {
		c.invalid = invalid
	}
	c.Principal = principal
	return principal, err
}
