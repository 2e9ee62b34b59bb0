package server

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
)

// NewDocument returns the API document.
var NewDocument = newDocument

// RouteInfo describes a route.
type RouteInfo struct {
	Method, Path string
	Scope        string // that the credential must have; empty: no credential is required
	Verbose      string // that the credential must have for ?verbose; empty: Scope
	Broken       bool   // not exactly one of scope and open is set
}

// PublicRoutes returns the routes of the public listener.
func PublicRoutes(c Config) ([]RouteInfo, error) {
	rs, err := publicRoutes(c)
	return rs.infos(), err
}

// AdminRoutes returns the routes of the admin listener.
func AdminRoutes(c Config) []RouteInfo { return adminRoutes(c).infos() }

func (rs routes) infos() []RouteInfo {
	var list []RouteInfo
	for path, at := range rs.byPath {
		for method, r := range at.byMethod {
			list = append(list, RouteInfo{
				Method: method, Path: path, Scope: scopeText(r), Verbose: r.verbose.String(),
				Broken: r.Open == (r.Scope != 0) || !r.Open && r.verbose != 0 || r.Path != path || r.Handle == nil,
			})
		}
	}
	return list
}

// NewServer returns a server with a function for each path and without credentials, for behaviour that no route has.
func NewServer(c Config, handlers map[string]HandlerFunc) *Server {
	var list []Route
	for path, handle := range handlers {
		list = append(list, Route{Method: "GET", Path: path, Open: true, Handle: handle})
	}
	return newServer(c, newHandler(c, "test", newRoutes(list), newMetrics(prometheus.NewRegistry())))
}

// ClientAddress returns the address of the client of a request behind proxies.
func ClientAddress(trusted []netip.Prefix, r *http.Request) netip.Addr {
	return proxies(trusted).client(r)
}

// QuotaHandler returns a function that handles a request of the token with that id within the limits. It returns the
// headers of the response and the code of a refusal.
func QuotaHandler(l Limits) func(id int64) (http.Header, plant.Code) {
	q := newQuotas(l)
	done := func(*Call) error { return nil }
	return func(id int64) (http.Header, plant.Code) {
		w := httptest.NewRecorder()
		var refusal *plant.Error
		if errors.As(q.handle(&Call{ResponseWriter: w, Principal: auth.Principal{TokenID: id}}, done), &refusal) {
			return w.Header(), refusal.Code
		}
		return w.Header(), 0
	}
}

// SetWriteTimeout changes the write timeout.
func (s *Server) SetWriteTimeout(d time.Duration) { s.http.WriteTimeout = d }

// Handler returns the handler of every request.
func (s *Server) Handler() http.Handler { return s.http.Handler }

// CheckEvery is the time between two checks of the credential of a running request.
const CheckEvery = checkEvery

// scopeText returns the scopes of a route as docs/reference/authorization.md has them.
func scopeText(r *Route) string {
	if r.OtherScope != 0 {
		return r.Scope.String() + " or " + r.OtherScope.String()
	}
	return r.Scope.String()
}
