package server

import (
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"plantstore/internal/apidoc"
	"plantstore/internal/auth"
)

// HandlerFunc writes the response to a request. principal is the zero value if the
// request requires no credential. If the function returns an error, it has written
// nothing, and handler.fail writes the response: that of a *plant.Error, or 50001 for
// any other error, which the log has.
type HandlerFunc func(w http.ResponseWriter, r *http.Request, principal auth.Principal) error

// fromHandler returns the HandlerFunc that calls an http.Handler.
func fromHandler(h http.Handler) HandlerFunc {
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
	or      auth.Scopes // or this one; 0: none
	open    bool        // requires no credential, except for verbose
	verbose auth.Scopes // an open route with ?verbose requires it; 0: none
	guarded bool        // requires the credential also with Config.AdminOpen
	stale   bool        // accepts the tokens of the last poll also while the store is unreachable
	handle  HandlerFunc
	metrics *routeMetrics // set by newServer
	log     slog.Handler  // with the method and the path; set by newServer

	browser *Browser // nil: not a page for browsers
	linked  bool     // pages of other sites may link to it

	bulk     bool // see Route.Bulk
	untraced bool // no span without a traceparent: a probe or a scrape
	untimed  bool // no histogram: a static file, or a profile, for which the client chooses the time

	background bool // a page sends the requests by itself
}

// Route is a route of another package on the admin listener: one method of one path.
// A segment {name} of the path matches every segment that is not empty, and
// http.Request.PathValue returns it. Such a path is matched after all other paths.
type Route struct {
	Method  string      // GET includes HEAD
	Path    string      // the label of the metrics
	Scope   auth.Scopes // the credential must have it
	Or      auth.Scopes // or this one; 0: none
	Open    bool        // requires no credential; exactly one of Scope and Open is set
	Guarded bool        // requires the credential also with Config.AdminOpen, as every method except GET does
	Untimed bool        // no histogram: the client chooses the time
	Bulk    bool        // sends many plants: the number of such requests at the same time is limited, also of a credential
	Page    bool        // uses Config.Browser for the credential and for errors
	Linked  bool        // pages of other sites may link to it: a GET that changes nothing, and is no download

	// Background means that a page sends the requests by itself. Successful ones are in a log of level debug only.
	Background bool

	Handle HandlerFunc
}

// publicRoutes returns the routes of the public listener.
func publicRoutes(c Config) (routes, error) {
	base := strings.TrimRight(c.BaseURL.Path, "/")
	document, err := newDocument(c.BaseURL, !c.OwnHostOnly, c.Limits)
	if err != nil {
		return routes{}, err
	}
	pages, err := documentRoutes(document, base)
	if err != nil {
		return routes{}, err
	}
	plants := &plants{store: c.Store, limits: c.Limits}
	rs := newRoutes(append(pages,
		route{method: "POST", path: base + "/plants", scope: auth.ScopeCreate, handle: plants.create},
		route{method: "GET", path: "/healthz", open: true, untraced: true, handle: ready(c.Store, false)},
	))
	rs.document = document
	return rs, nil
}

// required returns the scope that a request must have; 0: it requires no credential.
func (r *route) required(req *http.Request) auth.Scopes {
	if r.verbose != 0 && isVerbose(req) {
		return r.verbose
	}
	return r.scope
}

// check returns an error if a principal has neither a scope nor the other scope of the route.
func (r *route) check(p auth.Principal, scope auth.Scopes) error {
	if r.or != 0 && p.Scopes.Has(r.or) {
		return nil
	}
	return p.Require(scope)
}

// adminRoutes returns the routes of the admin listener.
func adminRoutes(c Config) routes {
	list := []route{
		{method: "GET", path: "/livez", open: true, untraced: true, handle: alive},
		{
			method: "GET", path: "/readyz", open: true, untraced: true, verbose: auth.ScopeAdmin,
			handle: ready(c.Store, true),
		},
	}
	if c.Metrics != nil {
		page := fromHandler(promhttp.HandlerFor(c.Metrics, promhttp.HandlerOpts{
			EnableOpenMetrics: c.Tracer != nil, // exemplars exist only in that format
		}))
		list = append(list, route{
			method: "GET", path: "/metrics", scope: auth.ScopeMetrics, stale: true, untraced: true, handle: page,
		})
	}
	if c.Pprof {
		list = append(list, profiles()...)
	}
	for _, r := range c.AdminRoutes {
		added := route{
			method: r.Method, path: r.Path, scope: r.Scope, or: r.Or, open: r.Open, guarded: r.Guarded || r.Page,
			untimed: r.Untimed, bulk: r.Bulk, background: r.Background, handle: r.Handle,
		}
		if r.Page {
			added.browser, added.linked = c.Browser, r.Linked
		}
		list = append(list, added)
	}
	if c.AdminOpen {
		for i := range list {
			if list[i].method == "GET" && !list[i].guarded {
				list[i].open, list[i].scope, list[i].verbose = true, 0, 0
			}
		}
	}
	return newRoutes(list)
}

// routes are the routes of a listener. The server does not redirect from other
// spellings of a path.
type routes struct {
	byPath   map[string]*resource
	patterns []*resource      // those of byPath whose path has a parameter, in the order of the list
	document *apidoc.Document // nil on the admin listener
}

// resource is the routes of one path.
type resource struct {
	segments []string // of a path with a parameter; nil: the path matches only itself
	byMethod map[string]*route
	allow    string // the value of an Allow header
	first    *route // of the path; a request with another method counts in its metrics
}

func newRoutes(list []route) routes {
	rs := routes{byPath: map[string]*resource{}}
	for _, r := range list {
		at := rs.byPath[r.path]
		if at == nil {
			at = &resource{byMethod: map[string]*route{}, first: &r}
			rs.byPath[r.path] = at
			if strings.Contains(r.path, "{") {
				at.segments = strings.Split(r.path, "/")
				rs.patterns = append(rs.patterns, at)
			}
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

// find returns the resource at the path of a request, or nil. It sets the path values of
// the request.
func (rs routes) find(r *http.Request) *resource {
	if at, ok := rs.byPath[r.URL.Path]; ok && at.segments == nil {
		return at
	}
	for _, at := range rs.patterns {
		if at.match(r) {
			return at
		}
	}
	return nil
}

// match reports whether the path of a request has the segments of the resource. If so, it
// sets the path values of the request.
func (at *resource) match(r *http.Request) bool {
	if strings.Count(r.URL.Path, "/") != len(at.segments)-1 {
		return false
	}
	values := map[string]string{}
	i := 0
	for segment := range strings.SplitSeq(r.URL.Path, "/") {
		want := at.segments[i]
		name, isParameter := strings.CutPrefix(want, "{")
		switch {
		case isParameter && segment != "":
			values[strings.TrimSuffix(name, "}")] = segment
		case segment != want:
			return false
		}
		i++
	}
	for name, value := range values {
		r.SetPathValue(name, value)
	}
	return true
}

// overview returns the paths, separated by commas. It omits the paths below a directory,
// those of an API, except for its document, and the pages except for the first one.
func (rs routes) overview() string {
	list := slices.DeleteFunc(slices.Sorted(maps.Keys(rs.byPath)), func(path string) bool {
		if rs.byPath[path].first.browser != nil {
			return path != "/"
		}
		for i := 1; i < len(path)-1; i++ {
			if path[i] != '/' {
				continue
			}
			directory := path[:i+1]
			document := directory + "openapi.json"
			if rs.byPath[directory] != nil || rs.byPath[document] != nil && path != document {
				return true
			}
		}
		return false
	})
	return strings.Join(list, ", ")
}
