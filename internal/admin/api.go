package admin

import (
	_ "embed" // for openapi.yaml
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"plantstore/internal/apidoc"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/server"
)

//go:embed openapi.yaml
var documentSource []byte

// base is the path of the API on the admin listener.
const base = "/api/v1"

// Document returns the OpenAPI document of the API in JSON. The caller must not change it.
var Document = sync.OnceValues(func() ([]byte, error) {
	source, err := apidoc.New(documentSource, apidoc.Config{Errors: plant.Catalogue()})
	if err != nil {
		return nil, err
	}
	return source.JSON()
})

// Routes returns the routes of the API for server.Config.AdminRoutes.
func Routes(s *Service) ([]server.Route, error) {
	document, err := Document()
	if err != nil {
		return nil, err
	}
	a := api{s}
	return slices.Concat([]server.Route{
		{Method: "GET", Path: base + "/openapi.json", Open: true, Untimed: true, Handle: serveDocument(document)},
		{Method: "GET", Path: base + "/plants", Scope: auth.ScopeRead, Bulk: true, Handle: a.listPlants},
		{
			Method: "GET", Path: base + "/plants/search", Scope: auth.ScopeRead, Untimed: true, Bulk: true,
			Handle: a.searchPlants,
		},
		{Method: "GET", Path: base + "/plants/counts", Scope: auth.ScopeRead, Handle: a.countPlants},
		{Method: "GET", Path: base + "/plants/{id}", Scope: auth.ScopeRead, Handle: a.getPlant},
	}, a.credentialRoutes(), a.stateRoutes(), a.auditRoutes(), a.backupRoutes(),
		a.webhookRoutes(), a.importRoutes()), nil
}

// api has the functions of the routes.
type api struct{ service *Service }

// respond writes a value as JSON.
func respond(w http.ResponseWriter, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode the response: %w", err)
	}
	server.WriteJSON(w, http.StatusOK, append(body, '\n'))
	return nil
}

// untimed removes the write deadline of a response that takes as long as the log or the backup is large.
func untimed(w http.ResponseWriter) error {
	if err := http.NewResponseController(w).SetWriteDeadline(time.Time{}); err != nil {
		return fmt.Errorf("remove the write deadline: %w", err)
	}
	return nil
}

func serveDocument(document []byte) server.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request, _ auth.Principal) error {
		server.WriteJSON(w, http.StatusOK, document)
		return nil
	}
}

func (a api) getPlant(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		return invalid(fmt.Sprintf("the id in the path must be a 64-bit integer; got %q", server.Shorten(r.PathValue("id"))))
	}
	record, err := a.service.Plant(r.Context(), id)
	if err != nil {
		return err
	}
	server.WriteJSON(w, http.StatusOK, append(record.AppendJSON(nil), '\n'))
	return nil
}

// limitDefault is the number of plants on a page without ?limit=.
const limitDefault = 100

func (a api) listPlants(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
	values, err := parameters(r, "limit", "cursor", "tag", "after")
	if err != nil {
		return err
	}
	q := PageQuery{Cursor: values.Get("cursor"), Tag: tagParameter(values)}
	if q.Limit, err = intParameter(values, "limit", limitDefault, 1, PageMax); err != nil {
		return err
	}
	if values.Has("after") {
		after, err := strconv.ParseInt(values.Get("after"), 10, 64)
		if err != nil {
			return invalid(fmt.Sprintf("after must be a 64-bit integer; got %q", server.Shorten(values.Get("after"))))
		}
		q.After = &after
	}
	page, err := a.service.Plants(r.Context(), q)
	if err != nil {
		return err
	}
	page.send(w)
	return nil
}

// send responds with a page, in parts: its JSON can be several times as large as its texts.
func (p Page) send(w http.ResponseWriter) {
	const partBytes = 64 << 10
	w.Header().Set("Content-Type", "application/json")
	part := []byte(`{"plants":[`)
	for i, r := range p.Plants {
		if i > 0 {
			part = append(part, ',')
		}
		if part = r.AppendJSON(part); len(part) >= partBytes {
			if _, err := w.Write(part); err != nil {
				return // the client has disconnected
			}
			part = part[:0]
		}
	}
	part = append(part, ']')
	if p.Next != "" {
		part = append(append(part, `,"next":`...), strconv.Quote(p.Next)...)
	}
	_, _ = w.Write(append(part, '}', '\n')) // here too
}

// parameters returns the query of a request. It refuses a parameter that is not in names,
// because a misspelt filter would return other plants, and one that occurs twice.
func parameters(r *http.Request, names ...string) (url.Values, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, invalid("the query is not of the form name=value&name=value with percent-encoding")
	}
	for name, list := range values {
		switch {
		case !slices.Contains(names, name) && len(names) == 0:
			return nil, invalid(fmt.Sprintf("the path has no query parameters; got %q", server.Shorten(name)))
		case !slices.Contains(names, name):
			return nil, invalid(fmt.Sprintf("unknown query parameter %q; use %s", server.Shorten(name),
				strings.Join(names, ", ")))
		case len(list) > 1:
			return nil, invalid(fmt.Sprintf("query parameter %s occurs %d times; send it once", name, len(list)))
		}
		if list[0] == "" && name == "cursor" {
			return nil, invalid("cursor is empty; omit it for the first page")
		}
		if !utf8.ValidString(list[0]) {
			return nil, invalid(fmt.Sprintf("query parameter %s must be UTF-8 with percent-encoding", name))
		}
	}
	return values, nil
}

// tagParameter returns the parameter tag; no tag without it.
func tagParameter(values url.Values) plant.Tag {
	if !values.Has("tag") {
		return plant.Tag{}
	}
	return plant.Tagged(values.Get("tag"))
}

// intParameter returns a parameter from least to most, or a default without it.
func intParameter(values url.Values, name string, fallback, least, most int) (int, error) {
	if !values.Has(name) {
		return fallback, nil
	}
	n, err := strconv.Atoi(values.Get(name))
	if err != nil || n < least || n > most {
		return 0, invalid(fmt.Sprintf("%s must be an integer from %d to %d; got %q", name, least, most,
			server.Shorten(values.Get(name))))
	}
	return n, nil
}
