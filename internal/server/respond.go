package server

import (
	"errors"
	"net/http"
	"strconv"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
)

// writeJSON writes an answer whose body is complete, so that its length is
// known and an error in making it could still have been another answer.
func writeJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = contentTypeJSON
	h["Cache-Control"] = noStore
	h["Content-Length"] = length(len(body))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that has left cannot be told
}

// Header values that every answer has; shared, so never changed.
var (
	contentTypeJSON = []string{mediaType}
	noStore         = []string{"no-store"}
)

// length returns a Content-Length value; those of nearly all answers are shared.
func length(n int) []string {
	if n < len(lengths) {
		return lengths[n]
	}
	return []string{strconv.Itoa(n)}
}

var lengths = func() (values [1 << 10][]string) {
	for n := range values {
		values[n] = []string{strconv.Itoa(n)}
	}
	return values
}()

// appendError appends the Error body of the specification.
func appendError(dst []byte, e *plant.Error) []byte {
	dst = append(dst, `{"error":`...)
	dst = strconv.AppendInt(dst, int64(e.Code), 10)
	dst = append(dst, `,"message":`...)
	dst = plant.AppendString(dst, e.Message)
	return append(dst, '}', '\n')
}

// asPlantError returns what a client is told of an error. What is no
// *plant.Error is internal: the client learns only that, the log the rest.
func asPlantError(err error) *plant.Error {
	var refusal *plant.Error
	if errors.As(err, &refusal) {
		return refusal
	}
	return &plant.Error{Code: plant.CodeInternal, Message: "the store has met a defect; its log has the cause under this request's id"}
}

// retryAfterSeconds is short, because what it is for passes within a commit or
// a restart.
const retryAfterSeconds = "1"

// writeError answers with an error, and with the headers that belong to it.
func writeError(w http.ResponseWriter, e *plant.Error, scope auth.Scopes) {
	h := w.Header()
	switch e.Code.Status() {
	case http.StatusUnauthorized:
		h["Www-Authenticate"] = []string{challenge(e, scope)}
	case http.StatusRequestTimeout:
		h["Connection"] = []string{"close"} // RFC 9110 section 15.5.9
	case http.StatusInternalServerError, http.StatusServiceUnavailable:
		h["Retry-After"] = []string{retryAfterSeconds}
	}
	switch e.Code {
	case plant.CodeAuthMalformed, plant.CodeScopeMissing:
		h["Www-Authenticate"] = []string{challenge(e, scope)}
	case plant.CodeMediaType:
		h["Accept"] = []string{mediaType} // RFC 9110 section 15.5.16
	case plant.CodeContentEncoding:
		h["Accept-Encoding"] = []string{"identity"} // RFC 9110 section 15.5.16
	}
	writeJSON(w, e.Code.Status(), appendError(nil, e))
}

// challenge returns the WWW-Authenticate value of RFC 6750 section 3: with no
// error code if no credential was sent.
func challenge(e *plant.Error, scope auth.Scopes) string {
	value := `Bearer realm="plantstore"`
	switch e.Code {
	case plant.CodeCredentialMissing:
		return value
	case plant.CodeAuthMalformed:
		value += `, error="invalid_request"`
	case plant.CodeScopeMissing:
		return value + `, error="insufficient_scope", scope="` + scope.String() + `"`
	default:
		value += `, error="invalid_token"`
	}
	return value + `, error_description="` + e.Message + `"` // our own words: no quotes, no backslashes
}
