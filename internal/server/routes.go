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

// HandlerFunc writes the response to a request. If it returns an error, it has written nothing, and handler.fail writes
// the response: a *plant.Error as it is, and any other error as 50001, with its text in the log.
type HandlerFunc func(*Call) error

// fromHandler returns the HandlerFunc that calls an http.Handler.
func fromHandler(h http.Handler) HandlerFunc {
	return func(c *Call) error {
		h.ServeHTTP(c, c.Request)
		return nil
	}
}

// Route is one method of one path. Exactly one of Scope and Open is set. A segment {name} of the path matches every
// segment that is not empty, and http.Request.PathValue returns it. Such a path is matched after all other paths.
type Route struct {
	Method     string      // GET includes HEAD
	Path       string      // the label of the metrics
	Scope      auth.Scopes // the credential must have it
	OtherScope auth.Scopes // or this one; 0: none
	Open       bool        // requires no credential
	Untimed    bool        // no histogram: a static file, or a response for which the client chooses the time
	Bulk       bool        // sends many plants: the number of such requests at the same time is limited
	Page       bool        // uses Config.Browser for the credential and for errors
	AllowLinks bool        // pages of other sites may link to it: a GET that changes nothing and is not a download

	// Background means that a page sends the requests by itself. Successful ones are in a log of level debug only.
	Background bool

	Handle HandlerFunc

	verbose     auth.Scopes // the scope of an open route with ?verbose; 0: none
	staleTokens bool        // accepts the tokens of the last poll while the store is unreachable
	untraced    bool        // no span without a traceparent: a probe or a scrape
	early       bool        // needs no store

	metrics *routeMetrics // set by newHandler
	log     slog.Handler  // with the method and the path; set by newHandler
}

const (
	publicListener = "public"  // its name in metrics and log lines
	plantsPath     = "/plants" // below the base URL
)

func publicRoutes(c Config) (routes, error) {
	base := strings.TrimRight(c.BaseURL.Path, "/")
	document, err := newDocument(c.BaseURL, c.Limits)
	if err != nil {
		return routes{}, err
	}
	pages, err := documentRoutes(document, base)
	if err != nil {
		return routes{}, err
	}
	plants := &plants{writePath: c.WritePath, bodyMax: c.Limits.BodyMax}
	rs := newRoutes(append(pages,
		Route{Method: "POST", Path: base + plantsPath, Scope: auth.ScopeCreate, Handle: plants.create},
		Route{Method: "GET", Path: "/healthz", Open: true, untraced: true, Handle: ready(c.WritePath, nil)},
	))
	rs.document = document
	return rs, nil
}

// required returns the scope that a request must have; 0: it requires no credential.
func (r *Route) required(req *http.Request) auth.Scopes {
	if r.verbose != 0 && isVerbose(req) {
		return r.verbose
	}
	return r.Scope
}

// check returns an error if a principal lacks a scope, unless it has the other scope of the route.
func (r *Route) check(p auth.Principal, scope auth.Scopes) error {
	if r.OtherScope != 0 && p.Scopes.Has(r.OtherScope) {
		return nil
	}
	return p.Require(scope)
}

func adminRoutes(c Config) routes {
	metricsPage := fromHandler(promhttp.HandlerFor(c.Metrics, promhttp.HandlerOpts{
		EnableOpenMetrics: c.Tracer != nil, // exemplars exist only in that format
	}))
	list := []Route{
		{Method: "GET", Path: "/livez", Open: true, untraced: true, early: true, Handle: alive},
		{
			Method: "GET", Path: "/readyz", Open: true, untraced: true, verbose: auth.ScopeAdmin,
			Handle: ready(c.WritePath, c.Warnings),
		},
		{Method: "GET", Path: "/metrics", Scope: auth.ScopeMetrics, staleTokens: true, untraced: true, Handle: metricsPage},
	}
	if c.Pprof {
		list = append(list, profiles()...)
	}
	return newRoutes(append(list, c.AdminRoutes...))
}

// routes are the routes of a listener. The server does not redirect from other spellings of a path.
type routes struct {
	byPath   map[string]*resource
	patterns []*resource      // with a parameter in the path, in the order of the list
	document *apidoc.Document // nil on the admin listener
}

// resource is the routes of one path.
type resource struct {
	segments []string // path with a parameter; nil: the path matches only itself
	byMethod map[string]*Route
	allow    string // the value of an Allow header
	first    *Route // the path's first route; a request with another method counts in its metrics
}

func newRoutes(list []Route) routes {
	rs := routes{byPath: map[string]*resource{}}
	for _, r := range list {
		at := rs.byPath[r.Path]
		if at == nil {
			at = &resource{byMethod: map[string]*Route{}, first: &r}
			rs.byPath[r.Path] = at
			if strings.Contains(r.Path, "{") {
				at.segments = strings.Split(r.Path, "/")
				rs.patterns = append(rs.patterns, at)
			}
		}
		at.byMethod[r.Method] = &r
		if r.Method == http.MethodGet { // RFC 9110 section 9.3.2; net/http omits the body
			head := r
			head.Method = "HEAD"
			at.byMethod["HEAD"] = &head
		}
		at.allow = strings.Join(slices.Sorted(maps.Keys(at.byMethod)), ", ")
	}
	return rs
}

// find returns the resource at the path of a request, or nil. It sets the path values of the request.
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

// match reports whether the path of a request has the segments of the resource. It sets the path values of the request;
// after false they have no meaning.
func (at *resource) match(r *http.Request) bool {
	if strings.Count(r.URL.Path, "/") != len(at.segments)-1 {
		return false
	}
	i := 0
	for segment := range strings.SplitSeq(r.URL.Path, "/") {
		want := at.segments[i]
		name, isParameter := strings.CutPrefix(want, "{")
		switch {
		case isParameter && segment != "":
			r.SetPathValue(strings.TrimSuffix(name, "}"), segment)
		case segment != want:
			return false
		}
		i++
	}
	return true
}
