package admin

import (
	"context"
	"net/http"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/server"
	"plantstore/internal/store"
)

// webhookRoutes returns the routes of the webhooks and their dead letters.
func (a api) webhookRoutes() []server.Route {
	const letters = base + "/webhooks/dead-letters"
	return []server.Route{
		{Method: "GET", Path: base + "/webhooks", Scope: auth.ScopeAdmin, Handle: a.listWebhooks},
		{Method: "GET", Path: letters, Scope: auth.ScopeAdmin, Handle: a.listDeadLetters},
		{Method: "POST", Path: letters + "/retry", Scope: auth.ScopeAdmin, Handle: a.changeDead((*Service).RetryDead)},
		{Method: "POST", Path: letters + "/drop", Scope: auth.ScopeAdmin, Handle: a.changeDead((*Service).DropDead)},
	}
}

func (a api) listWebhooks(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
	cursor, limit, err := pageParameters(r)
	if err != nil {
		return err
	}
	page, err := a.service.Webhooks(r.Context(), WebhookQuery{cursor, limit})
	if err != nil {
		return err
	}
	return respond(w, page)
}

func (a api) listDeadLetters(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
	cursor, limit, err := pageParameters(r)
	if err != nil {
		return err
	}
	page, err := a.service.DeadLetters(r.Context(), DeadLetterQuery{cursor, limit})
	if err != nil {
		return err
	}
	return respond(w, page)
}

// pageParameters returns the parameters of a list without filters.
func pageParameters(r *http.Request) (cursor string, limit int, err error) {
	values, err := parameters(r, "limit", "cursor")
	if err != nil {
		return "", 0, err
	}
	limit, err = intParameter(values, "limit", limitDefault, 1, PageMax)
	return values.Get("cursor"), limit, err
}

// changeDead returns the function of a route that changes dead letters.
func (a api) changeDead(
	change func(*Service, context.Context, store.DeadSelector, audit.Origin) (DeadLettersChanged, error),
) server.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, p auth.Principal) error {
		if _, err := parameters(r); err != nil {
			return err
		}
		var selector store.DeadSelector
		var plant int64
		var all bool
		given, err := readBody(w, r, map[string]any{"webhook_id": &selector.Webhook, "plant_id": &plant, "all": &all})
		if err != nil {
			return err
		}
		if all == (given["webhook_id"] || given["plant_id"]) {
			return badInput("send webhook_id, plant_id or both, or all with the value true alone")
		}
		if given["webhook_id"] && selector.Webhook < 1 {
			return badInput("webhook_id must be that of a webhook, which is at least 1")
		}
		if given["plant_id"] {
			selector.Plant = &plant
		}
		result, err := change(a.service, r.Context(), selector, server.OriginOf(w, r, p))
		if err != nil {
			return err
		}
		return respond(w, result)
	}
}
