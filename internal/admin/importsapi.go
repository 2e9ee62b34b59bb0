package admin

import (
	"fmt"
	"mime"
	"net/http"
	"slices"

	"plantstore/internal/auth"
	"plantstore/internal/dump"
	"plantstore/internal/importer"
	"plantstore/internal/plant"
	"plantstore/internal/server"
)

// importRoutes returns the routes of imports. The reads show names of plants, so they require a credential also with
// --admin-open.
func (a api) importRoutes() []server.Route {
	const one = base + "/imports/{id}"
	return []server.Route{
		{
			Method: "GET", Path: base + "/imports", Scope: auth.ScopeCreate, Or: auth.ScopeAdmin, Guarded: true,
			Handle: a.listImports,
		},
		{Method: "PUT", Path: one, Scope: auth.ScopeCreate, Untimed: true, Handle: a.importPlants},
		{Method: "GET", Path: one, Scope: auth.ScopeCreate, Or: auth.ScopeAdmin, Guarded: true, Handle: a.getImport},
		{
			Method: "GET", Path: one + "/rejects", Scope: auth.ScopeCreate, Guarded: true, Untimed: true,
			Handle: a.getImportRejects,
		},
		{Method: "POST", Path: one + "/cancel", Scope: auth.ScopeCreate, Or: auth.ScopeAdmin, Handle: a.cancelImport},
	}
}

// importTypes are the media types of the body of an import. curl -T sends none.
var importTypes = []string{
	"", "text/csv", "application/json", ndjsonType, "application/jsonl", "application/gzip", "application/zstd",
	"application/octet-stream",
}

const ndjsonType = "application/x-ndjson"

// checkImportType refuses the media types of forms, with which a page of another site could send a request.
func checkImportType(r *http.Request) error {
	given := r.Header.Get("Content-Type")
	media, _, err := mime.ParseMediaType(given)
	if given == "" || err == nil && slices.Contains(importTypes, media) {
		return nil
	}
	return &plant.Error{Code: plant.CodeMediaType, Message: fmt.Sprintf(
		"Content-Type must be text/csv, %s, application/json, application/octet-stream or absent; got %q; "+
			"with curl, send the file with -T", ndjsonType, server.Shorten(given),
	)}
}

func (a api) importPlants(w http.ResponseWriter, r *http.Request, p auth.Principal) error {
	values, err := parameters(r, "format", "name", "on_conflict")
	if err != nil {
		return err
	}
	if err := checkImportType(r); err != nil {
		return err
	}
	n := NewImport{
		ID: r.PathValue("id"), Name: values.Get("name"), OnConflict: importer.Fail, Bytes: r.ContentLength,
		Principal: p, By: server.OriginOf(w, r, p),
	}
	if values.Has("on_conflict") {
		n.OnConflict = importer.Reaction(values.Get("on_conflict"))
	}
	if n.Format, err = ImportFormat(values.Get("format"), n.Name); err != nil {
		return err
	}
	upload, err := a.service.Upload(w, r)
	if err != nil {
		return err
	}
	n.File, n.Received = upload.Within(upload), upload.Received
	i, err := a.service.Import(r.Context(), n)
	upload.End()
	if err != nil {
		return err
	}
	return respond(w, i)
}

// ImportFormat returns the format with a name; the empty name selects that of the end of a file name.
func ImportFormat(name, file string) (dump.Format, error) {
	if name == "" {
		format, _, ok := dump.DetectPath(file)
		if !ok {
			return "", invalid("the format is unknown; send format=csv, jsonl or json, or a name that ends with one")
		}
		return format, nil
	}
	format, err := dump.ParseFormat(name)
	if err != nil {
		return "", invalid(fmt.Sprintf("unknown format %q; use csv, jsonl or json", server.Shorten(name)))
	}
	return format, nil
}

func (a api) listImports(w http.ResponseWriter, r *http.Request, p auth.Principal) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	return respond(w, struct {
		Imports []Import `json:"imports"`
	}{a.service.Imports(p)})
}

func (a api) getImport(w http.ResponseWriter, r *http.Request, p auth.Principal) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	i, err := a.service.ImportOf(r.PathValue("id"), p)
	if err != nil {
		return err
	}
	return respond(w, i)
}

func (a api) cancelImport(w http.ResponseWriter, r *http.Request, p auth.Principal) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	i, err := a.service.CancelImport(r.Context(), r.PathValue("id"), p)
	if err != nil {
		return err
	}
	return respond(w, i)
}

func (a api) getImportRejects(w http.ResponseWriter, r *http.Request, p auth.Principal) error {
	values, err := parameters(r, "form")
	if err != nil {
		return err
	}
	form := values.Get("form")
	if values.Has("form") && form != "rows" && form != "report" {
		return invalid(fmt.Sprintf("form must be rows or report; got %q", server.Shorten(form)))
	}
	return a.service.SendRejects(w, r, r.PathValue("id"), p, form == "report")
}
