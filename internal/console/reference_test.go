package console_test

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"plantstore/internal/adminapi"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
)

// The pages of the documents have every operation, schema and shared response, each link
// within a page has a target, and no text has marks of Markdown.
func TestReferencePages(t *testing.T) {
	t.Parallel()
	h := start(t)
	c := h.signIn(h.admin)
	for path, want := range map[string][]string{
		"/reference": {
			"createPlant", `id="schema-NewPlant"`, "https://plants.example", "openapi.yaml", "Idempotent-Replayed",
			"64 KiB (65536 bytes)", "from -9223372036854775808 to 9223372036854775807", "<td>40041</td>",
		},
		"/reference/admin": {`id="response-BadRequest"`, `id="schema-PlantPage"`, "no credential", "<td>40402</td>"},
	} {
		page := c.get(path)
		page.want(t, http.StatusOK)
		for _, text := range want {
			if !strings.Contains(page.body, text) {
				t.Errorf("%s: no %q", path, text)
			}
		}
		checkManual(t, path, page.body)
	}
	document, err := adminapi.Document()
	if err != nil {
		t.Fatal(err)
	}
	var source struct {
		Paths      map[string]map[string]struct{ OperationID string }
		Components struct{ Schemas, Responses, Headers map[string]any }
	}
	if err := json.Unmarshal(document.JSON, &source); err != nil {
		t.Fatal(err)
	}
	page := c.get("/reference/admin").body
	var ids []string
	for _, path := range source.Paths {
		for _, operation := range path {
			ids = append(ids, operation.OperationID)
		}
	}
	for prefix, list := range map[string]map[string]any{
		"schema-": source.Components.Schemas, "response-": source.Components.Responses, "header-": source.Components.Headers,
	} {
		for name := range list {
			ids = append(ids, prefix+name)
		}
	}
	for _, id := range ids {
		if strings.Count(page, `id="`+id+`"`) != 1 {
			t.Errorf("the page of the admin API has %d elements %s", strings.Count(page, `id="`+id+`"`), id)
		}
	}
}

func checkManual(t *testing.T, path, page string) {
	t.Helper()
	for _, target := range regexp.MustCompile(`href="#([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if !strings.Contains(page, `id="`+target[1]+`"`) {
			t.Errorf("%s: #%s has no target", path, target[1])
		}
	}
	for _, mark := range []string{"**", "```", "|---", "{baseURL}", "{errorTable}", "%!"} {
		if strings.Contains(page, mark) {
			t.Errorf("%s: the page has %q", path, mark)
		}
	}
}

// A session without plants:create sees no link to the page that sends requests.
func TestReferenceWithoutCreate(t *testing.T) {
	t.Parallel()
	h := start(t)
	c := h.signIn(h.mint("reader", auth.ScopeRead))
	if page := c.get("/reference"); page.status != 200 || strings.Contains(page.body, "/reference/try") {
		t.Errorf("got %d: %s", page.status, page.body)
	}
}

// The page sends the body as it is to the public operation, and shows the whole exchange
// without the credential.
func TestTry(t *testing.T) {
	t.Parallel()
	h := start(t)
	c := h.signIn(h.admin)
	c.get("/reference/try").want(t, 200, "Acer campestre", "POST https://plants.example/plants")
	const body = "{\n  \"id\": 7,\n  \"name\": \"Rosa 'New Dawn' $(id) \\u202e\",\n  \"tag\": \"\"\n}"
	form := url.Values{"body": {strings.ReplaceAll(body, "\n", "\r\n")}} // as browsers send it
	for _, replayed := range []bool{false, true} {
		page := c.post("/reference/try", form)
		text := html.UnescapeString(page.body)
		for _, want := range []string{
			"200 OK", "Content-Type: application/json\n", "X-Request-Id: ", "Date: ", `"tag":""}`, `href="/plants/7"`,
			fmt.Sprintf("POST /plants HTTP/1.1\nHost: plants.example\nAuthorization: Bearer $TOKEN\n"+
				"Content-Type: application/json\nContent-Length: %d\n\n%s", len(body), body),
		} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in %s", want, text)
			}
		}
		if got := strings.Contains(text, "Idempotent-Replayed: true"); got != replayed {
			t.Errorf("Idempotent-Replayed: got %t, want %t", got, replayed)
		}
		if strings.Contains(text, h.admin) {
			t.Error("the page has the credential")
		}
		checkCommand(t, text, body)
	}
	record, err := h.engine.Get(t.Context(), 7)
	if err != nil || record.Tag != plant.Tagged("") || record.CreatedBy != "operator" {
		t.Errorf("got %+v, %v", record, err)
	}
	for body, want := range map[string]string{
		"":                              "40001",
		`{"id":"x"}`:                    `{"error":40012,"message":"id must be a 64-bit integer, got a string; name`,
		`{"id":7,"name":"other"}`:       "40041",
		strings.Repeat(" ", 64<<10+1):   "413 Request Entity Too Large",
		"{\"id\":8,\"name\":\"\xff\"}":  "40003",
		`{"id":9,"name":"</pre><b>x"`:   "40002",
		`{"id":10,"name":"a","tag":""}`: "200 OK",
	} {
		page := c.post("/reference/try", url.Values{"body": {body}})
		page.want(t, 200)
		text, isEncoded := html.UnescapeString(page.body), !strings.Contains(page.body, "</pre><b>x")
		if !strings.Contains(text, want) || !isEncoded {
			t.Errorf("%.40q: no %q in %.4000s", body, want, text)
		}
	}
	c.post("/reference/try", url.Values{"body": {strings.Repeat(" ", 200<<10)}}).want(t, 413)
}

// checkCommand runs the command of a page with a function instead of curl, and compares the
// body that it would send.
func checkCommand(t *testing.T, page, body string) {
	t.Helper()
	_, command, _ := strings.Cut(page, `<pre id="curl" dir="auto">`)
	command, _, _ = strings.Cut(command, "</pre>")
	const curl = `curl() { for last; do :; done; printf %s "$last"; }; TOKEN=x; `
	shell := exec.CommandContext(t.Context(), "sh", "-c", curl+command)
	if sent, err := shell.Output(); err != nil || string(sent) != body {
		t.Errorf("%s sends %q, want %q: %v", command, sent, body, err)
	}
}
