package server

import (
	"errors"
	"net/http"
	"net/url"
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
	ServeError func(http.ResponseWriter, *http.Request, *plant.Error)
	// ServeLink writes the response to a link on a page of another site. It uses no credential: browsers send no cookie
	// of SameSite=Strict with such a request.
	ServeLink func(http.ResponseWriter, *http.Request) error
}

// Authenticate returns the principal of a credential. w and r are the arguments of a HandlerFunc. Authenticate counts
// failures of the address, and refuses the request of an address with too many. The error wraps a *plant.Error.
func Authenticate(w http.ResponseWriter, r *http.Request, credential string) (auth.Principal, error) {
	rec := w.(*responseRecorder)
	principal, err := rec.handler.authenticate(rec, r, credential)
	return rec.authenticated(principal, err)
}

// AuthenticateBy is Authenticate for another proof than a credential of the store. check returns an *auth.Invalid if
// the proof is wrong.
func AuthenticateBy(
	w http.ResponseWriter, r *http.Request, check func() (auth.Principal, error),
) (auth.Principal, error) {
	rec := w.(*responseRecorder)
	principal, err := rec.handler.authenticateBy(rec, r, check)
	return rec.authenticated(principal, err)
}

// authenticated stores the principal, or the reason of the refusal, for the log.
func (rec *responseRecorder) authenticated(principal auth.Principal, err error) (auth.Principal, error) {
	if invalid, ok := errors.AsType[*auth.Invalid](err); ok {
		rec.reason = invalid.Reason
	}
	rec.principal = principal.Name
	return principal, err
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
	one := func(name, want string) bool { return len(r.Header[name]) == 1 && r.Header[name][0] == want }
	return r.Method == http.MethodGet && one("Sec-Fetch-Mode", "navigate") && one("Sec-Fetch-Dest", "document") &&
		len(r.Header["Origin"]) == 0
}

// serveLink responds to a request that the guard has refused, if it is a link to a page that other sites may link to.
func (h *handler) serveLink(rec *responseRecorder, r *http.Request, refused error) error {
	if asPlantError(refused).Code != plant.CodeCrossSite || !isLink(r) {
		return refused
	}
	at := h.routes.find(r)
	if at == nil || at.byMethod[r.Method] == nil || !at.byMethod[r.Method].Linked {
		return refused
	}
	rec.route = at.byMethod[r.Method]
	if rec.route.Open {
		return rec.route.Handle(rec, r, auth.Principal{})
	}
	return h.browser.ServeLink(rec, r)
}

// respondsWithPage reports whether the response to an error of a request is a page, and not JSON.
func (h *handler) respondsWithPage(rec *responseRecorder, r *http.Request) bool {
	if rec.route != nil {
		return rec.route.Page
	}
	return h.browser != nil && isNavigation(r) && !strings.HasPrefix(r.URL.Path, "/api/")
}

// formBytesMax bounds the body of a form.
const formBytesMax = 128 << 10

// ReadForm returns the fields of a form in the body of a request. w and r are the arguments of a HandlerFunc. The error
// is a *plant.Error.
func ReadForm(w http.ResponseWriter, r *http.Request) (url.Values, error) {
	var b buffer
	if err := b.read(w, r, formBytesMax); err != nil {
		return nil, err
	}
	values, err := url.ParseQuery(string(b.b))
	if err != nil {
		return nil, plant.Errorf(plant.CodeMediaType,
			"the body must be a form of the type application/x-www-form-urlencoded")
	}
	return values, nil
}
