// Package apidoc makes the three forms of an OpenAPI 3.1 document from its source in YAML: JSON, YAML and HTML. The
// HTML needs no script.
package apidoc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"plantstore/internal/plant"
)

// Document is an OpenAPI document. All forms have the same content in the same order.
type Document struct {
	JSON []byte // application/json
	YAML []byte // application/yaml, RFC 9512

	Title, Version, Summary string
	Servers                 []Server
	HTML                    template.HTML // the rest of the document, for a page with Style
}

// Server is an address of the API.
type Server struct{ URL, Description string }

// Relative reports whether the URL has no host, so that it depends on the address of the document.
func (s Server) Relative() bool { return strings.HasPrefix(s.URL, "/") }

// Config has the parts of a document that its source in YAML lacks.
type Config struct {
	Values map[string]string // YAML texts by path, such as "servers 0 url"
	Names  map[string]string // texts by their names, which occur in braces in the texts of the source
	Errors []plant.Entry     // the table of these errors is the text of the name errorTable
}

// New returns the document of a source. The same input gives the same bytes.
func New(source []byte, c Config) (*Document, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(source, &root); err != nil {
		return nil, fmt.Errorf("read the API document: %w", err)
	}
	for path, value := range c.Values {
		if err := set(root.Content[0], path, value); err != nil {
			return nil, fmt.Errorf("fill in the API document: %w", err)
		}
	}
	names := []string{"{errorTable}", errorTable(c.Errors)}
	for name, text := range c.Names {
		names = append(names, "{"+name+"}", text)
	}
	replace(&root, strings.NewReplacer(names...))
	d := &Document{}
	var err error
	if d.YAML, err = encodeYAML(&root); err != nil {
		return nil, fmt.Errorf("write the API document in YAML: %w", err)
	}
	if d.JSON, err = encodeJSON(root.Content[0]); err != nil {
		return nil, fmt.Errorf("write the API document in JSON: %w", err)
	}
	if err := d.render(); err != nil {
		return nil, fmt.Errorf("write the API document in HTML: %w", err)
	}
	return d, nil
}

func errorTable(entries []plant.Entry) string {
	var table strings.Builder
	table.WriteString("| error | name | meaning |\n|---|---|---|\n")
	for _, e := range entries {
		fmt.Fprintf(&table, "| %d | %s | %s |\n", e.Code, e.Name, e.Meaning)
	}
	return strings.TrimSuffix(table.String(), "\n")
}

// set replaces the node at a path by the node of a YAML text.
func set(document *yaml.Node, path, value string) error {
	node := find(document, strings.Fields(path))
	if node == nil {
		return fmt.Errorf("the source has no %s", path)
	}
	var parsed yaml.Node
	if err := yaml.Unmarshal([]byte(value), &parsed); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	*node = *parsed.Content[0]
	return nil
}

// find returns the node at a path of keys and indices, or nil.
func find(node *yaml.Node, path []string) *yaml.Node {
	if len(path) == 0 {
		return node
	}
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i < len(node.Content); i += 2 {
			if node.Content[i].Value == path[0] {
				return find(node.Content[i+1], path[1:])
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(path[0]); err == nil && 0 <= i && i < len(node.Content) {
			return find(node.Content[i], path[1:])
		}
	}
	return nil
}

// replace replaces the names in braces, and removes the comments, which are only for readers of the source.
func replace(node *yaml.Node, names *strings.Replacer) {
	node.HeadComment, node.LineComment, node.FootComment = "", "", ""
	if node.Kind == yaml.ScalarNode && node.ShortTag() == "!!str" {
		node.Value = names.Replace(node.Value)
	}
	for _, child := range node.Content {
		replace(child, names)
	}
}

// encodeYAML returns the text of a document in YAML.
func encodeYAML(root *yaml.Node) ([]byte, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	err := errors.Join(encoder.Encode(root), encoder.Close())
	return out.Bytes(), err
}

// encodeJSON encodes the nodes without decoding their values, which would lose the order of the members and round the
// bounds of int64 to floats.
func encodeJSON(node *yaml.Node) ([]byte, error) {
	compact, err := appendNode(nil, node)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, compact, "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

func appendNode(dst []byte, node *yaml.Node) ([]byte, error) {
	switch node.Kind {
	case yaml.MappingNode:
		return appendNodes(dst, node, '{', '}')
	case yaml.SequenceNode:
		return appendNodes(dst, node, '[', ']')
	case yaml.ScalarNode:
		if node.ShortTag() == "!!str" {
			return plant.AppendString(dst, node.Value), nil
		}
		// YAML has forms of null, booleans and numbers that JSON lacks, such as ~, 0x10 and .inf.
		if !json.Valid([]byte(node.Value)) {
			return nil, fmt.Errorf("line %d: %s is not JSON", node.Line, node.Value)
		}
		return append(dst, node.Value...), nil
	default:
		return nil, fmt.Errorf("line %d: JSON has no aliases", node.Line)
	}
}

// appendNodes appends the children of a mapping or a sequence in brackets.
func appendNodes(dst []byte, node *yaml.Node, opening, closing byte) ([]byte, error) {
	dst = append(dst, opening)
	for i, child := range node.Content {
		isValue := node.Kind == yaml.MappingNode && i%2 == 1
		switch {
		case isValue:
			dst = append(dst, ':')
		case i > 0:
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendNode(dst, child); err != nil {
			return nil, err
		}
	}
	return append(dst, closing), nil
}
