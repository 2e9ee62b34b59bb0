package server

import (
	"net/http"
	"strconv"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
)

// recordAccess records a request in the audit log if its credential lacks the scope, or is valid on the admin listener.
func (h *handler) recordAccess(rec *responseRecorder, r *http.Request, principal auth.Principal, err error) {
	switch {
	case principal == (auth.Principal{}): // authorize returns one with an error only if it lacks the scope
	case err != nil:
		h.audit.Collect(audit.Event{
			Time: time.Now(), Action: audit.ScopeRefused, Origin: h.originOf(rec, r, principal),
			Details: []audit.Detail{{Key: "scope", Value: rec.scope.String()}},
		})
	case h.guard != nil:
		h.audit.SignedIn(h.originOf(rec, r, principal), principal.Scopes.Has(auth.ScopeAdmin))
	}
}

// OriginOf returns the origin of a request for entries in the audit log. It needs the arguments of a HandlerFunc.
func OriginOf(w http.ResponseWriter, r *http.Request, principal auth.Principal) audit.Origin {
	rec := w.(*responseRecorder)
	return rec.handler.originOf(rec, r, principal)
}

func (h *handler) originOf(rec *responseRecorder, r *http.Request, principal auth.Principal) audit.Origin {
	return audit.Origin{
		Actor:     audit.Actor{Kind: audit.Token, ID: strconv.FormatInt(principal.TokenID, 10), Name: principal.Name},
		Address:   h.clientText(r),
		RequestID: rec.id[0],
	}
}
