package server

import (
	"strconv"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
)

// recordAccess records a request in the audit log if its credential lacks the scope, or is valid on the admin listener.
// err is the error of authorize.
func (h *handler) recordAccess(c *Call, err error) {
	switch {
	case c.Principal == (auth.Principal{}): // authorize returns one with an error only if it lacks the scope
	case err != nil:
		h.audit.Collect(audit.Event{
			Time: time.Now(), Action: audit.ScopeRefused, Origin: c.Origin(),
			Details: []audit.Detail{{Key: "scope", Value: c.scope.String()}},
		})
	case h.guard != nil:
		h.audit.SignedIn(c.Origin(), c.Principal.Scopes.Has(auth.ScopeAdmin))
	}
}

// Origin returns the origin of the request for entries in the audit log.
func (c *Call) Origin() audit.Origin { return c.OriginOf(c.Principal) }

// OriginOf is Origin for another principal than the request's.
func (c *Call) OriginOf(p auth.Principal) audit.Origin {
	return audit.Origin{
		Actor:     audit.Actor{Kind: audit.Token, ID: strconv.FormatInt(p.TokenID, 10), Name: p.Name},
		Address:   c.handler.clientText(c.Request),
		RequestID: c.id[0],
	}
}
