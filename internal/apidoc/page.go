package apidoc

import (
	"bytes"
	_ "embed" // for the templates and the files of the page
	"html/template"
	"regexp"
	"strconv"
	"strings"
	"unicode"
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
		"breaks": Breaks, "lower": strings.ToLower, "kind": statusKind,
	}).Parse(documentText))
	pageTemplate = template.Must(template.New("page").Parse(pageText))
)

var flagPattern = regexp.MustCompile(`--[a-z][a-z0-9-]{1,40}\b`)

// Breaks returns the HTML of a text with the places where a line of it may end: after punctuation, and in long runs
// without any, but not in the name of a flag. The element around it has the class breaks.
func Breaks(text string) template.HTML {
	var out strings.Builder
	end := 0
	for _, at := range flagPattern.FindAllStringIndex(text, -1) {
		writeBreaks(&out, text[end:at[0]])
		out.WriteString(`<span class="flag">` + text[at[0]:at[1]] + "</span>")
		end = at[1]
	}
	writeBreaks(&out, text[end:])
	return template.HTML(out.String())
}

func writeBreaks(out *strings.Builder, text string) {
	const runMin, runMax = 3, 16 // characters between two places
	const punctuation = "/.:,;?&=-_@+#%"
	run, last := 0, ' '
	for _, r := range text {
		inNumber := unicode.IsDigit(r) && strings.ContainsRune(".,:", last)
		after := strings.ContainsRune(punctuation, last) && !strings.ContainsRune(punctuation, r) && !inNumber
		if (after && run >= runMin || run >= runMax) && !unicode.IsMark(r) && !unicode.IsSpace(r) {
			out.WriteString("<wbr>")
			run = 0
		}
		out.WriteString(template.HTMLEscapeString(string(r)))
		run, last = run+1, r
		if unicode.IsSpace(r) {
			run = 0
		}
	}
}

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

func (d *Document) writeHTML(root *node) error {
	d.Title, d.Version = root.At("info", "title").String(), root.At("info", "version").String()
	d.Summary, d.Servers = root.At("info", "summary").String(), root.At("servers").Items()
	var body bytes.Buffer
	err := documentTemplate.Execute(&body, struct {
		*node
		Groups []group
	}{root, root.groups()})
	d.HTML = template.HTML(body.String())
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
