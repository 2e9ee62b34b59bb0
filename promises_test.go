package plantstore_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// The promises of the program, a line each. A function that finds nothing fails the test: its page has changed.

// rows returns the cells of the tables of a Markdown text, without backquotes. A row follows the header of its table.
func rows(text string) (found [][]string) {
	for line := range strings.Lines(text) {
		line = strings.ReplaceAll(strings.TrimSpace(line), "`", "")
		if strings.HasPrefix(line, "| ") && strings.HasSuffix(line, "|") {
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			found = append(found, cells)
		}
	}
	return found
}

// some fails the test without promises.
func some(t *testing.T, source string, promises []string) []string {
	t.Helper()
	if len(promises) == 0 {
		t.Fatalf("found nothing in %s", source)
	}
	return promises
}

// promise joins the words of a promise; an empty word becomes a dash.
func promise(words ...string) string {
	for i, word := range words {
		if word == "" {
			words[i] = "-"
		}
	}
	return strings.Join(words, " ")
}

func errorPromises(t *testing.T) (promises []string) {
	t.Helper()
	const page = "docs/reference/errors.md"
	number := regexp.MustCompile(`^\d{5}$`)
	for _, row := range rows(read(t, page)) {
		if number.MatchString(row[0]) {
			promises = append(promises, promise("error", row[0], row[1]))
		}
	}
	return some(t, page, promises)
}

func settingPromises(t *testing.T) (promises []string) {
	t.Helper()
	const page = "docs/reference/settings.md"
	for _, row := range rows(read(t, page)) {
		if name, isSetting := strings.CutPrefix(row[0], "--"); isSetting {
			promises = append(promises, promise("setting", name))
		}
	}
	return some(t, page, promises)
}

// commandPromises has the commands of the page, and the flags of each, with those of a server if it links them.
func commandPromises(t *testing.T) (promises []string) {
	t.Helper()
	const page = "docs/reference/commands.md"
	list, server, _ := strings.Cut(strings.Join(strings.Fields(read(t, page)), " "), "## Server flags")
	flag := regexp.MustCompile("`(-[^`]+)`")
	for _, item := range strings.Split(list, "- **`")[1:] {
		command, text, _ := strings.Cut(item, "`**: ")
		promises = append(promises, promise("command", command))
		_, text, _ = strings.Cut(text, " Flags: ")
		if strings.Contains(text, "(#server-flags)") {
			text += server
		}
		for _, name := range flag.FindAllStringSubmatch(text, -1) {
			promises = append(promises, promise("flag", command, name[1]))
		}
	}
	return some(t, page, promises)
}

// clientPromises has the exported declarations of the Go client.
func clientPromises(t *testing.T) (promises []string) {
	t.Helper()
	paths, err := filepath.Glob("client/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			promises = append(promises, exported(d)...)
		}
	}
	return some(t, "client", promises)
}

// exported returns the promises of a declaration.
func exported(d ast.Decl) (promises []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			receiver := types.ExprString(d.Recv.List[0].Type)
			if !ast.IsExported(strings.TrimLeft(receiver, "*")) {
				return nil
			}
			name = "(" + receiver + ")." + name
		}
		if d.Name.IsExported() {
			promises = append(promises, promise("client", "func", name+signature(d.Type)))
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range s.Names {
					if name.IsExported() {
						promises = append(promises, promise("client", d.Tok.String(), name.Name))
					}
				}
			case *ast.TypeSpec:
				promises = append(promises, exportedType(s)...)
			}
		}
	}
	return promises
}

// exportedType returns the promises of a type: its name, and the exported fields of a struct.
func exportedType(s *ast.TypeSpec) (promises []string) {
	if !s.Name.IsExported() {
		return nil
	}
	promises = append(promises, promise("client", "type", s.Name.Name))
	fields, ok := s.Type.(*ast.StructType)
	if !ok {
		return promises
	}
	for _, field := range fields.Fields.List {
		for _, name := range field.Names {
			if name.IsExported() {
				promises = append(promises, promise("client", "field", s.Name.Name+"."+name.Name, types.ExprString(field.Type)))
			}
		}
	}
	return promises
}

// signature returns the types of the parameters and results.
func signature(f *ast.FuncType) string {
	bare := func(list *ast.FieldList) *ast.FieldList {
		if list == nil {
			return nil
		}
		without := &ast.FieldList{}
		for _, field := range list.List {
			for range max(1, len(field.Names)) {
				without.List = append(without.List, &ast.Field{Type: field.Type})
			}
		}
		return without
	}
	return strings.TrimPrefix(types.ExprString(&ast.FuncType{Params: bare(f.Params), Results: bare(f.Results)}), "func")
}

// object is a mapping of an API document.
type object = map[string]any

// documentPromises has the operations of the API document with their parameters and with the statuses and headers of
// their responses, and the members of its schemas.
func documentPromises(t *testing.T) (promises []string) {
	t.Helper()
	const path = "internal/server/openapi.yaml"
	var d object
	if err := yaml.Unmarshal([]byte(read(t, path)), &d); err != nil {
		t.Fatal(err)
	}
	for path, item := range d["paths"].(object) {
		for method, operation := range item.(object) {
			operation, ok := operation.(object)
			if !ok || operation["operationId"] == nil {
				continue
			}
			promises = append(promises, operationPromises(d, strings.ToUpper(method)+" "+path, operation)...)
		}
	}
	for name, schema := range d["components"].(object)["schemas"].(object) {
		promises = append(promises, memberPromises(name, schema.(object))...)
	}
	return some(t, path, promises)
}

func operationPromises(d object, name string, operation object) (promises []string) {
	parameters, _ := operation["parameters"].([]any)
	for _, p := range parameters {
		p := resolve(d, p)
		promises = append(promises, promise("parameter", name, p["in"].(string), p["name"].(string)))
	}
	for status, response := range operation["responses"].(object) {
		promises = append(promises, promise("response", name, status))
		headers, _ := resolve(d, response)["headers"].(object)
		for header := range headers {
			promises = append(promises, promise("response-header", name, status, header))
		}
	}
	return promises
}

// resolve follows a reference inside the document.
func resolve(d object, value any) object {
	o := value.(object)
	if ref, ok := o["$ref"].(string); ok {
		o = d
		for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			o = o[part].(object)
		}
	}
	return o
}

// memberPromises has the members of a schema, and those of the objects inside it.
func memberPromises(path string, schema object) (promises []string) {
	members, _ := schema["properties"].(object)
	for name, member := range members {
		member := member.(object)
		kind, _ := member["type"].(string)
		if ref, ok := member["$ref"].(string); ok {
			kind = filepath.Base(ref)
		}
		promises = append(promises, promise("member", path+"."+name, kind))
		promises = append(promises, memberPromises(path+"."+name, member)...)
	}
	if items, ok := schema["items"].(object); ok {
		promises = append(promises, memberPromises(path+"[]", items)...)
	}
	return promises
}
