// Package console serves the pages of the operator on the admin listener: HTML over package admin. Reading and every
// change work without JavaScript. sessions.go describes the sign-in.
package console

import (
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/adminapi"
	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/oidc"
	"plantstore/internal/plant"
	"plantstore/internal/server"
	"plantstore/internal/writepath"
)

// Config configures a Console. The fields of the first group are required.
type Config struct {
	Operations *admin.Service
	WritePath  *writepath.Service
	PublicURL  *url.URL // at which clients reach the public listener
	Log        *slog.Logger
	Audit      *audit.Recorder
	Requests   func() server.Numbers

	Version string
	Secure  bool // the admin listener has TLS
}

// Console serves the pages. The caller starts its sampler with Start and ends it with Close.
type Console struct {
	Config
	api       *adminapi.API // sends and receives files
	sessions  sessions
	issuer    atomic.Pointer[oidc.Client] // nil: no sign-in at an issuer
	flows     flows
	samples   history
	templates map[string]*template.Template // by the name of the page
	clock     atomic.Pointer[func() time.Time]

	stop    chan struct{} // closed by Close
	running sync.WaitGroup
}

// New returns the console of a server.
func New(c Config) *Console {
	s := &Console{
		Config: c, api: adminapi.New(c.Operations, c.Log), flows: flows{sealer: newSealer()},
		stop: make(chan struct{}),
	}
	now := time.Now
	s.clock.Store(&now)
	s.templates = parseTemplates(s.functions())
	return s
}

// SetIssuer makes the pages offer a sign-in at an issuer; nil: none.
func (c *Console) SetIssuer(issuer *oidc.Client) { c.issuer.Store(issuer) }

func (c *Console) now() time.Time { return (*c.clock.Load())() }

// Start starts the sampler of the metrics.
func (c *Console) Start() { c.running.Go(c.sample) }

// Close ends the sampler and waits for it.
func (c *Console) Close() {
	close(c.stop)
	c.running.Wait()
}

// Browser returns the use of the routes by browsers, for server.Config.Browser.
func (c *Console) Browser() *server.Browser {
	return &server.Browser{Authenticate: c.authenticate, ServeError: c.refuse, ServeLink: c.followLink}
}

// Routes returns the routes for server.Config.AdminRoutes.
func (c *Console) Routes() ([]server.Route, error) {
	const read, create, all = auth.ScopeRead, auth.ScopeCreate, auth.ScopeAdmin
	const plantPath, erasurePath = "/plants/{id}", "/credentials/{id}/erase"
	page := func(path string, handle server.HandlerFunc) server.Route {
		return server.Route{Method: "GET", Path: path, Scope: all, AllowLinks: true, Handle: handle}
	}
	withForms := func(path string, show faultPage) server.Route {
		return page(path, withoutFault(show))
	}
	change := func(path string, handle server.HandlerFunc, show faultPage) server.Route {
		return server.Route{Method: "POST", Path: path, Scope: all, Handle: withForm(onPage(handle, show))}
	}
	routes := []server.Route{
		{Method: "GET", Path: signInPath, Open: true, AllowLinks: true, Handle: c.showSignIn},
		{Method: "POST", Path: signInPath, Open: true, Handle: withForm(c.signIn)},
		{Method: "POST", Path: "/sign-out", Open: true, Handle: withForm(c.signOut)},
		{Method: "GET", Path: "/session", Open: true, Background: true, Handle: c.serveSession},
		{Method: "GET", Path: continuePath, Open: true, Handle: c.serveContinue},
		{Method: "GET", Path: issuerPath, Open: true, AllowLinks: true, Handle: c.beginAtIssuer},
		{Method: "GET", Path: callbackPath, Open: true, AllowLinks: true, Handle: c.finishAtIssuer},

		page("/", c.showOverview),
		{Method: "GET", Path: "/live", Scope: all, Background: true, Handle: c.serveLive},

		{Method: "GET", Path: "/plants", Scope: read, Bulk: true, AllowLinks: true, Handle: c.showPlants},
		{Method: "GET", Path: "/plants/search", Scope: read, Bulk: true, Untimed: true, Handle: c.streamPlants},
		{Method: "GET", Path: "/plants/export", Scope: read, Bulk: true, Untimed: true, Handle: c.exportPlants},
		{Method: "GET", Path: "/plants/new", Scope: create, AllowLinks: true, Handle: c.showNewPlant},
		{Method: "POST", Path: "/plants/new", Scope: create, Handle: withForm(c.createPlant)},
		{Method: "GET", Path: plantPath, Scope: read, AllowLinks: true, Handle: withoutFault(c.showPlant)},
		change(plantPath+"/correct", c.correctPlant, c.showPlant),
		change(plantPath+"/erase", c.erasePlant, c.showPlant),

		withForms("/credentials", c.showCredentials),
		change("/credentials/mint", c.mintCredential, c.showCredentials),
		change("/credentials/rotate", c.rotateCredential, c.showCredentials),
		change("/credentials/revoke", c.revokeCredential, c.showCredentials),
		withForms(erasurePath, c.showErasure),
		change(erasurePath, c.eraseCreated, c.showErasure),

		withForms("/backups", c.showBackups),
		change("/backups/start", c.startBackup, c.showBackups),
		change("/backups/verify", checkBackup(c.Operations.VerifyBackup), c.showBackups),
		change("/backups/drill", checkBackup(c.Operations.DrillBackup), c.showBackups),
		change("/backups/delete", c.deleteBackup, c.showBackups),
		{Method: "GET", Path: "/backups/{name}", Scope: all, Untimed: true, Handle: c.downloadBackup},

		withForms("/webhooks", c.showWebhooks),
		change("/webhooks/retry", changeDead("retry", c.Operations.RetryDead), c.showWebhooks),
		change("/webhooks/drop", changeDead("drop", c.Operations.DropDead), c.showWebhooks),

		page("/audit", c.showAudit),
		page("/settings", c.showSettings),
		page("/help", c.showHelp),
		page("/help/{id}", c.showRunbook),

		{Method: "GET", Path: "/reference", Scope: read, AllowLinks: true, Handle: c.showPublicReference},
		{Method: "GET", Path: "/reference/admin", Scope: read, AllowLinks: true, Handle: c.showAdminReference},
	}
	files, err := staticRoutes()
	routes = slices.Concat(routes, c.importRoutes(), files)
	for i := range routes {
		routes[i].Page = true
	}
	return routes, err
}

// importRoutes returns the routes of imports.
func (c *Console) importRoutes() []server.Route {
	const all, file = auth.ScopeAdmin, "/import/{id}"
	routes := []server.Route{
		{Method: "GET", Path: "/import", OtherScope: all, AllowLinks: true, Handle: withoutFault(c.showImports)},
		{Method: "POST", Path: "/import", Handle: onPage(c.keepFile, c.showImports)},
		{Method: "GET", Path: file, OtherScope: all, AllowLinks: true, Handle: withoutFault(c.showImport)},
		{Method: "POST", Path: file + "/check", Handle: withForm(onPage(c.checkImport, c.showImport))},
		{Method: "POST", Path: file + "/start", Handle: withForm(onPage(c.startImport, c.showImport))},
		{Method: "GET", Path: file + "/live", OtherScope: all, Background: true, Handle: c.serveImport},
		{Method: "GET", Path: file + "/rejects", Handle: c.downloadRejects},
		{Method: "POST", Path: file + "/cancel", OtherScope: all, Handle: withForm(c.cancelImport)},
	}
	for i := range routes {
		routes[i].Scope, routes[i].Untimed = auth.ScopeCreate, true
	}
	return routes
}

// withForm returns the function of a route that reads a form first.
func withForm(handle server.HandlerFunc) server.HandlerFunc {
	return func(call *server.Call) error {
		if err := call.ReadForm(); err != nil {
			return err
		}
		return handle(call)
	}
}

// faultPage responds with a page that shows the error of a change; nil: none.
type faultPage func(call *server.Call, fault *plant.Error) error

func withoutFault(show faultPage) server.HandlerFunc {
	return func(call *server.Call) error { return show(call, nil) }
}

// onPage returns the function of a route that shows the page of the form again if the change is refused, with the
// reason, unless the session has ended. A script receives the reason as JSON.
func onPage(handle server.HandlerFunc, show faultPage) server.HandlerFunc {
	return func(call *server.Call) error {
		err := handle(call)
		e, ok := errors.AsType[*plant.Error](err)
		if !ok || isScript(call) {
			return err
		}
		if status := e.Code.Status(); status < http.StatusInternalServerError && status != http.StatusUnauthorized {
			return show(call, e)
		}
		return err
	}
}
