package adminapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/plant"
)

// The document has the routes of the API, and no others.
func TestDocumentHasTheRoutes(t *testing.T) {
	t.Parallel()
	h := start(t, setup{})
	doc, err := loadDocument(h.get("/openapi.json").body)
	if err != nil {
		t.Fatal(err)
	}
	got, want := map[string]bool{}, map[string]bool{}
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			open := operation.Security != nil && len(*operation.Security) == 0
			got[fmt.Sprint(method, " /api/v1", path, " open ", open)] = true
		}
	}
	routes, err := h.api.Routes()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range routes {
		want[fmt.Sprint(r.Method, " ", r.Path, " open ", r.Open)] = true
		operation := doc.Paths.Value(strings.TrimPrefix(r.Path, "/api/v1")).GetOperation(r.Method)
		for _, status := range []string{"200", "405", "421", "500"} {
			if operation.Responses.Value(status) == nil {
				t.Errorf("%s %s: the document lacks the status %s", r.Method, r.Path, status)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("operations (-routes +document):\n%s", diff)
	}
}

func TestDocumentHasTheCatalogue(t *testing.T) {
	t.Parallel()
	h := start(t, setup{})
	var doc struct {
		Components struct {
			Schemas struct{ Error struct{ Description string } }
		}
	}
	if err := json.Unmarshal([]byte(h.get("/openapi.json").body), &doc); err != nil {
		t.Fatal(err)
	}
	for _, e := range plant.Catalogue() {
		if row := fmt.Sprintf("\n| %d | %s | %s |", e.Code, e.Name, e.Meaning); !strings.Contains(
			doc.Components.Schemas.Error.Description, row) {
			t.Errorf("the document has no row %q", row)
		}
	}
}

// The validator must refuse a wrong document and a wrong response: other tests rely on it.
func TestValidator(t *testing.T) {
	t.Parallel()
	h := start(t, setup{})
	document := h.get("/openapi.json").body
	for name, change := range map[string][2]string{
		"number as a string": {`"error": 40061`, `"error": "40061"`},
		"unknown schema":     {`#/components/schemas/PlantPage"`, `#/components/schemas/Pages"`},
	} {
		if !strings.Contains(document, change[0]) {
			t.Fatalf("%s: the document has no %s", name, change[0])
		}
		if _, err := loadDocument(strings.Replace(document, change[0], change[1], 1)); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	res := h.open(http.MethodGet, "/plants")
	_ = res.Body.Close()
	for body, valid := range map[string]bool{
		`{"plants":[]}`: true, `{}`: false, `{"plants":[{"id":1}]}`: false, `[]`: false,
		`{"plants":[{"id":1,"name":"A","created_at":"2026-11-21T09:30:00Z"}]}`: true,
	} {
		if err := h.fault(res, []byte(body)); (err == nil) != valid {
			t.Errorf("%s: got %v", body, err)
		}
	}
	res.StatusCode = http.StatusTeapot
	if err := h.fault(res, []byte(`{"plants":[]}`)); err == nil {
		t.Error("unknown status: got no error")
	}
}

// HEAD has the headers of GET.
func TestHead(t *testing.T) {
	t.Parallel()
	h := start(t, setup{})
	head, get := h.open(http.MethodHead, "/plants"), h.open(http.MethodGet, "/plants")
	_ = head.Body.Close()
	_ = get.Body.Close()
	for _, res := range []*http.Response{head, get} {
		res.Header.Del("Date")
		res.Header.Del("X-Request-Id")
	}
	if diff := cmp.Diff(get.Header, head.Header); diff != "" || head.StatusCode != http.StatusOK {
		t.Errorf("status %d, headers (-GET +HEAD):\n%s", head.StatusCode, diff)
	}
}
