package console

import (
	"encoding/json"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"strings"

	"plantstore/internal/admin"
	"plantstore/internal/auth"
	"plantstore/internal/importer"
	"plantstore/internal/plant"
	"plantstore/internal/server"
)

// importRoutes returns the routes of imports. The script sends a file to /import/{id}, whose id it chooses, so that it
// can read the state at the same time. A form without the script sends it to /import.
func (c *Console) importRoutes() []server.Route {
	route := func(method, path string, handle server.HandlerFunc) server.Route {
		return server.Route{Method: method, Path: path, Scope: auth.ScopeCreate, Page: true, Untimed: true, Handle: handle}
	}
	orAdmin := func(method, path string, handle server.HandlerFunc) server.Route {
		r := route(method, path, handle)
		r.Or = auth.ScopeAdmin
		return r
	}
	page := func(path string, handle server.HandlerFunc) server.Route {
		r := orAdmin("GET", path, handle)
		r.Linked = true
		return r
	}
	live := orAdmin("GET", "/import/{id}/live", c.serveImport)
	live.Background = true
	return []server.Route{
		page("/import", c.showImports),
		route("POST", "/import", c.importForm),
		page("/import/{id}", c.showImport),
		route("POST", "/import/{id}", c.importFile),
		live,
		route("GET", "/import/{id}/rejects", c.downloadRejects),
		orAdmin("POST", "/import/{id}/cancel", c.cancelImport),
	}
}

// importPage is the content of the pages of imports.
type importPage struct {
	One     *admin.Import  // of the page; nil: the page has the form and the list
	Creates bool           // the credential may import, so the page has the form
	Run     admin.Import   // a running import of the form; the script fills it in
	List    []admin.Import // the newest first
}

func (c *Console) showImports(w http.ResponseWriter, r *http.Request, principal auth.Principal) error {
	return c.render(w, r, http.StatusOK, "import", view{
		Title: "Import",
		Content: importPage{
			Creates: principal.Scopes.Has(auth.ScopeCreate),
			List:    c.Operations.Imports(principal), Run: admin.Import{State: admin.JobRunning},
		},
	})
}

func (c *Console) showImport(w http.ResponseWriter, r *http.Request, principal auth.Principal) error {
	i, err := c.Operations.ImportOf(r.PathValue("id"), principal)
	if err != nil {
		return err
	}
	return c.render(w, r, http.StatusOK, "import", view{
		Title: "Import", Content: importPage{One: &i, Creates: principal.Scopes.Has(auth.ScopeCreate)},
	})
}

// serveImport responds with the state of an import for the script.
func (c *Console) serveImport(w http.ResponseWriter, r *http.Request, principal auth.Principal) error {
	i, err := c.Operations.ImportOf(r.PathValue("id"), principal)
	if err != nil {
		return err
	}
	return respondJSON(w, http.StatusOK, i)
}

func respondJSON(w http.ResponseWriter, status int, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return err
	}
	server.WriteJSON(w, status, append(body, '\n'))
	return nil
}

// importFile imports the body of a request of the script. The response has the state or the error as JSON.
func (c *Console) importFile(w http.ResponseWriter, r *http.Request, principal auth.Principal) error {
	if err := c.checkUpload(r, "application/octet-stream"); err != nil {
		return err
	}
	upload, err := c.Operations.Upload(w, r)
	if err != nil {
		return respondRefusal(w, err)
	}
	q := r.URL.Query()
	n := admin.NewImport{
		ID: r.PathValue("id"), Name: q.Get("name"), OnConflict: importer.Reaction(q.Get("on-conflict")),
		Bytes: r.ContentLength, Principal: principal, By: server.OriginOf(w, r, principal),
	}
	var i admin.Import
	if n.Format, err = admin.ImportFormat(q.Get("format"), n.Name); err == nil {
		n.File, n.Received = upload.Within(upload), upload.Received
		i, err = c.Operations.Import(r.Context(), n)
	}
	upload.End()
	if err != nil && i.ID == "" {
		return respondRefusal(w, err)
	}
	return respondJSON(w, http.StatusOK, i)
}

// respondRefusal responds with an error as JSON.
func respondRefusal(w http.ResponseWriter, err error) error {
	refusal := (*plant.Error)(nil)
	if !errors.As(err, &refusal) {
		return err
	}
	return respondJSON(w, refusal.Code.Status(), struct {
		Error   int32  `json:"error"`
		Message string `json:"message"`
	}{int32(refusal.Code), refusal.Message})
}

// checkUpload refuses a request that a page of another site sent, and one with another media type.
func (c *Console) checkUpload(r *http.Request, media string) error {
	if err := c.crossOrigin.Check(r); err != nil {
		return &plant.Error{Code: plant.CodeCrossSite, Message: "a page of another site sent the file"}
	}
	if given, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); given != media {
		return &plant.Error{Code: plant.CodeMediaType, Message: "the body must have the type " + media}
	}
	return nil
}

// importForm imports the file of a form, and then shows the result. Its fields come before the file.
func (c *Console) importForm(w http.ResponseWriter, r *http.Request, principal auth.Principal) error {
	if err := c.checkUpload(r, "multipart/form-data"); err != nil {
		return err
	}
	upload, err := c.Operations.Upload(w, r)
	if err != nil {
		return err
	}
	defer upload.End()
	head := upload.Within(upload)(r.Context()) // the end of the credential ends the reads
	r.Body = head
	fields, file, err := formFile(r)
	_ = head.Close() // the import ends the reads of the file
	if err != nil {
		return err
	}
	n := admin.NewImport{
		ID: suffix(), Name: file.FileName(), OnConflict: importer.Reaction(fields["on-conflict"]), Bytes: -1,
		Principal: principal, By: server.OriginOf(w, r, principal),
	}
	if n.Format, err = admin.ImportFormat(fields["format"], n.Name); err != nil {
		return err
	}
	n.File, n.Received = upload.Within(file), upload.Received
	i, err := c.Operations.Import(r.Context(), n)
	if err != nil && i.ID == "" {
		return err
	}
	upload.End()
	redirect(w, "/import/"+i.ID)
	return nil
}

// formFile returns the fields of a form, and the file after them.
func formFile(r *http.Request) (fields map[string]string, file *multipart.Part, err error) {
	const fieldBytesMax, fieldsMax = 100, 10
	bad := &plant.Error{Code: plant.CodeInputInvalid, Message: "the form must have a file after its other fields"}
	parts, err := r.MultipartReader()
	if err != nil {
		return nil, nil, bad
	}
	fields = map[string]string{}
	for range fieldsMax {
		part, err := parts.NextPart()
		if err != nil {
			return nil, nil, refusalOr(err, bad)
		}
		if part.FormName() == "file" {
			if part.FileName() == "" {
				return nil, nil, &plant.Error{Code: plant.CodeInputInvalid, Message: "choose a file"}
			}
			return fields, part, nil
		}
		text, err := io.ReadAll(io.LimitReader(part, fieldBytesMax))
		if err != nil {
			return nil, nil, refusalOr(err, bad)
		}
		fields[part.FormName()] = string(text)
	}
	return nil, nil, bad
}

// refusalOr returns the *plant.Error of err, or another one.
func refusalOr(err error, other *plant.Error) error {
	if refusal := (*plant.Error)(nil); errors.As(err, &refusal) {
		return refusal
	}
	return other
}

func (c *Console) downloadRejects(w http.ResponseWriter, r *http.Request, principal auth.Principal) error {
	return c.Operations.SendRejects(w, r, r.PathValue("id"), principal, r.URL.Query().Has("report"))
}

func (c *Console) cancelImport(w http.ResponseWriter, r *http.Request, principal auth.Principal) error {
	if _, err := c.form(w, r); err != nil {
		return err
	}
	i, err := c.Operations.CancelImport(r.Context(), r.PathValue("id"), principal)
	if err != nil {
		return err
	}
	redirect(w, "/import/"+i.ID)
	return nil
}
