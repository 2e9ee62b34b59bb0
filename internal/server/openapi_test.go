package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"plantstore/internal/apidoc"
	"plantstore/internal/plant"
	"plantstore/internal/server"
)

func TestDocumentIsValid(t *testing.T) {
	t.Parallel()
	document := newDocument(t, "https://plants.example/store/")
	for name, form := range map[string][]byte{"JSON": document.JSON, "YAML": document.YAML} {
		if _, err := loadDocument(form); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The validator must find a wrong example: the test above relies on it.
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
		t.Error("the same input gave different bytes")
	}
}

// flatten returns every scalar with its path and type, in order.
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

func TestDocumentHasTheSettings(t *testing.T) {
	t.Parallel()
	base, err := url.Parse("https://user:secret@plants.example:8443/a%20b/?query#fragment")
	if err != nil {
		t.Fatal(err)
	}
	document, err := server.NewDocument(base, server.Limits{
		BodyMax: 1 << 20, HeaderMax: 1000, RequestTimeout: 1500 * time.Millisecond, AnswerTimeout: time.Minute,
		QueueMax: 77, AuthFailures: 12, Rate: 13, Concurrency: 15,
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
		"queueMax": json.Number("77"), "requestTimeoutSeconds": json.Number("1.5"),
		"answerTimeoutSeconds": json.Number("60"), "authFailuresPerMinute": json.Number("12"),
		"requestsPerSecond": json.Number("13"), "concurrentRequests": json.Number("15"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	for name, form := range map[string][]byte{"JSON": document.JSON, "YAML": document.YAML} {
		for _, text := range []string{
			"curl https://plants.example:8443/a%20b/plants", "| body | 1024 KiB (1048576 bytes) | 413 |",
			"| 1000 bytes | 431 |",
			"| 1.5s | 408 |", "| 1m0s | 503 (50303) |", "| 77 | 503", "| 12 | 429 (42902) |",
			"| 13 | 429 (42901) |", "| 15 | 429 (42903) |", "larger than 1048576 bytes",
		} {
			if !bytes.Contains(form, []byte(text)) {
				t.Errorf("%s: no %q", name, text)
			}
		}
		if rest := regexp.MustCompile(`\{[A-Za-z]+\}`).FindAll(form, -1); rest != nil {
			t.Errorf("%s: not replaced: %q", name, rest)
		}
		if bytes.Contains(form, []byte("secret")) || bytes.Contains(form, []byte("fragment")) {
			t.Errorf("%s: has more of the base URL than scheme, host and path", name)
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
			t.Errorf("the document has status %s, no code has it", status)
		}
	}
	for status, entries := range byStatus {
		response, ok := responses[status]
		if !ok {
			t.Errorf("the document lacks status %s of code %d", status, entries[0].Code)
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

// checkErrorExamples checks that a response has an example for each of its codes, with the name, the meaning and a
// message.
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
		hasName := func(e plant.Entry) bool { return e.Name == name }
		if name != "several-faults" && !slices.ContainsFunc(entries, hasName) {
			t.Errorf("status %s: no code of this status has the name of the example %s", status, name)
		}
	}
}

// The examples of validation errors are errors of plant.Decode and plant.Differences.
func TestDocumentExamplesMatchTheErrors(t *testing.T) {
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

// The examples of the other errors are the texts that other tests receive.
func TestDocumentExamplesMatchTheResponses(t *testing.T) {
	t.Parallel()
	responses := at(t, decodeJSON(t, newDocument(t, "https://plants.example").JSON),
		"paths", "/plants", "post", "responses")
	names := map[plant.Code]string{}
	for _, e := range plant.Catalogue() {
		names[e.Code] = e.Name
	}
	for code, want := range map[plant.Code]string{
		plant.CodeAuthMalformed:     textMalformed,
		plant.CodeBodyIncomplete:    textIncomplete,
		plant.CodeCredentialMissing: textNone,
		plant.CodeCredentialInvalid: textInvalid,
		plant.CodeScopeMissing:      textScope,
		plant.CodeNotFound:          textNotFound,
		plant.CodeBodyTooLarge:      "the body is larger than 65536 bytes; nothing was stored",
		plant.CodeRequestTimeout:    "the request did not arrive within 10s; nothing was stored",
		plant.CodeRateExceeded:      textRate,
		plant.CodeTooManyFailures:   textFailures,
		plant.CodeTooManyAtOnce:     textAtOnce,
		plant.CodeInternal:          textInternal,
		plant.CodeQueueFull:         textQueueFull,
		plant.CodeShuttingDown:      textShutting,
		plant.CodeOutcomeUnknown:    textUnknownOutcome,
		plant.CodeStoreUnavailable:  textUnavailable,
		plant.CodeStoreFull:         textDiskFull,
	} {
		examples := at(t, responses, strconv.Itoa(code.Status()), "content", "application/json", "examples")
		checkExample(t, names[code], &plant.Error{Code: code, Message: want}, examples)
	}
}

func checkExample(t *testing.T, name string, err error, examples any) {
	t.Helper()
	var refusal *plant.Error
	if !errors.As(err, &refusal) {
		t.Errorf("%s: got %v, want a *plant.Error", name, err)
		return
	}
	want := map[string]any{"error": json.Number(strconv.Itoa(int(refusal.Code))), "message": refusal.Message}
	if diff := cmp.Diff(want, at(t, examples, name, "value")); diff != "" {
		t.Errorf("%s (-error +document):\n%s", name, diff)
	}
}

// The page has the rows of the catalogue, each with a remedy for the client.
func TestErrorsPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reference/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, e := range plant.Catalogue() {
		want = append(want, fmt.Sprintf("| %d | %s | %s |", e.Code, e.Name, e.Meaning))
	}
	remedy := regexp.MustCompile(` [A-Z][^|]{8,}\. \|$`)
	for _, line := range regexp.MustCompile(`(?m)^\| \d.*$`).FindAllString(string(page), -1) {
		if end := remedy.FindStringIndex(line); end != nil {
			line = line[:end[0]]
		} else {
			t.Errorf("no remedy in %s", line)
		}
		got = append(got, line)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/reference/errors.md (-catalogue +page):\n%s", diff)
	}
}

func newDocument(t testing.TB, base string) *apidoc.Document {
	t.Helper()
	parsed, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	document, err := server.NewDocument(parsed, server.Limits{
		BodyMax: 64 << 10, HeaderMax: 16 << 10, RequestTimeout: 10 * time.Second, AnswerTimeout: 20 * time.Second,
		QueueMax: 8192,
	})
	if err != nil {
		t.Fatal(err)
	}
	return document
}

// loadDocument parses a document and validates it with its examples.
func loadDocument(data []byte) (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData(data)
	if err != nil {
		return nil, err
	}
	return doc, doc.Validate(context.Background(), openapi3.IsOpenAPI31OrLater(), openapi3.EnableExamplesValidation())
}

// decodeJSON decodes numbers as json.Number.
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

// at returns the value at a path of keys and indices.
func at(t testing.TB, v any, path ...string) any {
	t.Helper()
	for _, step := range path {
		switch parent := v.(type) {
		case map[string]any:
			v = parent[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(parent) {
				t.Fatalf("no value %s at %s", strings.Join(path, "/"), step)
			}
			v = parent[i]
		}
		if v == nil {
			t.Fatalf("no value %s at %s", strings.Join(path, "/"), step)
		}
	}
	return v
}
