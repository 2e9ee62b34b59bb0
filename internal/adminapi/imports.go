package adminapi

import (
	"cmp"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"plantstore/internal/admin"
	"plantstore/internal/dump"
	"plantstore/internal/importer"
	"plantstore/internal/plant"
	"plantstore/internal/server"
)

// importTypes are the media types of the body of an import. curl -T sends none.
var importTypes = []string{
	"", "text/csv", "application/json", ndjsonType, "application/jsonl", "application/gzip", "application/zstd",
	"application/octet-stream",
}

// checkImportType refuses the media types of forms, with which a page of another site could send a request.
func checkImportType(r *http.Request) error {
	given := r.Header.Get("Content-Type")
	media, _, err := mime.ParseMediaType(given)
	if given == "" || err == nil && slices.Contains(importTypes, media) {
		return nil
	}
	return plant.Errorf(plant.CodeMediaType,
		"Content-Type must be text/csv, %s, application/json, application/octet-stream or absent; got %q; "+
			"with curl, send the file with -T", ndjsonType, server.Shorten(given))
}

func (a *API) importPlants(c *call) (any, error) {
	if err := checkImportType(c.Request); err != nil {
		return nil, err
	}
	options, err := c.query.importOptions()
	if err != nil {
		return nil, err
	}
	dryRun, err := c.query.boolean("dry_run")
	if err != nil {
		return nil, err
	}
	return a.Import(c.Call, admin.NewImport{
		ID: c.PathValue("id"), Name: c.query.Get("name"), Format: dump.Format(c.query.Get("format")),
		OnConflict: cmp.Or(importer.Reaction(c.query.Get("on_conflict")), importer.Fail),
		Options:    options, DryRun: dryRun,
	})
}

// importParameters are the query parameters of an import.
var importParameters = []string{
	"format", "name", "on_conflict", "dry_run", "encoding", "id_column", "name_column", "tag_column", "id_from",
	"number_from", "allow_empty_names",
}

// importOptions returns how to read the file of an import.
func (q query) importOptions() (o dump.Options, err error) {
	o.Encoding, o.Columns = q.Get("encoding"), map[string]string{}
	for _, ours := range []string{"id", "name", "tag"} {
		if q.Has(ours + "_column") {
			o.Columns[ours] = q.Get(ours + "_column")
		}
	}
	if q.Has("id_from") {
		o.IDFrom = strings.Split(q.Get("id_from"), ",")
	}
	if q.Has("number_from") {
		n, err := strconv.ParseInt(q.Get("number_from"), 10, 64)
		if err != nil {
			return o, mustBe("number_from", "a 64-bit integer", q.Get("number_from"))
		}
		o.NumberFrom = &n
	}
	o.AllowEmptyNames, err = q.boolean("allow_empty_names")
	return o, err
}

// Import imports the body of a request, and sets the fields of n that describe the body and the client. The Import has
// an id if the import has started.
func (a *API) Import(c *server.Call, n admin.NewImport) (admin.Import, error) {
	upload, err := a.Upload(c)
	if err != nil {
		return admin.Import{}, err
	}
	defer upload.End()
	n.File, n.Received, n.Bytes = upload.Within(upload), upload.Received, c.ContentLength
	n.Principal, n.By = c.Principal, c.Origin()
	return a.service.Import(c.Context(), n)
}

// Upload returns the body of a request as the file of an import, see server.Call.NewUpload.
func (a *API) Upload(c *server.Call) (*server.Upload, error) { return c.NewUpload(a.uploads) }

func (a *API) listImports(c *call) (any, error) {
	return map[string]any{"imports": a.service.Imports(c.Principal)}, nil
}

func (a *API) getImport(c *call) (any, error) {
	return a.service.ImportOf(c.PathValue("id"), c.Principal)
}

func (a *API) cancelImport(c *call) (any, error) {
	return a.service.CancelImport(c.Context(), c.PathValue("id"), c.Principal)
}

func (a *API) downloadRejects(c *call) error {
	form := c.query.Get("form")
	if c.query.Has("form") && form != "rows" && form != "report" {
		return mustBe("form", "rows or report", form)
	}
	return a.SendRejects(c.Call, c.PathValue("id"), form == "report")
}

// SendRejects responds with the rows that an import has not stored, as a file in the format of the import, or in a
// report for a person. If it returns an error, it has written nothing.
func (a *API) SendRejects(c *server.Call, id string, report bool) error {
	file, format, err := a.service.RejectsOf(id, c.Principal, report)
	if err != nil {
		return err
	}
	name := "rejects-"
	if report {
		name = "report-"
	}
	Attach(c, format, name+id+"."+string(format))
	if c.Method == http.MethodHead {
		return nil
	}
	if _, err := io.Copy(a.Stream(c.Context(), c), file); err != nil {
		panic(http.ErrAbortHandler) // the client must notice that the content is incomplete
	}
	return nil
}
