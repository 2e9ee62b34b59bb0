package server

import (
	"net/http"
	"slices"
	"strings"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
)

// Browser serves browsers on the admin listener: with a session instead of the header Authorization, and with pages
// instead of JSON for errors. The routes with Route.Page use it.
type Browser struct {
	// Authenticate returns the principal of the session of a request. check authenticates a credential as if it were in
	// the header Authorization. The error wraps a *plant.Error.
	Authenticate func(r *http.Request, check func(credential string) (auth.Principal, error)) (auth.Principal, error)
	// ServeError writes the response to an error.
	ServeError func(*Call, *plant.Error)
	// ServeLink writes the response to a link on a page of another site. It uses no credential: browsers send no cookie
	// of SameSite=Strict with such a request.
	ServeLink HandlerFunc
}

// isNavigation reports whether a browser shows the response as a page (Fetch Metadata Request Headers, section 2.2).
// Programs such as curl do not ask for HTML.
func isNavigation(r *http.Request) bool {
	if mode := r.Header["Sec-Fetch-Mode"]; len(mode) > 0 {
		return mode[0] == "navigate"
	}
	return strings.Contains(r.Header.Get("Accept"), "text/html")
}

// isLink reports whether a browser follows a link: a GET whose response is the page of a window, not of a frame and not
// for a script.
func isLink(r *http.Request) bool {
	return r.Method == http.MethodGet && len(r.Header["Origin"]) == 0 &&
		slices.Equal(r.Header["Sec-Fetch-Mode"], []string{"navigate"}) &&
		slices.Equal(r.Header["Sec-Fetch-Dest"], []string{"document"})
}

// serveLink responds to a request that the guard has refused, if it is a link to a page that other sites may link to.
func (h *handler) serveLink(c *Call, refused error) error {
	r := c.Request
	if asPlantError(refused).Code != plant.CodeCrossSite || !isLink(r) {
		return refused
	}
	at := h.routes.find(r)
	if at == nil || at.byMethod[r.Method] == nil || !at.byMethod[r.Method].AllowLinks {
		return refused
	}
	c.route = at.byMethod[r.Method]
	if c.route.Open {
		return c.route.Handle(c)
	}
	return h.browser.ServeLink(c)
}

// respondsWithPage reports whether the response to an error of a request is a page, and not JSON.
func (h *handler) respondsWithPage(c *Call) bool {
	if c.route != nil {
		return c.route.Page
	}
	return h.browser != nil && isNavigation(c.Request) && !strings.HasPrefix(c.URL.Path, "/api/")
}
