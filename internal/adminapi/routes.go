package adminapi

import (
	"net/http"

	"plantstore/internal/auth"
	"plantstore/internal/server"
)

// Routes returns the routes for server.Config.AdminRoutes.
func (a *API) Routes() ([]server.Route, error) {
	document, err := Document()
	if err != nil {
		return nil, err
	}
	routes := append(a.routes(), server.Route{
		Method: "GET", Path: "/openapi.json", Open: true, Untimed: true, Handle: stream(func(c *call) error {
			c.WriteJSON(http.StatusOK, document.JSON)
			return nil
		}),
	})
	for i := range routes {
		routes[i].Path = "/api/v1" + routes[i].Path
	}
	return routes, nil
}

func (a *API) routes() []server.Route {
	const (
		one    = "/backups/{name}"
		file   = "/imports/{id}"
		dead   = "/webhooks/dead-letters"
		read   = auth.ScopeRead
		create = auth.ScopeCreate
		all    = auth.ScopeAdmin
	)
	return []server.Route{
		{
			Method: "GET", Path: "/plants", Scope: read, Bulk: true,
			Handle: stream(a.listPlants, "limit", "cursor", "name", "tag", "after"),
		},
		{
			Method: "GET", Path: "/plants/search", Scope: read, Bulk: true, Untimed: true,
			Handle: stream(a.searchPlants, "name", "tag", "limit", "cursor"),
		},
		{Method: "GET", Path: "/plants/counts", Scope: read, Handle: respond(a.countPlants, "max_age")},
		{Method: "GET", Path: "/plants/{id}", Scope: read, Handle: respond(a.getPlant)},
		{Method: "POST", Path: "/plants/{id}/correct", Scope: all, Handle: respond(a.correctPlant)},
		{Method: "POST", Path: "/plants/erase", Scope: all, Handle: respond(change(a.service.Erase))},

		{Method: "GET", Path: "/state", Scope: all, Handle: respond(a.state)},
		{Method: "GET", Path: "/settings", Scope: all, Handle: respond(a.listSettings)},

		{Method: "GET", Path: "/credentials", Scope: all, Handle: respond(a.listCredentials, "limit", "cursor", "kind")},
		{Method: "POST", Path: "/credentials", Scope: all, Handle: respond(change(a.service.Mint))},
		{Method: "POST", Path: "/credentials/rotate", Scope: all, Handle: respond(change(a.service.Rotate))},
		{Method: "POST", Path: "/credentials/revoke", Scope: all, Handle: respond(change(a.service.Revoke))},

		{
			Method: "GET", Path: "/audit", Scope: all,
			Handle: respond(a.listAudit, "limit", "cursor", "since", "until", "action", "actor", "order"),
		},
		{Method: "GET", Path: "/audit/verify", Scope: all, Untimed: true, Handle: respond(a.verifyAudit, "expect")},

		{Method: "GET", Path: "/backups", Scope: all, Handle: respond(list(a.service.Backups), "limit", "cursor")},
		{Method: "POST", Path: "/backups", Scope: all, Handle: respond(a.startBackup)},
		{Method: "GET", Path: "/backup-jobs", Scope: all, Handle: respond(a.listJobs)},
		{Method: "GET", Path: "/backup-jobs/{id}", Scope: all, Handle: respond(a.getJob)},
		{Method: "GET", Path: one + "/content", Scope: all, Untimed: true, Handle: stream(a.downloadBackup)},
		{Method: "POST", Path: one + "/verify", Scope: all, Handle: respond(startJob(a.service.VerifyBackup))},
		{Method: "POST", Path: one + "/drill", Scope: all, Handle: respond(startJob(a.service.DrillBackup))},
		{Method: "DELETE", Path: one, Scope: all, Handle: respond(a.deleteBackup)},

		{Method: "GET", Path: "/webhooks", Scope: all, Handle: respond(list(a.service.Webhooks), "limit", "cursor")},
		{Method: "GET", Path: dead, Scope: all, Handle: respond(list(a.service.DeadLetters), "limit", "cursor")},
		{Method: "POST", Path: dead + "/retry", Scope: all, Handle: respond(change(a.service.RetryDead))},
		{Method: "POST", Path: dead + "/drop", Scope: all, Handle: respond(change(a.service.DropDead))},

		{Method: "GET", Path: "/imports", Scope: create, OtherScope: all, Handle: respond(a.listImports)},
		{
			Method: "PUT", Path: file, Scope: create, Untimed: true,
			Handle: respond(a.importPlants, importParameters...),
		},
		{Method: "GET", Path: file, Scope: create, OtherScope: all, Handle: respond(a.getImport)},
		{Method: "GET", Path: file + "/rejects", Scope: create, Untimed: true, Handle: stream(a.downloadRejects, "form")},
		{Method: "POST", Path: file + "/cancel", Scope: create, OtherScope: all, Handle: respond(a.cancelImport)},
	}
}
