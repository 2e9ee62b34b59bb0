package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"
)

// apiDocument is the part of an OpenAPI 3.1 document that its page shows. The order of the
// members is that of the document.
type apiDocument struct {
	Info struct {
		Title, Version, Summary string
		Description             markdown
	}
	Servers []struct{ URL string }
	Tags    []struct {
		Name        string
		Description markdown
	}
	Paths      members[members[apiOperation]] // by path and method
	Components struct {
		SecuritySchemes members[struct{ Description markdown }]
		Schemas         members[apiSchema]
		Headers         members[apiHeader]
		Responses       members[apiResponse]
	}

	Groups []apiGroup `json:"-"` // of the tags, without those that have no operation
}

// apiGroup is the operations of a tag.
type apiGroup struct {
	Name        string
	Description markdown
	Operations  []apiOperation
}

// apiOperation is an operation. Method and Path are those under which the document has it.
type apiOperation struct {
	Method      string `json:"-"`
	Path        string `json:"-"`
	OperationID string
	Summary     string
	Description markdown
	Tags        []string
	Security    *[]json.RawMessage // empty: requires no credential; nil: that of the document
	Parameters  []apiParameter
	RequestBody *struct {
		Description markdown
		Required    bool
		Content     members[apiContent]
	}
	Responses members[apiResponse]
}

// Open reports whether the operation requires no credential.
func (o apiOperation) Open() bool { return o.Security != nil && len(*o.Security) == 0 }

type apiParameter struct {
	Name, In    string
	Required    bool
	Description markdown
	Schema      apiSchema
	Example     literal
}

// apiResponse is a response, or a reference to one of the components.
type apiResponse struct {
	Ref         componentName `json:"$ref"`
	Description markdown
	Headers     members[apiHeader]
	Content     members[apiContent]
}

type apiHeader struct {
	Ref         componentName `json:"$ref"`
	Description markdown
	Required    bool
	Schema      apiSchema
	Example     literal
}

type apiContent struct {
	Schema   apiSchema
	Example  literal
	Examples members[struct {
		Summary string
		Value   literal
	}]
}

// apiSchema is a JSON Schema with the keywords that the documents use.
type apiSchema struct {
	Ref                  componentName `json:"$ref"`
	Type, Format         string
	Description          markdown
	Required             []string
	Properties           members[apiSchema]
	Items                *apiSchema
	OneOf                []apiSchema
	AdditionalProperties json.RawMessage // a boolean or a schema
	Enum                 []literal
	Minimum, Maximum     json.Number
	MinLength, MaxLength json.Number
	MinItems, MaxItems   json.Number
	Pattern              string
	Default              literal
	Examples             []literal
}

// Requires reports whether an object requires a member.
func (s apiSchema) Requires(name string) bool { return slices.Contains(s.Required, name) }

// Rules returns the bounds of a value as text.
func (s apiSchema) Rules() (rules []string) {
	for _, r := range []struct {
		low, high json.Number
		unit      string
	}{{s.Minimum, s.Maximum, ""}, {s.MinLength, s.MaxLength, " characters"}, {s.MinItems, s.MaxItems, " items"}} {
		switch {
		case r.low != "" && r.high != "":
			rules = append(rules, r.low.String()+" to "+r.high.String()+r.unit)
		case r.low != "":
			rules = append(rules, "at least "+r.low.String()+r.unit)
		case r.high != "":
			rules = append(rules, "at most "+r.high.String()+r.unit)
		}
	}
	return rules
}

// Values returns the schema of the other members of an object; nil without one.
func (s apiSchema) Values() *apiSchema {
	var values apiSchema
	if len(s.AdditionalProperties) == 0 || json.Unmarshal(s.AdditionalProperties, &values) != nil {
		return nil // a boolean is no schema
	}
	return &values
}

// componentName is a $ref within the document. Its text is the last segment, the name of the component.
type componentName string

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *componentName) UnmarshalText(text []byte) error {
	*r = componentName(text[bytes.LastIndexByte(text, '/')+1:])
	return nil
}

// literal is a value of JSON, indented if it has several lines.
type literal string

// UnmarshalJSON implements json.Unmarshaler.
func (l *literal) UnmarshalJSON(text []byte) error {
	var short, long bytes.Buffer
	if err := json.Compact(&short, text); err != nil {
		return err
	}
	if err := json.Indent(&long, text, "", "  "); err != nil {
		return err
	}
	const bytesOfLine = 72
	if *l = literal(short.String()); short.Len() > bytesOfLine {
		*l = literal(long.String())
	}
	return nil
}

// member is a member of an object.
type member[T any] struct {
	Name  string
	Value T
}

// members are the members of an object in their order, which a map of Go has not.
type members[T any] []member[T]

// UnmarshalJSON implements json.Unmarshaler.
func (m *members[T]) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if opening, err := d.Token(); err != nil {
		return err
	} else if opening != json.Delim('{') {
		return fmt.Errorf("value must be an object; got %v", opening)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		next := member[T]{Name: name.(string)} // the decoder accepts no other name
		if err := d.Decode(&next.Value); err != nil {
			return err
		}
		*m = append(*m, next)
	}
	return nil
}

// parseDocument reads an OpenAPI document in JSON.
func parseDocument(text []byte) (*apiDocument, error) {
	d := &apiDocument{}
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("read the API document: %w", err)
	}
	for _, tag := range d.Tags {
		group := apiGroup{Name: tag.Name, Description: tag.Description}
		for _, path := range d.Paths {
			for _, method := range path.Value {
				operation := method.Value
				operation.Method, operation.Path = strings.ToUpper(method.Name), path.Name
				if slices.Contains(operation.Tags, tag.Name) {
					group.Operations = append(group.Operations, operation)
				}
			}
		}
		if len(group.Operations) > 0 {
			d.Groups = append(d.Groups, group)
		}
	}
	return d, nil
}

// markdown is a text of a document in the part of CommonMark that the documents use:
// paragraphs, fenced code, tables, `code` and **strong** text. It renders other text as it is.
type markdown string

// HTML renders the text.
func (m markdown) HTML() template.HTML {
	var b strings.Builder
	lines := strings.Split(strings.TrimSpace(string(m)), "\n")
	for len(lines) > 0 {
		lines = renderBlock(&b, lines)
	}
	return template.HTML(b.String())
}

// renderBlock renders the block at the begin of the lines, and returns the lines after it.
func renderBlock(b *strings.Builder, lines []string) (rest []string) {
	end := func(last func(string) bool) int {
		if i := slices.IndexFunc(lines[1:], last); i >= 0 {
			return i + 1
		}
		return len(lines)
	}
	switch first := lines[0]; {
	case strings.TrimSpace(first) == "":
		return lines[1:]
	case strings.HasPrefix(first, "```"):
		n := end(func(l string) bool { return strings.HasPrefix(l, "```") })
		b.WriteString("<pre>" + template.HTMLEscapeString(strings.Join(lines[1:n], "\n")) + "</pre>")
		return lines[min(n+1, len(lines)):]
	case strings.HasPrefix(first, "|"):
		n := end(func(l string) bool { return !strings.HasPrefix(l, "|") })
		renderTable(b, lines[:n])
		return lines[n:]
	}
	n := end(func(l string) bool {
		return strings.TrimSpace(l) == "" || strings.HasPrefix(l, "```") || strings.HasPrefix(l, "|")
	})
	b.WriteString("<p>" + renderSpan(strings.Join(lines[:n], " ")) + "</p>")
	return lines[n:]
}

// renderTable renders a table, whose second line separates its head.
func renderTable(b *strings.Builder, lines []string) {
	b.WriteString(`<div class="table"><table>`)
	for i, line := range lines {
		open, end := "<td>", "</td>"
		switch i {
		case 0:
			open, end = `<th scope="col">`, "</th>"
			b.WriteString("<thead>")
		case 1:
			b.WriteString("</thead><tbody>")
			continue
		}
		b.WriteString("<tr>")
		for _, cell := range strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|") {
			b.WriteString(open + renderSpan(strings.TrimSpace(cell)) + end)
		}
		b.WriteString("</tr>")
	}
	b.WriteString("</tbody></table></div>")
}

// renderSpan renders the code and the strong text of a paragraph or a cell.
func renderSpan(text string) string {
	var b strings.Builder
	for i, part := range strings.Split(text, "`") {
		if i%2 == 1 {
			b.WriteString("<code>" + template.HTMLEscapeString(part) + "</code>")
			continue
		}
		for k, words := range strings.Split(part, "**") {
			if k%2 == 1 {
				words = "<strong>" + template.HTMLEscapeString(words) + "</strong>"
			} else {
				words = template.HTMLEscapeString(words)
			}
			b.WriteString(words)
		}
	}
	return b.String()
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
