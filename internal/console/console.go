// Package console has the pages of the operator on the admin listener: HTML that the
// server renders, over package admin. Reading and every change work without JavaScript. The
// files of the pages are part of the program.
//
// A Console has the routes; sessions.go describes the sign-in.
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
	"plantstore/internal/server"
	"plantstore/internal/store"
)

// Config configures a Console. The fields of the first group are required.
type Config struct {
	Operations *admin.Service
	Store      *store.Store
	PublicURL  *url.URL // at which clients reach the public listener
	Log        *slog.Logger

	Audit   *audit.Recorder // nil: none
	Version string
	Secure  bool // the admin listener has TLS
	Open    bool // the admin listener requires no credential for its other paths
}

// Console has the pages. The caller starts its sampler with Start and ends it with Close.
type Console struct {
	Config
	api       *adminapi.API // sends and receives files
	sessions  sessions
	issuer    atomic.Pointer[oidc.Client] // nil: no sign-in at an issuer
	flows     flows
	samples   ring
	documents documents
	templates map[string]*template.Template // by the name of the page
	clock     atomic.Pointer[func() time.Time]

	stop    chan struct{} // closed by Close
	running sync.WaitGroup
}

// New returns the console of a server.
func New(c Config) (*Console, error) {
	if c.Operations == nil || c.Store == nil || c.PublicURL == nil || c.Log == nil {
		return nil, errors.New("console.Config has an empty field")
	}
	templates, err := parseTemplates()
	if err != nil {
		return nil, err
	}
	s := &Console{
		Config: c, api: adminapi.New(c.Operations, c.Log), templates: templates, stop: make(chan struct{}),
	}
	now := time.Now
	s.clock.Store(&now)
	s.flows.sealer, err = newSealer()
	return s, err
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
	return &server.Browser{Authenticate: c.authenticate, Refuse: c.refuse, Enter: c.followLink}
}

// Routes returns the routes for server.Config.AdminRoutes.
func (c *Console) Routes() ([]server.Route, error) {
	page := func(path string, handle server.HandlerFunc) server.Route {
		return server.Route{Method: "GET", Path: path, Scope: auth.ScopeAdmin, Page: true, Linked: true, Handle: handle}
	}
	change := func(path string, handle server.HandlerFunc) server.Route {
		return server.Route{Method: "POST", Path: path, Scope: auth.ScopeAdmin, Page: true, Handle: handle}
	}
	files, err := staticRoutes()
	return slices.Concat([]server.Route{
		{Method: "GET", Path: signInPath, Open: true, Page: true, Linked: true, Handle: c.showSignIn},
		{Method: "POST", Path: signInPath, Open: true, Page: true, Handle: c.signIn},
		{Method: "POST", Path: "/sign-out", Open: true, Page: true, Handle: c.signOut},
		{Method: "GET", Path: "/session", Open: true, Page: true, Background: true, Handle: c.serveSession},
		{Method: "GET", Path: continuePath, Open: true, Page: true, Handle: c.serveContinue},
		{Method: "GET", Path: issuerPath, Open: true, Page: true, Linked: true, Handle: c.beginAtIssuer},
		{Method: "GET", Path: callbackPath, Open: true, Page: true, Linked: true, Handle: c.finishAtIssuer},

		page("/", c.showOverview),
		{Method: "GET", Path: "/live", Scope: auth.ScopeAdmin, Page: true, Background: true, Handle: c.serveLive},
		page("/credentials", c.showCredentials),
		change("/credentials/mint", c.mintCredential),
		change("/credentials/rotate", c.rotateCredential),
		change("/credentials/revoke", c.revokeCredential),
		page("/backups", c.showBackups),
		change("/backups/start", c.startBackup),
		change("/backups/verify", c.checkBackup(c.Operations.VerifyBackup)),
		change("/backups/drill", c.checkBackup(c.Operations.DrillBackup)),
		change("/backups/delete", c.deleteBackup),
		{
			Method: "GET", Path: "/backups/{name}", Scope: auth.ScopeAdmin, Page: true, Untimed: true,
			Handle: c.downloadBackup,
		},
		page("/webhooks", c.showWebhooks),
		change("/webhooks/retry", c.changeDead("retry", c.Operations.RetryDead)),
		change("/webhooks/drop", c.changeDead("drop", c.Operations.DropDead)),
		page("/audit", c.showAudit),
		page("/settings", c.showSettings),
	}, c.plantRoutes(), c.importRoutes(), c.referenceRoutes(), files), err
}

func (c *Console) showSettings(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
	return c.render(w, r, http.StatusOK, "settings", view{Title: "Settings", Content: c.Operations.Settings()})
}
