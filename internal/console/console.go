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
	"sync"
	"sync/atomic"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/oidc"
	"plantstore/internal/server"
	"plantstore/internal/writepath"
)

// Config configures a Console. The fields of the first group are required.
type Config struct {
	Operations *admin.Service
	Store      *writepath.Store
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
	sessions    sessions
	issuer      atomic.Pointer[oidc.Client] // nil: no sign-in at an issuer
	flows       flows
	samples     ring
	documents   documents
	templates   map[string]*template.Template // by the name of the page
	crossOrigin *http.CrossOriginProtection
	clock       atomic.Pointer[func() time.Time]

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
		Config: c, templates: templates, crossOrigin: http.NewCrossOriginProtection(),
		stop: make(chan struct{}),
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
	return &server.Browser{Authenticate: c.authenticate, Refuse: c.refuse, Enter: c.enter}
}

// Routes returns the routes for server.Config.AdminRoutes.
func (c *Console) Routes() ([]server.Route, error) {
	routes := []server.Route{
		{Method: "GET", Path: signInPath, Open: true, Page: true, Linked: true, Handle: c.showSignIn},
		{Method: "POST", Path: signInPath, Open: true, Page: true, Handle: c.signIn},
		{Method: "POST", Path: "/sign-out", Open: true, Page: true, Handle: c.signOut},
		{Method: "GET", Path: "/session", Open: true, Page: true, Background: true, Handle: c.serveSession},
		{Method: "GET", Path: continuePath, Open: true, Page: true, Handle: c.serveContinue},
		{Method: "GET", Path: issuerPath, Open: true, Page: true, Linked: true, Handle: c.beginAtIssuer},
		{Method: "GET", Path: callbackPath, Open: true, Page: true, Linked: true, Handle: c.finishAtIssuer},
		{Method: "GET", Path: "/", Scope: auth.ScopeAdmin, Page: true, Linked: true, Handle: c.showOverview},
		{Method: "GET", Path: "/live", Scope: auth.ScopeAdmin, Page: true, Background: true, Handle: c.serveLive},
	}
	routes = append(append(append(routes, c.plantRoutes()...), c.importRoutes()...), c.operatorRoutes()...)
	routes = append(append(routes, c.webhookRoutes()...), c.referenceRoutes()...)
	files, err := staticRoutes()
	return append(routes, files...), err
}
