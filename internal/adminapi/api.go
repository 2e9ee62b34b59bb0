// Package adminapi is the HTTP API over the operations of package admin, on the admin listener of a server.
// openapi.yaml describes it. The console uses its parts that send and receive files.
package adminapi

import (
	"bytes"
	"context"
	_ "embed" // for openapi.yaml
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/apidoc"
	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/server"
)

//go:embed openapi.yaml
var documentSource []byte

// Document returns the OpenAPI document of the API. The caller must not change it.
var Document = sync.OnceValues(func() (*apidoc.Document, error) {
	return apidoc.New(documentSource, nil, plant.Catalogue())
})

// API is the HTTP API. Its methods are handlers of type server.HandlerFunc.
type API struct {
	service  *admin.Service
	log      *slog.Logger
	uploads  server.UploadLimits // of the files of imports
	partTime time.Duration       // in which a client must accept each part of a Stream
}

// New returns the API over the operations of a server.
func New(service *admin.Service, log *slog.Logger) *API {
	return &API{
		service: service, log: log, partTime: 30 * time.Second,
		uploads: server.UploadLimits{Bytes: 16 << 30, Idle: time.Minute},
	}
}

// Routes returns the routes for server.Config.AdminRoutes.
func (a *API) Routes() ([]server.Route, error) {
	document, err := Document()
	if err != nil {
		return nil, err
	}
	routes := append(a.routes(), server.Route{
		Method: "GET", Path: "/openapi.json", Open: true, Untimed: true, Handle: stream(func(c *call) error {
			server.WriteJSON(c.w, http.StatusOK, document.JSON)
			return nil
		}),
	})
	for i := range routes {
		routes[i].Path = "/api/v1" + routes[i].Path
	}
	return routes, nil
}

// routes returns the routes of the operations. The reads of imports show names of plants, so they require a credential
// even with --admin-open.
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
			Handle: stream(a.listPlants, "limit", "cursor", "tag", "after"),
		},
		{
			Method: "GET", Path: "/plants/search", Scope: read, Bulk: true, Untimed: true,
			Handle: stream(a.searchPlants, "name", "tag", "limit", "cursor"),
		},
		{Method: "GET", Path: "/plants/counts", Scope: read, Handle: respond(a.countPlants, "max_age")},
		{Method: "GET", Path: "/plants/{id}", Scope: read, Handle: respond(a.getPlant)},

		{Method: "GET", Path: "/state", Scope: all, Handle: respond(a.state)},
		{Method: "GET", Path: "/settings", Scope: all, Handle: respond(a.listSettings)},

		{Method: "GET", Path: "/credentials", Scope: all, Handle: respond(a.listCredentials, "limit", "cursor", "kind")},
		{Method: "POST", Path: "/credentials", Scope: all, Handle: respond(a.mint)},
		{Method: "POST", Path: "/credentials/rotate", Scope: all, Handle: respond(a.rotate)},
		{Method: "POST", Path: "/credentials/revoke", Scope: all, Handle: respond(a.revoke)},

		{
			Method: "GET", Path: "/audit", Scope: all,
			Handle: respond(a.listAudit, "limit", "cursor", "since", "actor", "order"),
		},
		{Method: "GET", Path: "/audit/verify", Scope: all, Untimed: true, Handle: respond(a.verifyAudit, "expect")},

		{Method: "GET", Path: "/backups", Scope: all, Handle: respond(list(a.service.Backups), "limit", "cursor")},
		{Method: "POST", Path: "/backups", Scope: all, Handle: respond(a.startBackup)},
		{Method: "GET", Path: "/backup-jobs", Scope: all, Handle: respond(a.listJobs)},
		{Method: "GET", Path: "/backup-jobs/{id}", Scope: all, Handle: respond(a.getJob)},
		{Method: "GET", Path: one + "/content", Scope: all, Guarded: true, Untimed: true, Handle: stream(a.downloadBackup)},
		{Method: "POST", Path: one + "/verify", Scope: all, Handle: respond(startJob(a.service.VerifyBackup))},
		{Method: "POST", Path: one + "/drill", Scope: all, Handle: respond(startJob(a.service.DrillBackup))},
		{Method: "DELETE", Path: one, Scope: all, Handle: respond(a.deleteBackup)},

		{Method: "GET", Path: "/webhooks", Scope: all, Handle: respond(list(a.service.Webhooks), "limit", "cursor")},
		{Method: "GET", Path: dead, Scope: all, Handle: respond(list(a.service.DeadLetters), "limit", "cursor")},
		{Method: "POST", Path: dead + "/retry", Scope: all, Handle: respond(changeDead(a.service.RetryDead))},
		{Method: "POST", Path: dead + "/drop", Scope: all, Handle: respond(changeDead(a.service.DropDead))},

		{Method: "GET", Path: "/imports", Scope: create, Or: all, Guarded: true, Handle: respond(a.listImports)},
		{
			Method: "PUT", Path: file, Scope: create, Untimed: true,
			Handle: respond(a.importPlants, "format", "name", "on_conflict"),
		},
		{Method: "GET", Path: file, Scope: create, Or: all, Guarded: true, Handle: respond(a.getImport)},
		{
			Method: "GET", Path: file + "/rejects", Scope: create, Guarded: true, Untimed: true,
			Handle: stream(a.downloadRejects, "form"),
		},
		{Method: "POST", Path: file + "/cancel", Scope: create, Or: all, Handle: respond(a.cancelImport)},
	}
}

// call is a request of a route.
type call struct {
	*http.Request

	w         http.ResponseWriter
	principal auth.Principal
	query     query
}

// by returns the origin of a change for the audit log.
func (c *call) by() audit.Origin { return server.OriginOf(c.w, c.Request, c.principal) }

// stream returns the function of a route that writes its own response. The query may have the named parameters.
func stream(do func(*call) error, parameters ...string) server.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, principal auth.Principal) error {
		q, err := parseQuery(r.URL.RawQuery, parameters)
		if err != nil {
			return err
		}
		return do(&call{r, w, principal, q})
	}
}

// respond returns the function of a route that responds with a value as JSON. The query may have the named parameters.
func respond(do func(*call) (any, error), parameters ...string) server.HandlerFunc {
	return stream(func(c *call) error {
		value, err := do(c)
		if err != nil {
			return err
		}
		return Respond(c.w, http.StatusOK, value)
	}, parameters...)
}

// list returns the function of a route that responds with a page of a list without filters.
func list[P any](page func(context.Context, admin.ListQuery) (P, error)) func(*call) (any, error) {
	return func(c *call) (any, error) {
		limit, err := c.query.limit(admin.PageMax)
		if err != nil {
			return nil, err
		}
		return page(c.Context(), admin.ListQuery{Cursor: c.query.Get("cursor"), Limit: limit})
	}
}

// Respond writes a response with a value as JSON.
func Respond(w http.ResponseWriter, status int, value any) error {
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false) // the canonical text of an audit entry stays as it is
	if err := e.Encode(value); err != nil {
		return fmt.Errorf("encode the response: %w", err)
	}
	server.WriteJSON(w, status, body.Bytes())
	return nil
}

func (a *API) state(c *call) (any, error) { return a.service.State(c.Context()), nil }

func (a *API) listSettings(*call) (any, error) {
	return map[string]any{"settings": a.service.Settings()}, nil
}
