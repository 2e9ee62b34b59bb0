package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"plantstore/internal/apidoc"
	"plantstore/internal/plant"
)

// The contract must accept documented responses and refuse others: other tests rely on it.
func TestContract(t *testing.T) {
	t.Parallel()
	contract := newContract(t, newDocument(t, contractBase))
	const (
		body    = `{"id":1,"name":"A"}`
		success = `{"name":"A"}`
	)
	plain := http.Header{"Content-Type": {"application/json"}, "X-Request-Id": {"r-1"}}
	noID := http.Header{"Content-Type": {"application/json"}}
	failure := func(code int) string { return fmt.Sprintf(`{"error":%d,"message":"m"}`, code) }
	with := func(name, value string) http.Header {
		changed := plain.Clone()
		changed.Set(name, value)
		return changed
	}
	for _, c := range []contractCase{
		{"created", "/plants", body, 200, plain, success, ""},
		{"charset", "/plants", body, 200, with("Content-Type", "application/json; charset=utf-8"), success, ""},
		{"replayed", "/plants", body, 200, with("Idempotent-Replayed", "true"), `{"name":"A","tag":""}`, ""},
		{"largest id", "/plants", `{"id":9223372036854775807,"name":""}`, 200, plain, `{"name":""}`, ""},
		{"smallest id", "/plants", `{"id":-9223372036854775808,"name":""}`, 200, plain, `{"name":""}`, ""},
		{"integer in another form", "/plants", `{"id":1.0e3,"name":"","more":[]}`, 200, plain, `{"name":""}`, ""},
		{"id missing", "/plants", `{"name":"A"}`, 400, plain, failure(40011), ""},
		{"malformed authorization", "/plants", body, 400, with("WWW-Authenticate", "Bearer"), failure(40051), ""},
		{"no credential", "/plants", body, 401, with("WWW-Authenticate", "Bearer"), failure(40101), ""},
		{"not found", "/nothing", "", 404, plain, failure(40401), ""},
		{"wrong method", "/plants", "", 405, with("Allow", "POST"), failure(40501), ""},
		{"media type", "/plants", body, 415, with("Accept", "application/json"), failure(41501), ""},
		{"full", "/plants", body, 503, with("Retry-After", "1"), failure(50301), ""},

		{"status", "/plants", body, 418, plain, failure(41801), "status is not supported"},
		{"code of another status", "/plants", body, 400, plain, failure(40101), "has another status"},
		{"error as a string", "/plants", body, 400, plain, `{"error":"40011","message":"m"}`, "doesn't match schema"},
		{"no message", "/plants", body, 404, plain, `{"error":40401}`, "doesn't match schema"},
		{"id in the response", "/plants", body, 200, plain, `{"name":"A","id":1}`, "id"},
		{"unknown member", "/plants", body, 400, plain, `{"error":40001,"message":"m","more":1}`, "more"},
		{"tag null", "/plants", body, 200, plain, `{"name":"A","tag":null}`, "doesn't match schema"},
		{"HTML", "/plants", body, 500, with("Content-Type", "text/html"), `<p>`, "Content-Type"},
		{"two values", "/plants", body, 200, plain, `{"name":"A"}{}`, "body"},
		{"no request id", "/plants", body, 200, noID, success, "X-Request-Id"},
		{"no challenge", "/plants", body, 401, plain, failure(40101), "WWW-Authenticate"},
		{"no challenge for 40051", "/plants", body, 400, plain, failure(40051), "WWW-Authenticate"},
		{"no Allow", "/plants", body, 405, plain, failure(40501), "Allow"},
		{"no Accept", "/plants", body, 415, plain, failure(41501), "Accept"},
		{"no Retry-After", "/plants", body, 503, plain, failure(50301), "Retry-After"},
		{"replayed false", "/plants", body, 200, with("Idempotent-Replayed", "false"), success, "Idempotent-Replayed"},
		{
			"malformed trace", "/plants", body, 200, with("Traceresponse", "00-0-0-01"), success,
			"Traceresponse",
		},
		{"invalid plant accepted", "/plants", `{"name":"A"}`, 200, plain, success, "request"},
		{"valid plant refused", "/plants", body, 400, plain, failure(40021), "refused a valid"},
		{"success at another path", "/plant", body, 200, plain, success, "no operation"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, contract)
		})
	}
}

const contractBase = "https://plants.example/store"

// contractCase is a request with a response. The request is a POST, or a GET if it has no body.
type contractCase struct {
	name, path, body string
	status           int
	header           http.Header
	response         string
	want             string // part of the error; empty: none
}

func (c contractCase) run(t *testing.T, contract *contract) {
	t.Helper()
	method := http.MethodPost
	if c.body == "" {
		method = http.MethodGet
	}
	req := httptest.NewRequest(method, contractBase+c.path, http.NoBody)
	req.Header.Set("Content-Type", "application/json")
	res := &http.Response{StatusCode: c.status, Header: c.header}
	if c.want == "" {
		contract.check(t, req, []byte(c.body), res, []byte(c.response))
		return
	}
	err := contract.fault(req, []byte(c.body), res, []byte(c.response))
	if err == nil || !strings.Contains(err.Error(), c.want) {
		t.Errorf("got %v, want an error with %q", err, c.want)
	}
}

// contract compares requests and responses with the API document.
type contract struct {
	router    routers.Router
	operation *routers.Route // for error responses to requests of other paths and methods
}

func newContract(t testing.TB, document *apidoc.Document) *contract {
	t.Helper()
	doc, err := loadDocument(document.JSON)
	if err != nil {
		t.Fatal(err)
	}
	router, err := legacy.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	path := doc.Paths.Value("/plants")
	return &contract{router: router, operation: &routers.Route{
		Spec: doc, Server: doc.Servers[0], Path: "/plants", PathItem: path, Method: http.MethodPost,
		Operation: path.Post,
	}}
}

// check fails the test if the document does not allow the response to the request. The request has the URL of the
// client. check is safe for concurrent use.
func (c *contract) check(t testing.TB, req *http.Request, reqBody []byte, res *http.Response, resBody []byte) {
	t.Helper()
	if err := c.fault(req, reqBody, res, resBody); err != nil {
		t.Errorf(
			"%s %s: status %d, %s: not as in the API document: %v", req.Method, req.URL, res.StatusCode, resBody, err,
		)
	}
}

func (c *contract) fault(req *http.Request, reqBody []byte, res *http.Response, resBody []byte) error {
	route, _, err := c.router.FindRoute(req)
	if err != nil {
		if res.StatusCode < http.StatusBadRequest {
			return fmt.Errorf("the document has no operation for the request: %w", err)
		}
		route = c.operation
	}
	if media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); media != "application/json" {
		return fmt.Errorf("the Content-Type of the response is %q", res.Header.Get("Content-Type"))
	}
	request := req.Clone(req.Context())
	request.Body = io.NopCloser(bytes.NewReader(reqBody))
	in := &openapi3filter.RequestValidationInput{
		Request: request, Route: route,
		Options: &openapi3filter.Options{
			AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true,
		},
	}
	out := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: res.StatusCode, Header: res.Header,
		Body: io.NopCloser(bytes.NewReader(resBody)), Options: in.Options,
	}
	if err := openapi3filter.ValidateResponse(req.Context(), out); err != nil {
		return err
	}
	code, err := checkMembers(res.StatusCode, resBody)
	if err != nil {
		return err
	}
	if code != 0 && code.Status() != res.StatusCode {
		return fmt.Errorf("error %d has another status", code)
	}
	if name := headerOfCode[code]; name != "" && res.Header.Get(name) == "" {
		return fmt.Errorf("error %d without the header %s", code, name)
	}
	err = openapi3filter.ValidateRequest(req.Context(), in)
	switch {
	case res.StatusCode == http.StatusOK && err != nil:
		return fmt.Errorf("the server accepted an invalid request: %w", err)
	case slices.Contains(codesOfSchema, code) && err == nil:
		return fmt.Errorf("the server refused a valid request with error %d", code)
	}
	return nil
}

// headerOfCode has the headers of single codes; other codes of the status lack them.
var headerOfCode = map[plant.Code]string{
	plant.CodeAuthMalformed:   "WWW-Authenticate",
	plant.CodeMediaType:       "Accept",
	plant.CodeContentEncoding: "Accept-Encoding",
}

// codesOfSchema are the errors that the schema of NewPlant detects too. The validator converts an id to a float, so the
// errors of its value are not among them.
var codesOfSchema = []plant.Code{
	plant.CodeBodyMissing, plant.CodeBodyNotObject, plant.CodeIDMissing, plant.CodeIDWrongType,
	plant.CodeNameMissing, plant.CodeNameWrongType, plant.CodeTagWrongType,
}

// checkMembers checks that a response has no unknown member, which the schemas allow for later versions. It returns the
// code of the error, or 0.
func checkMembers(status int, body []byte) (plant.Code, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return 0, fmt.Errorf("the body is not one JSON object: %w", err)
	}
	allowed := []string{"error", "message"}
	if status == http.StatusOK {
		allowed = []string{"name", "tag"}
	}
	for name := range members {
		if !slices.Contains(allowed, name) {
			return 0, fmt.Errorf("the body has the member %s", name)
		}
	}
	var code plant.Code
	if status != http.StatusOK {
		if err := json.Unmarshal(members["error"], &code); err != nil {
			return 0, err
		}
	}
	return code, nil
}
