package admin

import (
	"net/http"

	"plantstore/internal/auth"
	"plantstore/internal/server"
)

// stateRoutes returns the routes of the state and the settings.
func (a api) stateRoutes() []server.Route {
	return []server.Route{
		{Method: "GET", Path: base + "/state", Scope: auth.ScopeAdmin, Handle: a.state},
		{Method: "GET", Path: base + "/settings", Scope: auth.ScopeAdmin, Handle: a.listSettings},
	}
}

func (a api) state(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	return respond(w, a.service.State(r.Context()))
}

func (a api) listSettings(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	return respond(w, struct {
		Settings []Setting `json:"settings"`
	}{a.service.Settings()})
}
