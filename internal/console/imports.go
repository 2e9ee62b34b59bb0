package console

import (
	"errors"
	"io"
	"mime/multipart"
	"net/http"

	"plantstore/internal/admin"
	"plantstore/internal/auth"
	"plantstore/internal/dump"
	"plantstore/internal/importer"
	"plantstore/internal/plant"
	"plantstore/internal/server"
)

// importPage is the content of the pages of imports.
type importPage struct {
	One     *admin.Import  // the import of the page; nil: the page has the form and the list
	Creates bool           // the credential may import, so the page has the form
	Run     admin.Import   // a running import of the form; the script fills it in
	List    []admin.Import // the newest first
}

func (c *Console) showImports(call *server.Call) error {
	return c.render(call, http.StatusOK, "import", view{
		Title: "Import",
		Content: importPage{
			Creates: call.Principal.Scopes.Has(auth.ScopeCreate),
			List:    c.Operations.Imports(call.Principal), Run: admin.Import{State: admin.JobRunning},
		},
	})
}

func (c *Console) showImport(call *server.Call) error {
	i, err := c.Operations.ImportOf(call.PathValue("id"), call.Principal)
	if err != nil {
		return err
	}
	return c.render(call, http.StatusOK, "import", view{
		Title: "Import", Content: importPage{One: &i, Creates: call.Principal.Scopes.Has(auth.ScopeCreate)},
	})
}

// serveImport responds with the state of an import for the script.
func (c *Console) serveImport(call *server.Call) error {
	i, err := c.Operations.ImportOf(call.PathValue("id"), call.Principal)
	if err != nil {
		return err
	}
	return call.Respond(i)
}

// importFile imports the body of a request of the script, and responds with the state.
func (c *Console) importFile(call *server.Call) error {
	if call.Request.Header.Get("Content-Type") != "application/octet-stream" {
		return plant.Errorf(plant.CodeMediaType, "the body must have the type application/octet-stream")
	}
	q := call.URL.Query()
	i, err := c.api.Import(call, admin.NewImport{
		ID: call.PathValue("id"), Name: q.Get("name"), Format: dump.Format(q.Get("format")),
		OnConflict: importer.Reaction(q.Get("on-conflict")),
	})
	if err != nil && i.ID == "" {
		return err
	}
	return call.Respond(i)
}

// importForm imports the file of a form, and then shows the result.
func (c *Console) importForm(call *server.Call) error {
	i, err := c.receiveForm(call)
	if err != nil && i.ID == "" {
		return err
	}
	redirect(call, "/import/"+i.ID)
	return nil
}

// receiveForm imports the file of a form, which comes after the other fields.
func (c *Console) receiveForm(call *server.Call) (admin.Import, error) {
	upload, err := c.api.Upload(call)
	if err != nil {
		return admin.Import{}, err
	}
	defer upload.End()
	head := upload.Within(upload)(call.Context()) // the end of the credential ends the reads
	fields, file, err := formFile(call.Request.Header, head)
	_ = head.Close() // the import ends the reads of the file
	if err != nil {
		return admin.Import{}, err
	}
	return c.Operations.Import(call.Context(), admin.NewImport{
		ID: suffix(), Name: file.FileName(), Format: dump.Format(fields["format"]), Bytes: -1,
		OnConflict: importer.Reaction(fields["on-conflict"]), File: upload.Within(file), Received: upload.Received,
		Principal: call.Principal, By: call.Origin(),
	})
}

// formFile returns the fields of the form in the body of a request with a header, and the file after them.
func formFile(header http.Header, body io.ReadCloser) (fields map[string]string, file *multipart.Part, err error) {
	const fieldBytesMax, fieldsMax = 100, 10
	parts, err := (&http.Request{Header: header, Body: body}).MultipartReader()
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

func (c *Console) downloadRejects(call *server.Call) error {
	return c.api.SendRejects(call, call.PathValue("id"), call.URL.Query().Has("report"))
}

func (c *Console) cancelImport(call *server.Call) error {
	i, err := c.Operations.CancelImport(call.Context(), call.PathValue("id"), call.Principal)
	return redirectAfter(call, err, "/import/"+i.ID)
}
