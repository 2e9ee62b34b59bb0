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

	"plantstore/internal/plant"
	"plantstore/internal/server"
)

// The contract must accept documented responses and refuse others: other tests rely
// on it.
func TestContract(t *testing.T) {
	t.Parallel()
	const base = "https://plants.example/store"
	contract := newContract(t, newDocument(t, base))
	good := http.Header{"Content-Type": {"application/json"}, "X-Request-Id": {"r-1"}}
	const body = `{"id":1,"name":"A"}`
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		header                   http.Header
		response                 string
		want                     string // part of the error; empty: none
	}{
		{"created", "POST", "/plants", body, 200, good, `{"name":"A"}`, ""},
		{
			"charset", "POST", "/plants", body, 200, with(good, "Content-Type", "application/json; charset=utf-8"),
			`{"name":"A"}`, "",
		},
		{
			"replayed", "POST", "/plants", body, 200, with(good, "Idempotent-Replayed", "true"),
			`{"name":"A","tag":""}`, "",
		},
		{"largest id", "POST", "/plants", `{"id":9223372036854775807,"name":""}`, 200, good, `{"name":""}`, ""},
		{"smallest id", "POST", "/plants", `{"id":-9223372036854775808,"name":""}`, 200, good, `{"name":""}`, ""},
		{
			"integer in another form", "POST", "/plants", `{"id":1.0e3,"name":"","more":[]}`, 200, good,
			`{"name":""}`, "",
		},
		{"id missing", "POST", "/plants", `{"name":"A"}`, 400, good, `{"error":40011,"message":"m"}`, ""},
		{
			"bad authorization", "POST", "/plants", body, 400, with(good, "WWW-Authenticate", "Bearer"),
			`{"error":40051,"message":"m"}`, "",
		},
		{
			"no credential", "POST", "/plants", body, 401, with(good, "WWW-Authenticate", "Bearer"),
			`{"error":40101,"message":"m"}`, "",
		},
		{"not found", "GET", "/nothing", "", 404, good, `{"error":40401,"message":"m"}`, ""},
		{"wrong method", "GET", "/plants", "", 405, with(good, "Allow", "POST"), `{"error":40501,"message":"m"}`, ""},
		{
			"media type", "POST", "/plants", body, 415, with(good, "Accept", "application/json"),
			`{"error":41501,"message":"m"}`, "",
		},
		{"full", "POST", "/plants", body, 503, with(good, "Retry-After", "1"), `{"error":50301,"message":"m"}`, ""},

		{"status", "POST", "/plants", body, 418, good, `{"error":41801,"message":"m"}`, "status is not supported"},
		{
			"code of another status", "POST", "/plants", body, 400, good, `{"error":40101,"message":"m"}`,
			"has another status",
		},
		{
			"error as a string", "POST", "/plants", body, 400, good, `{"error":"40011","message":"m"}`,
			"doesn't match schema",
		},
		{"no message", "POST", "/plants", body, 404, good, `{"error":40401}`, "doesn't match schema"},
		{"id in the response", "POST", "/plants", body, 200, good, `{"name":"A","id":1}`, "id"},
		{
			"unknown member in the response", "POST", "/plants", body, 400, good,
			`{"error":40001,"message":"m","more":1}`, "more",
		},
		{"tag null", "POST", "/plants", body, 200, good, `{"name":"A","tag":null}`, "doesn't match schema"},
		{"HTML", "POST", "/plants", body, 500, with(good, "Content-Type", "text/html"), `<p>`, "Content-Type"},
		{"two values", "POST", "/plants", body, 200, good, `{"name":"A"}{}`, "body"},
		{"no request id", "POST", "/plants", body, 200, with(good, "X-Request-Id", ""), `{"name":"A"}`, "X-Request-Id"},
		{"no challenge", "POST", "/plants", body, 401, good, `{"error":40101,"message":"m"}`, "WWW-Authenticate"},
		{
			"no challenge for a bad one", "POST", "/plants", body, 400, good, `{"error":40051,"message":"m"}`,
			"WWW-Authenticate",
		},
		{"no Allow", "POST", "/plants", body, 405, good, `{"error":40501,"message":"m"}`, "Allow"},
		{"no Accept", "POST", "/plants", body, 415, good, `{"error":41501,"message":"m"}`, "Accept"},
		{"no Retry-After", "POST", "/plants", body, 503, good, `{"error":50301,"message":"m"}`, "Retry-After"},
		{
			"replayed false", "POST", "/plants", body, 200, with(good, "Idempotent-Replayed", "false"), `{"name":"A"}`,
			"Idempotent-Replayed",
		},
		{"invalid plant accepted", "POST", "/plants", `{"name":"A"}`, 200, good, `{"name":"A"}`, "request"},
		{"valid plant refused", "POST", "/plants", body, 400, good, `{"error":40021,"message":"m"}`, "refused a valid"},
		{"success at another path", "POST", "/plant", body, 200, good, `{"name":"A"}`, "no operation"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			req := httptest.NewRequest(c.method, base+c.path, http.NoBody)
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
		})
	}
}

// contract compares requests and responses with the API document.
type contract struct {
	router    routers.Router
	operation *routers.Route // for error responses to requests of other paths and methods
}

func newContract(t testing.TB, document server.Document) *contract {
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

// check fails the test if the document does not allow the response to the request.
// The request has the URL of the client. check is safe for concurrent use.
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

// codesOfSchema are the errors that the schema of NewPlant finds too. The validator
// converts an id to a float, so the errors of its value are not among them.
var codesOfSchema = []plant.Code{
	plant.CodeBodyMissing, plant.CodeBodyNotObject, plant.CodeIDMissing, plant.CodeIDWrongType,
	plant.CodeNameMissing, plant.CodeNameWrongType, plant.CodeTagWrongType,
}

// checkMembers checks that a response has no unknown member, which the schemas allow
// for later versions. It returns the code of the error, or 0.
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

func with(header http.Header, name, value string) http.Header {
	changed := header.Clone()
	if value == "" {
		changed.Del(name)
	} else {
		changed.Set(name, value)
	}
	return changed
}
