package server

import (
	"errors"
	"net/http"
	"strconv"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
)

// trace records a request for the audit log: one whose credential lacks the scope, and one
// with a valid credential on the admin listener. It is called for every request.
func (h *handler) trace(
	rec *responseRecorder, r *http.Request, principal auth.Principal, scope auth.Scopes, err error,
) {
	admin := h.guard != nil
	if principal == (auth.Principal{}) || err == nil && !admin {
		return
	}
	if err == nil {
		h.audit.SignedIn(h.originOf(rec, r, principal), principal.Scopes.Has(auth.ScopeAdmin))
		return
	}
	var refusal *plant.Error
	if errors.As(err, &refusal) && refusal.Code == plant.CodeScopeMissing {
		h.audit.ScopeRefused(h.originOf(rec, r, principal), scope.String())
	}
}

// OriginOf returns the origin of the entries of a request in the audit log. w, r and
// principal are those of a HandlerFunc.
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
