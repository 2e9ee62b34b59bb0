package server

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
)

// Browser is the use of the admin listener by a browser: a session instead of the header
// Authorization, and pages instead of JSON for errors. The routes with Route.Page use it.
type Browser struct {
	// Authenticate returns the principal of the session of a request. check returns that of a
	// credential, as of one in the header Authorization. The error wraps a *plant.Error.
	Authenticate func(r *http.Request, check func(credential string) (auth.Principal, error)) (auth.Principal, error)
	// Refuse writes the response to an error.
	Refuse func(http.ResponseWriter, *http.Request, *plant.Error)
	// Enter writes the response to a link on a page of another site. It uses no credential:
	// browsers send no cookie of SameSite=Strict with such a request.
	Enter func(http.ResponseWriter, *http.Request) error
}

// Authenticate returns the principal of a credential, for the function of a route with
// Route.Page, whose writer and request it needs. It counts failures of the address, and
// refuses the request of an address with too many. The error wraps a *plant.Error.
func Authenticate(w http.ResponseWriter, r *http.Request, credential string) (auth.Principal, error) {
	rec := w.(*responseRecorder)
	principal, err := rec.handler.authenticate(rec, r, credential)
	return rec.authenticated(principal, err)
}

// AuthenticateBy is Authenticate for another proof than a credential of the store. check returns
// an *auth.Invalid if the proof is wrong.
func AuthenticateBy(
	w http.ResponseWriter, r *http.Request, check func() (auth.Principal, error),
) (auth.Principal, error) {
	rec := w.(*responseRecorder)
	principal, err := rec.handler.authenticateBy(rec, r, check)
	return rec.authenticated(principal, err)
}

// authenticated keeps the principal, or the reason of the refusal, for the log.
func (rec *responseRecorder) authenticated(principal auth.Principal, err error) (auth.Principal, error) {
	if invalid := (*auth.Invalid)(nil); errors.As(err, &invalid) {
		rec.reason = invalid.Reason
	}
	rec.principal = principal.Name
	return principal, err
}

// isNavigation reports whether a browser shows the response as a page (Fetch Metadata Request
// Headers, section 2.2). Programs such as curl do not accept HTML in particular.
func isNavigation(r *http.Request) bool {
	if mode := r.Header["Sec-Fetch-Mode"]; len(mode) > 0 {
		return mode[0] == "navigate"
	}
	return strings.Contains(r.Header.Get("Accept"), "text/html")
}

// isLink reports whether a request is that of a link: a GET whose response is the page of a
// window, not of a frame and not for a script.
func isLink(r *http.Request) bool {
	one := func(name, want string) bool { return len(r.Header[name]) == 1 && r.Header[name][0] == want }
	return r.Method == http.MethodGet && one("Sec-Fetch-Mode", "navigate") && one("Sec-Fetch-Dest", "document") &&
		len(r.Header["Origin"]) == 0
}

// enter responds to a request that the guard has refused, if it is a link to a page that other
// sites may link to.
func (h *handler) enter(rec *responseRecorder, r *http.Request, refused error) error {
	var e *plant.Error
	if !errors.As(refused, &e) || e.Code != plant.CodeCrossSite || !isLink(r) {
		return refused
	}
	at := h.routes.find(r)
	if at == nil || at.byMethod[r.Method] == nil || !at.byMethod[r.Method].linked {
		return refused
	}
	rec.route = at.byMethod[r.Method]
	if rec.route.open {
		return rec.route.handle(rec, r, auth.Principal{})
	}
	return rec.route.browser.Enter(rec, r)
}

// pageOf returns the Browser that responds to an error of a request; nil: a JSON body.
func (h *handler) pageOf(rec *responseRecorder, r *http.Request) *Browser {
	if rec.route != nil {
		return rec.route.browser
	}
	if h.browser == nil || !isNavigation(r) || strings.HasPrefix(r.URL.Path, "/api/") {
		return nil
	}
	return h.browser
}

// formBytesMax bounds the body of a form.
const formBytesMax = 128 << 10

// ReadForm returns the fields of a form in the body of a request. It needs the writer of the
// function of a route. The error is a
// *plant.Error.
func ReadForm(w http.ResponseWriter, r *http.Request) (url.Values, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, formBytesMax+1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &plant.Error{Code: plant.CodeRequestTimeout, Message: "the form did not arrive in time; send it again"}
	case err != nil:
		return nil, &plant.Error{
			Code:    plant.CodeBodyIncomplete,
			Message: "the body ended before its announced length, or has malformed chunks; send the form again",
		}
	case len(body) > formBytesMax:
		return nil, &plant.Error{Code: plant.CodeBodyTooLarge, Message: "the form is larger than 128 KiB"}
	}
	rec := w.(*responseRecorder)
	rec.hasArrived()
	if err := rec.checkArrived(r); err != nil {
		return nil, err
	}
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, &plant.Error{
			Code: plant.CodeMediaType, Message: "the body must be a form of the type application/x-www-form-urlencoded",
		}
	}
	return values, nil
}
