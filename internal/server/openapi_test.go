package server_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"plantstore/internal/plant"
	"plantstore/internal/server"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestDocumentIsValid(t *testing.T) {
	t.Parallel()
	document := newDocument(t, "https://plants.example/store/")
	for name, form := range map[string][]byte{"JSON": document.JSON, "YAML": document.YAML} {
		if _, err := loadDocument(form); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The validator must be one that sees a wrong example: the test above relies on it.
func TestDocumentWithWrongExampleIsInvalid(t *testing.T) {
	t.Parallel()
	document := string(newDocument(t, "https://plants.example").JSON)
	for name, change := range map[string][2]string{
		"id as a string":             {`"id": 42`, `"id": "42"`},
		"code as a string":           {`"error": 40001`, `"error": "40001"`},
		"no message":                 {`"message": "id is missing`, `"text": "id is missing`},
		"unknown schema to refer to": {`#/components/schemas/Plant"`, `#/components/schemas/Plants"`},
	} {
		if !strings.Contains(document, change[0]) {
			t.Fatalf("%s: the document has no %s", name, change[0])
		}
		if _, err := loadDocument([]byte(strings.Replace(document, change[0], change[1], 1))); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

func TestDocumentFormsAreTheSame(t *testing.T) {
	t.Parallel()
	document := newDocument(t, "https://plants.example/store")
	var fromYAML, fromJSON yaml.Node // JSON is YAML
	if err := yaml.Unmarshal(document.YAML, &fromYAML); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(document.JSON, &fromJSON); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(flatten(&fromYAML, "", nil), flatten(&fromJSON, "", nil)); diff != "" {
		t.Errorf("YAML and JSON differ (-YAML +JSON):\n%s", diff)
	}
	again := newDocument(t, "https://plants.example/store")
	if !bytes.Equal(document.YAML, again.YAML) || !bytes.Equal(document.JSON, again.JSON) {
		t.Error("the same input gave other bytes")
	}
}

// flatten lists every scalar with its type and where it stands, in order.
func flatten(node *yaml.Node, path string, lines []string) []string {
	if node.Kind == yaml.ScalarNode {
		return append(lines, path+" "+node.ShortTag()+" "+node.Value)
	}
	for i, child := range node.Content {
		step := strconv.Itoa(i)
		if node.Kind == yaml.MappingNode {
			step = node.Content[i/2*2].Value
		}
		lines = flatten(child, path+"/"+step, lines)
	}
	return lines
}

func TestDocumentTellsSettings(t *testing.T) {
	t.Parallel()
	base, err := url.Parse("https://somebody:secret@plants.example:8443/a%20b/?query#fragment")
	if err != nil {
		t.Fatal(err)
	}
	document, err := server.NewDocument(base, false, server.Limits{
		BodyMax: 1 << 20, HeaderMax: 1000, RequestTimeout: 1500 * time.Millisecond, AnswerTimeout: time.Minute, QueueMax: 77,
	})
	if err != nil {
		t.Fatal(err)
	}
	data := decodeJSON(t, document.JSON)
	if got, want := at(t, data, "servers", "0", "url"), any("https://plants.example:8443/a%20b"); got != want {
		t.Errorf("server: got %v, want %v", got, want)
	}
	got := at(t, data, "paths", "/plants", "post", "x-limits")
	want := map[string]any{
		"bodyBytesMax": json.Number("1048576"), "headerBytesMax": json.Number("1000"), "nestingMax": json.Number("64"),
		"queueMax": json.Number("77"), "requestTimeoutSeconds": json.Number("1.5"), "answerTimeoutSeconds": json.Number("60"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	for name, form := range map[string][]byte{"JSON": document.JSON, "YAML": document.YAML} {
		for _, text := range []string{
			"curl https://plants.example:8443/a%20b/plants", "| body | 1024 KiB (1048576 bytes) | 413 |", "| 1000 bytes | 431 |",
			"| 1.5s | 408 |", "| 1m0s | 503 (50303) |", "| 77 | 503", "larger than 1048576 bytes",
		} {
			if !bytes.Contains(form, []byte(text)) {
				t.Errorf("%s: no %q", name, text)
			}
		}
		if rest := regexp.MustCompile(`\{[a-z]+[A-Z][A-Za-z]*\}`).FindAll(form, -1); rest != nil {
			t.Errorf("%s: not filled in: %q", name, rest)
		}
		if bytes.Contains(form, []byte("secret")) || bytes.Contains(form, []byte("fragment")) {
			t.Errorf("%s: more of the base URL than scheme, host and path", name)
		}
	}
}

// A guessed address is wrong for whoever reads the document from elsewhere.
func TestDocumentOfAGuessedAddress(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]string{"http://127.0.0.1:8080": "/", "http://127.0.0.1:8080/a/": "/a/"} {
		parsed, err := url.Parse(base)
		if err != nil {
			t.Fatal(err)
		}
		document, err := server.NewDocument(parsed, true, server.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if got := at(t, decodeJSON(t, document.JSON), "servers", "0", "url"); got != any(want) {
			t.Errorf("%s: server: got %v, want %v", base, got, want)
		}
	}
}

func TestDocumentRefusesRelativeBaseURL(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"", "/store", "plants.example", "//plants.example"} {
		parsed, err := url.Parse(base)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := server.NewDocument(parsed, false, server.Limits{}); err == nil {
			t.Errorf("%q: got no error", base)
		}
	}
}

func TestDocumentHasTheCatalogue(t *testing.T) {
	t.Parallel()
	data := decodeJSON(t, newDocument(t, "https://plants.example").JSON)
	responses := at(t, data, "paths", "/plants", "post", "responses").(map[string]any)

	byStatus := map[string][]plant.Entry{}
	var known []any
	table := at(t, data, "components", "schemas", "Error", "description").(string)
	for _, e := range plant.Catalogue() {
		if e.Code.AdminOnly() {
			continue
		}
		known = append(known, json.Number(strconv.Itoa(int(e.Code))))
		if row := fmt.Sprintf("\n| %d | %s | %s |\n", e.Code, e.Name, e.Meaning); !strings.Contains(table+"\n", row) {
			t.Errorf("the table has no row %q", row)
		}
		status := strconv.Itoa(e.Code.Status())
		byStatus[status] = append(byStatus[status], e)
	}
	if got, want := strings.Count(table, "\n| 4")+strings.Count(table, "\n| 5"), len(known); got != want {
		t.Errorf("the table has %d rows, want %d", got, want)
	}
	want := map[string]any{"type": "integer", "format": "int32", "examples": known}
	got := maps.Clone(at(t, data, "components", "schemas", "Error", "properties", "error").(map[string]any))
	delete(got, "description")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the schema of error (-want +document):\n%s", diff)
	}
	for status := range responses {
		if status != "200" && byStatus[status] == nil {
			t.Errorf("status %s is documented, but no code has it", status)
		}
	}
	for status, entries := range byStatus {
		response, ok := responses[status]
		if !ok {
			t.Errorf("status %s of code %d is not documented", status, entries[0].Code)
			continue
		}
		content := at(t, response, "content", "application/json")
		if diff := cmp.Diff(
			map[string]any{"$ref": "#/components/schemas/Error"}, at(t, content, "schema"),
		); diff != "" {
			t.Errorf("status %s, schema (-want +document):\n%s", status, diff)
		}
		checkErrorExamples(t, status, entries, at(t, content, "examples").(map[string]any))
	}
}

// checkErrorExamples checks that a response has an example for each of its
// codes under the code's name, with its meaning and with a message.
func checkErrorExamples(t *testing.T, status string, entries []plant.Entry, examples map[string]any) {
	t.Helper()
	for _, e := range entries {
		example, ok := examples[e.Name]
		if !ok {
			t.Errorf("status %s: no example %s for code %d", status, e.Name, e.Code)
			continue
		}
		if got, want := at(t, example, "value", "error"), any(json.Number(strconv.Itoa(int(e.Code)))); got != want {
			t.Errorf("example %s: error: got %v, want %v", e.Name, got, want)
		}
		if got, want := at(t, example, "summary"), any(e.Meaning); got != want {
			t.Errorf("example %s: summary: got %q, want %q", e.Name, got, want)
		}
		if at(t, example, "value", "message") == "" {
			t.Errorf("example %s: no message", e.Name)
		}
	}
	for name := range examples {
		known := name == "several-faults" || slices.ContainsFunc(entries, func(e plant.Entry) bool { return e.Name == name })
		if !known {
			t.Errorf("status %s: example %s is of no code with this status", status, name)
		}
	}
}

// What the document shows for a refused plant is what the decoder says.
func TestDocumentExamplesAreWhatIsSaid(t *testing.T) {
	t.Parallel()
	examples := at(t, decodeJSON(t, newDocument(t, "https://plants.example").JSON),
		"paths", "/plants", "post", "responses", "400", "content", "application/json", "examples")
	for name, body := range map[string]string{
		"body-missing":    "",
		"body-not-json":   `{"id": 1,}`,
		"body-not-utf8":   `{"id":1,"name":"` + "A\xff" + `"}`,
		"body-too-deep":   strings.Repeat("[", 65),
		"body-not-object": `[]`,
		"member-twice":    `{"id":1,"name":"A","name":"B"}`,
		"lone-surrogate":  `{"id":1,"name":"\ud800"}`,
		"id-missing":      `{"name":"A"}`,
		"id-wrong-type":   `{"id":"1","name":"A"}`,
		"id-not-integer":  `{"id":1.5,"name":"A"}`,
		"id-out-of-range": `{"id":9223372036854775808,"name":"A"}`,
		"name-missing":    `{"id":1}`,
		"name-wrong-type": `{"id":1,"name":2}`,
		"name-has-nul":    `{"id":1,"name":"\u0000"}`,
		"tag-wrong-type":  `{"id":1,"name":"A","tag":null}`,
		"tag-has-nul":     `{"id":1,"name":"A","tag":"\u0000"}`,
		"several-faults":  `{"id":"1"}`,
	} {
		_, err := plant.Decode([]byte(body))
		checkExample(t, name, err, examples)
	}
	stored := plant.Plant{Name: "A", Tag: plant.Tagged("B")}
	checkExample(
		t, "exists-with-different-name", plant.Differences(plant.Plant{Name: "X", Tag: stored.Tag}, stored), examples,
	)
	checkExample(
		t, "exists-with-different-tag", plant.Differences(plant.Plant{Name: "A", Tag: plant.Tagged("X")}, stored),
		examples,
	)
}

func checkExample(t *testing.T, name string, err error, examples any) {
	t.Helper()
	var refusal *plant.Error
	if !errors.As(err, &refusal) {
		t.Errorf("%s: got %v, want a refusal", name, err)
		return
	}
	want := map[string]any{"error": json.Number(strconv.Itoa(int(refusal.Code))), "message": refusal.Message}
	if diff := cmp.Diff(want, at(t, examples, name, "value")); diff != "" {
		t.Errorf("%s (-said +document):\n%s", name, diff)
	}
}

func TestErrorsPage(t *testing.T) {
	t.Parallel()
	const path = "../../docs/reference/errors.md"
	want := errorsPage()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/reference/errors.md is not the catalogue; go test ./internal/server -update writes it (-catalogue +page):\n%s", diff)
	}
}

// errorsPage writes docs/reference/errors.md.
func errorsPage() string {
	var page strings.Builder
	page.WriteString(`# Error numbers

Every response except 200 has the body ` + "`{\"error\": NUMBER, \"message\": TEXT}`" + `. The number is the HTTP status times 100,
plus a serial number. A number never changes its meaning and is never reused. A later version may add numbers, so treat an
unknown number like its status.

One response has all validation errors of a plant: the message has all of them, and the number is the lowest of theirs. The
text of a message may change; programs should use the number.

` + "`go test ./internal/server -update`" + ` writes this page from the catalogue in internal/plant/errors.go.
`)
	status := 0
	for _, e := range plant.Catalogue() {
		if e.Code.Status() != status {
			status = e.Code.Status()
			fmt.Fprintf(
				&page, "\n## %d %s\n\n| Number | Name | Meaning | What to do |\n|---|---|---|---|\n", status,
				http.StatusText(status),
			)
		}
		fmt.Fprintf(&page, "| %d | %s | %s | %s |\n", e.Code, e.Name, cell(e.Meaning), cell(e.Remedy))
	}
	return page.String()
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

func TestDocsPage(t *testing.T) {
	t.Parallel()
	handlers, err := server.NewDocs("/store")
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	for path, handler := range handlers {
		mux.Handle("GET /store"+path, handler)
	}
	page := get(mux, "/store/docs", nil)
	if got, want := page.Header().Get("Content-Type"), "text/html; charset=utf-8"; got != want {
		t.Errorf("page: Content-Type: got %q, want %q", got, want)
	}
	text := page.Body.Bytes()
	if slashed := get(mux, "/store/docs/", nil).Body.Bytes(); !bytes.Equal(text, slashed) {
		t.Error("the page with a slash at its end is another")
	}
	links := regexp.MustCompile(`(?:src|href|data-document)="([^"]*)"`).FindAllSubmatch(text, -1)
	if len(links) < 5 {
		t.Fatalf("got %d links in the page, want more", len(links))
	}
	for _, link := range links {
		path := string(link[1])
		if strings.HasPrefix(path, "/store/openapi.") {
			continue // routes.go has them
		}
		if res := get(mux, path, nil); res.Code != http.StatusOK {
			t.Errorf("%s: got status %d", path, res.Code)
		}
	}
	for _, own := range [][]byte{text, get(mux, "/store/docs/start.js", nil).Body.Bytes()} {
		if bytes.Contains(own, []byte("//")) {
			t.Errorf("a URL of another host in:\n%s", own)
		}
	}
	if inline := regexp.MustCompile(`<script>|<style|\son[a-z]+=|\sstyle=`).Find(text); inline != nil {
		t.Errorf("the page has %q inline, which its Content-Security-Policy forbids", inline)
	}
}

func TestDocsFiles(t *testing.T) {
	t.Parallel()
	handlers, err := server.NewDocs("")
	if err != nil {
		t.Fatal(err)
	}
	for path, handler := range handlers {
		plain := get(handler, strings.TrimSuffix(path, "{$}"), nil)
		content := plain.Body.Bytes()
		if len(content) == 0 || plain.Header().Get("Content-Length") != strconv.Itoa(len(content)) {
			t.Errorf("%s: %d bytes, Content-Length %s", path, len(content), plain.Header().Get("Content-Length"))
		}
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
				"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
			"X-Content-Type-Options": "nosniff",
			"Referrer-Policy":        "no-referrer",
			"Content-Encoding":       "",
		} {
			if got := plain.Header().Get(name); got != want {
				t.Errorf("%s: %s: got %q, want %q", path, name, got, want)
			}
		}
		checkGzip(t, path, handler, content)
	}
}

// checkGzip checks that a file is the same compressed, and that a client that
// has it in a form is told so for that form alone.
func checkGzip(t *testing.T, path string, handler http.Handler, plain []byte) {
	t.Helper()
	for accept, zips := range map[string]bool{
		"gzip": true, "br, GZIP;q=0.5": true, "gzip;q=0": false, "gzip; q=0.000, br": false, "br": false, "": false,
	} {
		res := get(handler, path, http.Header{"Accept-Encoding": {accept}})
		etag, content := res.Header().Get("ETag"), res.Body.Bytes()
		if res.Header().Get("Content-Encoding") == "gzip" {
			if !zips {
				t.Errorf("%s: compressed for Accept-Encoding %q", path, accept)
			}
			reader, err := gzip.NewReader(bytes.NewReader(content))
			if err != nil {
				t.Fatal(err)
			}
			if content, err = io.ReadAll(reader); err != nil {
				t.Fatal(err)
			}
		} else if zips && strings.Contains(path, "swagger-ui") {
			t.Errorf("%s: not compressed for Accept-Encoding %q", path, accept)
		}
		if !bytes.Equal(content, plain) {
			t.Errorf("%s: another content for Accept-Encoding %q", path, accept)
		}
		again := get(handler, path, http.Header{"Accept-Encoding": {accept}, "If-None-Match": {`"x", W/` + etag}})
		if again.Code != http.StatusNotModified || again.Body.Len() != 0 {
			t.Errorf("%s: got status %d for what the client has, want 304 without a body", path, again.Code)
		}
	}
}

// The contract must accept what is documented and refuse what is not: other
// tests rely on it.
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
		answer                   string
		want                     string // part of the fault; empty: none
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
			"whole number in other form", "POST", "/plants", `{"id":1.0e3,"name":"","more":[]}`, 200, good,
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
			"of another status",
		},
		{
			"error as a string", "POST", "/plants", body, 400, good, `{"error":"40011","message":"m"}`,
			"doesn't match schema",
		},
		{"no message", "POST", "/plants", body, 404, good, `{"error":40401}`, "doesn't match schema"},
		{"id in the answer", "POST", "/plants", body, 200, good, `{"name":"A","id":1}`, "id"},
		{"more in the answer", "POST", "/plants", body, 400, good, `{"error":40001,"message":"m","more":1}`, "more"},
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
		{"valid plant refused", "POST", "/plants", body, 400, good, `{"error":40021,"message":"m"}`, "valid"},
		{"other path answered", "POST", "/plant", body, 200, good, `{"name":"A"}`, "no operation"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			req := httptest.NewRequest(c.method, base+c.path, http.NoBody)
			req.Header.Set("Content-Type", "application/json")
			res := &http.Response{StatusCode: c.status, Header: c.header}
			if c.want == "" {
				contract.check(t, req, []byte(c.body), res, []byte(c.answer))
				return
			}
			err := contract.fault(req, []byte(c.body), res, []byte(c.answer))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

// contract checks what went over the wire against the API document.
type contract struct {
	router    routers.Router
	operation *routers.Route // for requests that are not to the one operation, and are refused
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
		Spec: doc, Server: doc.Servers[0], Path: "/plants", PathItem: path, Method: http.MethodPost, Operation: path.Post,
	}}
}

// check fails the test if the answer is none that the document allows to that
// request. The request has the URL that the client used. It is safe for
// concurrent use.
func (c *contract) check(t testing.TB, req *http.Request, reqBody []byte, res *http.Response, resBody []byte) {
	t.Helper()
	if err := c.fault(req, reqBody, res, resBody); err != nil {
		t.Errorf(
			"%s %s: status %d, %s: against the API document: %v", req.Method, req.URL, res.StatusCode, resBody, err,
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
		return fmt.Errorf("the answer's Content-Type is %q", res.Header.Get("Content-Type"))
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
		return fmt.Errorf("error %d is of another status", code)
	}
	if name := headerOfCode[code]; name != "" && res.Header.Get(name) == "" {
		return fmt.Errorf("error %d comes without the header %s", code, name)
	}
	err = openapi3filter.ValidateRequest(req.Context(), in)
	switch {
	case res.StatusCode == http.StatusOK && err != nil:
		return fmt.Errorf("the request is not valid, but was accepted: %w", err)
	case slices.Contains(codesOfSchema, code) && err == nil:
		return fmt.Errorf("the request is valid, but was refused with error %d", code)
	}
	return nil
}

// headerOfCode are the headers that go with a code, not with its whole status.
var headerOfCode = map[plant.Code]string{
	plant.CodeAuthMalformed:   "WWW-Authenticate",
	plant.CodeMediaType:       "Accept",
	plant.CodeContentEncoding: "Accept-Encoding",
}

// codesOfSchema are the faults that the schema of a NewPlant knows too. Those
// of the id's value are not among them: the validator goes by way of a float.
var codesOfSchema = []plant.Code{
	plant.CodeBodyMissing, plant.CodeBodyNotObject, plant.CodeIDMissing, plant.CodeIDWrongType,
	plant.CodeNameMissing, plant.CodeNameWrongType, plant.CodeTagWrongType,
}

// checkMembers checks that an answer has the members of its shape and no
// other: the schemas leave room for later versions. It returns the error's
// code, or 0.
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

func newDocument(t testing.TB, base string) server.Document {
	t.Helper()
	parsed, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	document, err := server.NewDocument(parsed, false, server.Limits{
		BodyMax: 64 << 10, HeaderMax: 16 << 10, RequestTimeout: 10 * time.Second, AnswerTimeout: 20 * time.Second, QueueMax: 8192,
	})
	if err != nil {
		t.Fatal(err)
	}
	return document
}

// loadDocument reads a document and validates it, its examples included.
func loadDocument(data []byte) (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData(data)
	if err != nil {
		return nil, err
	}
	return doc, doc.Validate(context.Background(), openapi3.IsOpenAPI31OrLater(), openapi3.EnableExamplesValidation())
}

// decodeJSON decodes with numbers as their digits.
func decodeJSON(t testing.TB, data []byte) any {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// at returns what stands under a path of keys and indices.
func at(t testing.TB, v any, path ...string) any {
	t.Helper()
	for _, step := range path {
		switch parent := v.(type) {
		case map[string]any:
			v = parent[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(parent) {
				t.Fatalf("there is no %s at %s", strings.Join(path, "/"), step)
			}
			v = parent[i]
		}
		if v == nil {
			t.Fatalf("there is no %s at %s", strings.Join(path, "/"), step)
		}
	}
	return v
}

// get asks a handler for a path.
func get(handler http.Handler, path string, header http.Header) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodGet, path, http.NoBody)
	for name, values := range header {
		req.Header[name] = values
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, req)
	return recorder
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
