package console

import (
	"errors"
	"io"
	"mime/multipart"
	"net/http"

	"plantstore/internal/admin"
	"plantstore/internal/adminapi"
	"plantstore/internal/auth"
	"plantstore/internal/dump"
	"plantstore/internal/importer"
	"plantstore/internal/plant"
	"plantstore/internal/server"
)

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
	return adminapi.Respond(w, http.StatusOK, i)
}

// importFile imports the body of a request of the script, and responds with the state.
func (c *Console) importFile(w http.ResponseWriter, r *http.Request, principal auth.Principal) error {
	if r.Header.Get("Content-Type") != "application/octet-stream" {
		return plant.Errorf(plant.CodeMediaType, "the body must have the type application/octet-stream")
	}
	q := r.URL.Query()
	i, err := c.api.Import(w, r, principal, admin.NewImport{
		ID: r.PathValue("id"), Name: q.Get("name"), Format: dump.Format(q.Get("format")),
		OnConflict: importer.Reaction(q.Get("on-conflict")),
	})
	if err != nil && i.ID == "" {
		return err
	}
	return adminapi.Respond(w, http.StatusOK, i)
}

// importForm imports the file of a form, and then shows the result.
func (c *Console) importForm(w http.ResponseWriter, r *http.Request, principal auth.Principal) error {
	i, err := c.receiveForm(w, r, principal)
	if err != nil && i.ID == "" {
		return err
	}
	redirect(w, "/import/"+i.ID)
	return nil
}

// receiveForm imports the file of a form, which comes after the other fields.
func (c *Console) receiveForm(w http.ResponseWriter, r *http.Request, principal auth.Principal) (admin.Import, error) {
	upload, err := c.api.Upload(w, r)
	if err != nil {
		return admin.Import{}, err
	}
	defer upload.End()
	head := upload.Within(upload)(r.Context()) // the end of the credential ends the reads
	r.Body = head
	fields, file, err := formFile(r)
	_ = head.Close() // the import ends the reads of the file
	if err != nil {
		return admin.Import{}, err
	}
	return c.Operations.Import(r.Context(), admin.NewImport{
		ID: suffix(), Name: file.FileName(), Format: dump.Format(fields["format"]), Bytes: -1,
		OnConflict: importer.Reaction(fields["on-conflict"]), File: upload.Within(file), Received: upload.Received,
		Principal: principal, By: server.OriginOf(w, r, principal),
	})
}

// formFile returns the fields of a form, and the file after them.
func formFile(r *http.Request) (fields map[string]string, file *multipart.Part, err error) {
	const fieldBytesMax, fieldsMax = 100, 10
	parts, err := r.MultipartReader()
	if err != nil {
		return nil, nil, plant.Errorf(plant.CodeMediaType, "the body must be a form of the type multipart/form-data")
	}
	bad := plant.InvalidInput("the form must have a file after its other fields")
	fields = map[string]string{}
	for range fieldsMax {
		part, err := parts.NextPart()
		switch {
		case err != nil:
			return nil, nil, errors.Join(err, bad) // the client receives a *plant.Error of err, otherwise bad
		case part.FormName() == "file" && part.FileName() == "":
			return nil, nil, plant.InvalidInput("choose a file")
		case part.FormName() == "file":
			return fields, part, nil
		}
		text, err := io.ReadAll(io.LimitReader(part, fieldBytesMax))
		if err != nil {
			return nil, nil, errors.Join(err, bad)
		}
		fields[part.FormName()] = string(text)
	}
	return nil, nil, bad
}

func (c *Console) downloadRejects(w http.ResponseWriter, r *http.Request, principal auth.Principal) error {
	return c.api.SendRejects(w, r, r.PathValue("id"), principal, r.URL.Query().Has("report"))
}

func (c *Console) cancelImport(w http.ResponseWriter, r *http.Request, form form) error {
	i, err := c.Operations.CancelImport(r.Context(), r.PathValue("id"), form.principal)
	return redirectAfter(w, err, "/import/"+i.ID)
}
