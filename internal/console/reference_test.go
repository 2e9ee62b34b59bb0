package console_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"plantstore/internal/adminapi"
)

// The pages of the documents have every operation, schema and shared response, each link within a page has a target,
// and no text has marks of Markdown.
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
