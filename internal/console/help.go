package console

import (
	"bytes"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"

	"plantstore/docs/runbooks"
	"plantstore/internal/plant"
	"plantstore/internal/server"
)

// help is the content of a page of the help: a runbook, or the list of them.
type help struct {
	Title string
	HTML  template.HTML // empty: the list
	All   []link
}

func (c *Console) showHelp(call *server.Call) error {
	files, _ := fs.Glob(runbooks.Files, "*.md") // the pattern is valid
	content := help{Title: "What to do"}
	for _, file := range files {
		id := strings.TrimSuffix(file, ".md")
		content.All = append(content.All, link{titleOf(id), "/help/" + id})
	}
	return c.render(call, http.StatusOK, "help", view{Title: content.Title, Content: content})
}

func (c *Console) showRunbook(call *server.Call) error {
	id := call.PathValue("id")
	source, err := runbooks.Files.ReadFile(id + ".md") // which has no other directory
	if err != nil {
		return plant.Errorf(plant.CodeNotFound, "there is no help of this name; /help lists all")
	}
	rendered, err := renderRunbook(source)
	if err != nil {
		return err
	}
	content := help{titleOf(id), rendered, nil}
	return c.render(call, http.StatusOK, "help", view{Title: content.Title, Content: content})
}

// titleOf returns the title of a runbook: Backups fail.
func titleOf(id string) string {
	title := strings.ToUpper(id[:1]) + strings.ReplaceAll(id[1:], "-", " ")
	return strings.Replace(title, "Wal ", "WAL ", 1)
}

// renderRunbook returns the HTML of a runbook without its heading. A link to another runbook leads to its page here;
// the program does not have the other pages, so their links become their names.
func renderRunbook(source []byte) (template.HTML, error) {
	markdown := goldmark.New() // which omits raw HTML
	document := markdown.Parser().Parse(text.NewReader(source))
	var links []*ast.Link
	err := ast.Walk(document, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if l, ok := n.(*ast.Link); ok && entering {
			links = append(links, l)
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return "", err
	}
	for _, l := range links {
		target := string(l.Destination)
		switch name, _, _ := strings.Cut(target, "#"); {
		case strings.HasPrefix(target, "https://"):
		case strings.HasSuffix(name, ".md") && !strings.Contains(name, "/"):
			l.Destination = []byte("/help/" + strings.TrimSuffix(name, ".md"))
		default:
			for child := l.FirstChild(); child != nil; child = l.FirstChild() {
				l.Parent().InsertBefore(l.Parent(), l, child)
			}
			l.Parent().ReplaceChild(l.Parent(), l, ast.NewString([]byte(" ("+path.Join("docs/runbooks", name)+")")))
		}
	}
	if heading := document.FirstChild(); heading != nil && heading.Kind() == ast.KindHeading {
		document.RemoveChild(document, heading)
	}
	var out bytes.Buffer
	if err := markdown.Renderer().Render(&out, source, document); err != nil {
		return "", err
	}
	// A wide block scrolls, so the keyboard must reach it.
	return template.HTML(strings.ReplaceAll(out.String(), "<pre>", `<pre tabindex="0">`)), nil
}
