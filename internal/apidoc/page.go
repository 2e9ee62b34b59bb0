package apidoc

import (
	"bytes"
	_ "embed" // for the templates and the files of the page
	"html/template"
	"path"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The files of a page with a document.
var (
	//go:embed apidoc.css
	Style []byte // text/css; the console builds on its colours and elements

	//go:embed leaf.svg
	Icon []byte // image/svg+xml

	//go:embed document.html
	documentText string

	//go:embed page.html
	pageText string
)

var (
	documentTemplate = template.Must(template.New("document").Funcs(template.FuncMap{
		"lower": strings.ToLower, "kind": statusKind, "component": path.Base, // the last segment of a $ref
	}).Parse(documentText))
	pageTemplate = template.Must(template.New("page").Parse(pageText))
)

// statusKind returns the class of the mark of a status.
func statusKind(status string) string {
	switch n, _ := strconv.Atoi(status); {
	case n >= 500:
		return "bad"
	case n >= 400:
		return "warn"
	}
	return "good"
}

// Server is an address of the API.
type Server struct{ URL, Description string }

// Relative reports whether the URL has no host, so that it depends on the address of the document.
func (s Server) Relative() bool { return strings.HasPrefix(s.URL, "/") }

func (d *Document) writeHTML(root *yaml.Node) error {
	parsed, err := parse(root)
	if err != nil {
		return err
	}
	var body bytes.Buffer
	err = documentTemplate.Execute(&body, parsed)
	d.Title, d.Version, d.Summary = parsed.Info.Title, parsed.Info.Version, parsed.Info.Summary
	d.Servers, d.HTML = parsed.Servers, template.HTML(body.String())
	return err
}

// Page returns a page of the document. prefix is the path of the API without a final slash, below which the page finds
// docs/apidoc.css, docs/leaf.svg, openapi.json and openapi.yaml.
func (d *Document) Page(prefix string) ([]byte, error) {
	var page bytes.Buffer
	err := pageTemplate.Execute(&page, struct {
		*Document
		Prefix string
	}{d, prefix})
	return page.Bytes(), err
}
