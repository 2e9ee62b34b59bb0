package console

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"plantstore/internal/admin"
	"plantstore/internal/auth"
	"plantstore/internal/dump"
	"plantstore/internal/plant"
	"plantstore/internal/server"
)

// importList is the content of the page that starts an import.
type importList struct {
	Creates bool           // the credential may import
	Own     *admin.Import  // the import of the credential that has not ended, so no other one may start
	List    []admin.Import // the newest first
}

// importPage is the content of the page of an import.
type importPage struct {
	admin.Import

	Step    int            // 1 to 4: file, columns, check, import; 0: the import has ended
	Creates bool           // the credential may import
	Columns *importColumns // nil: the page is about another step

	Unreadable string // why the file has no columns; empty: it has, or the page is about another step
}

// importColumns is the start of a file, with the choices of a person.
type importColumns struct {
	dump.Head

	Names     []string // of the columns
	Choices   []string // what each column is: id, name, tag or nothing; nil: the file has JSON
	Encodings []string // for a choice; nil: the file says which one it has

	IDs   string // how the ids are made: column, text or numbers
	First string // the first number
}

func (c *Console) showImports(call *server.Call, fault *plant.Error) error {
	page := importList{
		Creates: call.Principal.Scopes.Has(auth.ScopeCreate), List: c.Operations.Imports(call.Principal),
	}
	for i, one := range page.List {
		if one.Own && one.EndedAt.IsZero() {
			page.Own = &page.List[i]
		}
	}
	v := view{Title: "Import", Content: page, Fault: fault, Address: "/import"}
	return c.render(call, v.status(), "imports", v)
}

// showImport responds with the page of an import. The choices of a form are in the query of the page, or in the form
// that was refused.
func (c *Console) showImport(call *server.Call, fault *plant.Error) error {
	id := call.PathValue("id")
	i, err := c.Operations.ImportOf(id, call.Principal)
	if err != nil {
		return err
	}
	page := importPage{Import: i, Creates: call.Principal.Scopes.Has(auth.ScopeCreate), Step: stepOf[i.State]}
	choices := call.URL.Query()
	if fault != nil {
		choices = call.Form
	}
	if i.State == admin.ImportReady || i.State == admin.ImportChecked && choices.Has("columns") {
		page.Step = stepOf[admin.ImportReady]
		if head, err := c.lookAt(call, choices); err == nil {
			columns := columnsOf(head, choices)
			page.Columns = &columns
		} else if e, ok := errors.AsType[*plant.Error](err); ok {
			page.Unreadable = e.Message
		}
	}
	v := view{Title: "Import", Content: page, Fault: fault, Address: "/import/" + id}
	v.Refresh = i.EndedAt.IsZero() && i.State != admin.ImportReady && i.State != admin.ImportChecked
	return c.render(call, v.status(), "import", v)
}

// lookAt returns the start of the file of an import, by the choices of a form; without them, as the last check has read
// it. A file that is not UTF-8 is most likely from an old Windows.
func (c *Console) lookAt(call *server.Call, choices url.Values) (head dump.Head, err error) {
	look := func(o *dump.Options) (dump.Head, error) {
		return c.Operations.LookAt(call.Context(), call.PathValue("id"), call.Principal, o)
	}
	if choices.Has("encoding") {
		return look(&dump.Options{Encoding: choices.Get("encoding")})
	}
	head, err = look(nil)
	for _, row := range append(head.Rows, head.Found.Header) {
		if !utf8.ValidString(strings.Join(row, "")) {
			return look(&dump.Options{Encoding: "windows-1252"})
		}
	}
	return head, err
}

// columnsOf returns the columns of a file with the choices of a form, or the ones that were found.
func columnsOf(head dump.Head, choices url.Values) importColumns {
	c := importColumns{Head: head, Names: head.Found.Header, IDs: "column", First: "1"}
	if all := append([]string{utf8Name}, dump.Encodings()...); slices.Contains(all, head.Found.Encoding) {
		c.Encodings = all
	}
	if c.Names == nil {
		c.Names = []string{"Id", "Name", "Tag"}
		return c
	}
	for _, name := range c.Names {
		c.Choices = append(c.Choices, choiceOf(head.Found, name))
	}
	if first := head.Found.NumberFrom; first != nil {
		c.IDs, c.First = "numbers", strconv.FormatInt(*first, 10)
	} else if len(head.Found.IDFrom) > 0 {
		c.IDs = "text"
	}
	if choices.Has("column") {
		c.IDs, c.First = choices.Get("ids"), choices.Get("first")
		copy(c.Choices, choices["column"])
	}
	return c
}

const utf8Name = "UTF-8"

// choiceOf returns what a column of a file is.
func choiceOf(f dump.Found, column string) string {
	for _, ours := range []string{"name", "tag", "id"} {
		if theirs, ok := f.Columns[ours]; ok && theirs == column {
			return ours
		}
	}
	if slices.Contains(f.IDFrom, column) {
		return "id"
	}
	return ""
}

// Kind says what kind of file it is.
func (c importColumns) Kind() string {
	kind := map[dump.Format]string{dump.JSONL: "JSON Lines", dump.JSON: "JSON"}[c.Found.Format]
	if c.Found.Format == dump.CSV {
		kind = "a table with " + separators[c.Found.Separator] + " between the cells"
	}
	if c.Found.Compression != dump.None {
		kind += ", compressed with " + string(c.Found.Compression)
	}
	if c.Encodings != nil && c.Found.Encoding != utf8Name { // no file says that it has such an encoding
		return kind + ", probably in " + c.Found.Encoding
	}
	return kind + ", in " + c.Found.Encoding
}

var separators = map[string]string{",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}

// stepOf is the step of a person by the state of an import; those without a step have ended.
var stepOf = map[string]int{
	admin.ImportReceiving: 1, admin.ImportReady: 2, admin.ImportChecking: 3, admin.ImportChecked: 3, admin.JobRunning: 4,
}

// serveImport responds with the state of an import for the script.
func (c *Console) serveImport(call *server.Call) error {
	i, err := c.Operations.ImportOf(call.PathValue("id"), call.Principal)
	if err != nil {
		return err
	}
	return call.Respond(i)
}

// keepFile keeps the file of a form, and leads to the page of its import.
func (c *Console) keepFile(call *server.Call) error {
	upload, err := c.api.Upload(call)
	if err != nil {
		return err
	}
	defer upload.End()
	head := upload.Within(upload)(call.Context()) // the end of the credential ends the reads
	file, err := formFile(call.Request.Header, head)
	_ = head.Close() // the import ends the reads of the file
	if err != nil {
		return err
	}
	i, err := c.Operations.KeepFile(call.Context(), admin.NewImport{
		ID: rand.Text()[:8], Name: file.FileName(), File: upload.Within(file), Received: upload.Received,
		Principal: call.Principal, By: call.Origin(), Bytes: call.ContentLength,
	})
	return redirectAfter(call, err, "/import/"+i.ID)
}

// formFile returns the file of the form in the body of a request with a header.
func formFile(header http.Header, body io.ReadCloser) (*multipart.Part, error) {
	parts, err := (&http.Request{Header: header, Body: body}).MultipartReader()
	if err != nil {
		return nil, plant.Errorf(plant.CodeMediaType, "the body must be a form of the type multipart/form-data")
	}
	part, err := parts.NextPart()
	switch {
	case err != nil: // the client receives a *plant.Error of err, otherwise the other one
		return nil, errors.Join(err, plant.InvalidInput("the form must have a file"))
	case part.FormName() != "file" || part.FileName() == "":
		return nil, plant.InvalidInput("choose a file")
	}
	return part, nil
}

func (c *Console) checkImport(call *server.Call) error {
	id := call.PathValue("id")
	head, err := c.lookAt(call, call.Form)
	if err != nil {
		return err
	}
	options, err := optionsOf(call.Form, head.Found)
	if err != nil {
		return err
	}
	_, err = c.Operations.CheckImport(id, c.importStep(call), options)
	return redirectAfter(call, err, "/import/"+id)
}

func (c *Console) startImport(call *server.Call) error {
	id := call.PathValue("id")
	check, _ := strconv.ParseInt(call.Form.Get("check"), 10, 64) // 0 is no check
	_, err := c.Operations.StartImport(id, c.importStep(call), check)
	return redirectAfter(call, err, "/import/"+id)
}

// importStep returns the step that a person asks for. It lasts longer than the request, and as long as the credential
// of the session is valid.
func (c *Console) importStep(call *server.Call) admin.ImportStep {
	found, _ := c.sessions.find(c.cookieOf(call.Request), c.now()) // the server has found it too
	return admin.ImportStep{
		Principal: call.Principal, By: call.Origin(),
		Valid: func(ctx context.Context) error { return c.valid(ctx, found) },
	}
}

// valid returns an error if the credential of a session is no longer valid, even after a sign-out.
func (c *Console) valid(ctx context.Context, s session) error {
	_, err := c.principal(ctx, s, func(credential string) (auth.Principal, error) {
		return c.WritePath.AuthenticateKnown(ctx, credential)
	})
	if err == nil && !s.isOpen(c.now()) {
		err = plant.Errorf(plant.CodeCredentialInvalid, "the session has ended")
	}
	if err != nil {
		return server.CredentialEnded(err)
	}
	return nil
}

// optionsOf returns the choices of a form for a file.
func optionsOf(form url.Values, found dump.Found) (dump.Options, error) {
	o := dump.Options{Format: found.Format, Encoding: form.Get("encoding")}
	header := found.Header
	if header == nil {
		return o, nil
	}
	var ids []string
	o.Columns = map[string]string{"tag": ""}
	for i, choice := range form["column"] {
		if i >= len(header) || choice == "" {
			continue
		}
		if choice == "id" {
			ids = append(ids, header[i])
			continue
		}
		if o.Columns[choice] != "" {
			return o, plant.InvalidInput("two columns are the %s: %q and %q; choose one", choice, o.Columns[choice], header[i])
		}
		o.Columns[choice] = header[i]
	}
	if o.Columns["name"] == "" {
		return o, plant.InvalidInput("no column is the name; choose one")
	}
	switch from := form.Get("ids"); {
	case from == "numbers":
		first, err := strconv.ParseInt(strings.TrimSpace(form.Get("first")), 10, 64)
		if err != nil {
			return o, plant.InvalidInput("the first number must be a whole number such as 1000; got %.40q", form.Get("first"))
		}
		o.NumberFrom = &first
	case from == "text" && len(ids) > 0:
		o.IDFrom = ids
	case from == "text":
		o.IDFrom = []string{o.Columns["name"]}
	case len(ids) != 1:
		return o, plant.InvalidInput("%d columns are the id; choose one, or another way to make the ids", len(ids))
	default:
		o.Columns["id"] = ids[0]
	}
	return o, nil
}

// importTone returns the class of the state of an import: its colour.
func importTone(i admin.Import) string {
	switch {
	case i.State == admin.JobComplete && i.Rejected() == 0:
		return "good"
	case i.State == admin.JobRunning, i.State == admin.JobComplete && i.Created+i.Existing > 0:
		return "warn"
	case i.EndedAt.IsZero():
		return "off"
	}
	return "bad"
}

// importResult returns the outcome of an import or a check in a few words, such as "3 stored, 8 not".
func importResult(i admin.Import) string {
	created, rejected := " stored", " not"
	if i.EndedAt.IsZero() {
		created, rejected = " new", " with a fault"
	}
	text := formatCount(float64(i.Created)) + created
	if i.Existing > 0 {
		text += ", " + formatCount(float64(i.Existing)) + " already here"
	}
	if i.Rejected() > 0 {
		text += ", " + formatCount(float64(i.Rejected())) + rejected
	}
	return text
}

func (c *Console) downloadRejects(call *server.Call) error {
	return c.api.SendRejects(call, call.PathValue("id"), call.URL.Query().Has("report"))
}

func (c *Console) cancelImport(call *server.Call) error {
	i, err := c.Operations.CancelImport(call.Context(), call.PathValue("id"), call.Principal)
	return redirectAfter(call, err, "/import/"+i.ID)
}
