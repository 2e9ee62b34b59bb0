package server

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
)

// Browser is the use of the admin listener by a browser: a session instead of the header
// Authorization, and pages instead of JSON for errors. The routes with Route.Page use it.
type Browser struct {
	// Credential returns the credential of the session of a request. The error is a
	// *plant.Error.
	Credential func(*http.Request) (string, error)
	// Refuse writes the response to an error.
	Refuse func(http.ResponseWriter, *http.Request, *plant.Error)
}

// Authenticate returns the principal of a credential, for the function of a route with
// Route.Page, whose writer and request it needs. It counts failures of the address, and
// refuses the request of an address with too many. The error wraps a *plant.Error.
func Authenticate(w http.ResponseWriter, r *http.Request, credential string) (auth.Principal, error) {
	rec := w.(*responseRecorder)
	principal, err := rec.handler.authenticate(rec, r, credential)
	if invalid := (*auth.Invalid)(nil); errors.As(err, &invalid) {
		rec.reason = invalid.Reason
	}
	rec.principal = principal.Name
	return principal, err
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
	w.(*responseRecorder).hasArrived()
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, &plant.Error{
			Code: plant.CodeMediaType, Message: "the body must be a form of the type application/x-www-form-urlencoded",
		}
	}
	return values, nil
}
