package server

import (
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"plantstore/internal/auth"
)

// handlerFunc writes the response to a request. If it returns an error, it has
// written nothing, and handler.fail writes the response.
type handlerFunc func(w http.ResponseWriter, r *http.Request, principal auth.Principal) error

// fromHandler returns the handlerFunc that calls an http.Handler.
func fromHandler(h http.Handler) handlerFunc {
	return func(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
		h.ServeHTTP(w, r)
		return nil
	}
}

// route is one method of one path. Exactly one of scope and open is set.
type route struct {
	method  string
	path    string
	scope   auth.Scopes // the credential must have it
	open    bool        // requires no credential, except for verbose
	verbose auth.Scopes // an open route with ?verbose requires it; 0: none
	stale   bool        // accepts the tokens of the last poll also while the store is unreachable
	handle  handlerFunc
	metrics *routeMetrics // set by newServer
	log     slog.Handler  // with the method and the path; set by newServer

	untimed bool // no histogram: a static file, or a profile, for which the client chooses the time
}

// publicRoutes returns the routes of the public listener.
func publicRoutes(c Config) (routes, error) {
	base := strings.TrimRight(c.BaseURL.Path, "/")
	pages, err := publicPages(c, base)
	if err != nil {
		return nil, err
	}
	plants := &plants{store: c.Store, limits: c.Limits}
	return newRoutes(append(pages,
		route{method: "POST", path: base + "/plants", scope: auth.ScopeCreate, handle: plants.create},
		route{method: "GET", path: "/healthz", open: true, handle: ready(c.Store, false)},
	)), nil
}

// required returns the scope that a request must have; 0: it requires no credential.
func (r *route) required(req *http.Request) auth.Scopes {
	if r.verbose != 0 && isVerbose(req) {
		return r.verbose
	}
	return r.scope
}

// adminRoutes returns the routes of the admin listener.
func adminRoutes(c Config) routes {
	list := []route{
		{method: "GET", path: "/livez", open: true, handle: alive},
		{method: "GET", path: "/readyz", open: true, verbose: auth.ScopeAdmin, handle: ready(c.Store, true)},
	}
	if c.Metrics != nil {
		page := fromHandler(promhttp.HandlerFor(c.Metrics, promhttp.HandlerOpts{}))
		list = append(list, route{
			method: "GET", path: "/metrics", scope: auth.ScopeMetrics, stale: true, handle: page,
		})
	}
	if c.Pprof {
		list = append(list, profiles()...)
	}
	if c.AdminOpen {
		for i := range list {
			list[i].open, list[i].scope, list[i].verbose = true, 0, 0
		}
	}
	return newRoutes(list)
}

// routes has the routes by their exact path. The server does not redirect from other
// spellings of a path.
type routes map[string]*resource

// resource is the routes of one path.
type resource struct {
	byMethod map[string]*route
	allow    string // the value of an Allow header
	first    *route // of the path; a request with another method counts in its metrics
}

// overview returns the paths without those below a directory, separated by commas.
func (rs routes) overview() string {
	list := slices.DeleteFunc(slices.Sorted(maps.Keys(rs)), func(path string) bool {
		directory := path[:strings.LastIndexByte(path, '/')+1]
		return directory != path && rs[directory] != nil
	})
	return strings.Join(list, ", ")
}

func newRoutes(list []route) routes {
	rs := routes{}
	for _, r := range list {
		at := rs[r.path]
		if at == nil {
			at = &resource{byMethod: map[string]*route{}, first: &r}
			rs[r.path] = at
		}
		at.byMethod[r.method] = &r
		if r.method == "GET" { // RFC 9110 section 9.3.2; net/http omits the body
			head := r
			head.method = "HEAD"
			at.byMethod["HEAD"] = &head
		}
		at.allow = allowed(at.byMethod)
	}
	return rs
}

func allowed(byMethod map[string]*route) string {
	return strings.Join(slices.Sorted(maps.Keys(byMethod)), ", ")
}
