package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
)

// WriteJSON writes a response whose whole body, in JSON, is ready. The body ends with a newline.
func (c *Call) WriteJSON(status int, body []byte) {
	h := c.Header()
	h["Content-Type"] = contentTypeJSON
	h["Content-Length"] = length(len(body))
	c.WriteHeader(status)
	_, _ = c.Write(body) // fails if the client has disconnected
}

// Respond writes a response with a value as JSON.
func (c *Call) Respond(value any) error {
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false) // the canonical text of an audit entry stays as it is
	if err := e.Encode(value); err != nil {
		return fmt.Errorf("encode the response: %w", err)
	}
	c.WriteJSON(http.StatusOK, body.Bytes())
	return nil
}

// contentTypeJSON is a header value. Handlers share it, so it must not change.
var contentTypeJSON = []string{mediaType}

// length returns a Content-Length value. Short bodies share theirs.
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

// AppendError appends the error body of the specification, with a newline.
func AppendError(dst []byte, e *plant.Error) []byte {
	dst = append(dst, `{"error":`...)
	dst = strconv.AppendInt(dst, int64(e.Code), 10)
	dst = append(dst, `,"message":`...)
	dst = plant.AppendString(dst, e.Message)
	return append(dst, '}', '\n')
}

// asPlantError returns the error for the client. Every error that is not a *plant.Error is internal: only the log shows
// its text.
func asPlantError(err error) *plant.Error {
	if e, ok := errors.AsType[*plant.Error](err); ok {
		return e
	}
	return plant.Errorf(plant.CodeInternal, "internal error; the log of the server has the cause under the request id")
}

// retryAfterSeconds is short, because most causes end with the next commit or with a restart.
const retryAfterSeconds = "1"

// writeError writes an error response with the headers of its status and code.
func (c *Call) writeError(e *plant.Error) {
	h := c.Header()
	switch e.Code {
	case plant.CodeCredentialMissing, plant.CodeCredentialInvalid, plant.CodeAuthMalformed, plant.CodeScopeMissing:
		h["Www-Authenticate"] = []string{challenge(e, c.scope)}
	case plant.CodeRequestTimeout:
		h["Connection"] = []string{"close"} // RFC 9110 section 15.5.9
	case plant.CodeMediaType:
		h["Accept"] = []string{mediaType} // RFC 9110 section 15.5.16
	case plant.CodeContentEncoding:
		h["Accept-Encoding"] = []string{"identity"} // RFC 9110 section 15.5.16
	}
	status := e.Code.Status()
	if h["Retry-After"] == nil && (status == http.StatusTooManyRequests || status >= http.StatusInternalServerError) {
		h["Retry-After"] = []string{retryAfterSeconds}
	}
	c.WriteJSON(status, AppendError(nil, e))
}

// challenge returns the WWW-Authenticate value of RFC 6750 section 3. It has no error code if the request has no
// credential.
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
	// The messages of package auth have no quotes and no backslashes.
	return value + `, error_description="` + e.Message + `"`
}
