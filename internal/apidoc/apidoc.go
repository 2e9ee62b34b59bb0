// Package apidoc makes the three forms of an OpenAPI 3.1 document from its source in YAML: JSON, YAML and HTML, with
// the same content in the same order. The HTML needs no script.
package apidoc

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"strings"

	"go.yaml.in/yaml/v3"

	"plantstore/internal/plant"
)

// Document is an OpenAPI document.
type Document struct {
	JSON []byte // application/json
	YAML []byte // application/yaml (RFC 9512)

	Title, Version, Summary string
	Servers                 []*node
	HTML                    template.HTML // the rest of the document, for a page with Style
}

// New returns the document of a source: it replaces the names in braces by texts, and {errorTable} by a table of
// errors. The same input gives the same forms, byte by byte.
func New(source []byte, texts map[string]string, entries []plant.Entry) (*Document, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(source, &root); err != nil {
		return nil, fmt.Errorf("read the API document: %w", err)
	}
	names := []string{"{errorTable}", errorTable(entries)}
	for name, text := range texts {
		names = append(names, "{"+name+"}", text)
	}
	replace(&root, strings.NewReplacer(names...))
	d := &Document{}
	if err := cmp.Or(d.writeYAML(&root), d.writeJSON(&root), d.writeHTML((*node)(root.Content[0]))); err != nil {
		return nil, fmt.Errorf("write the API document: %w", err)
	}
	return d, nil
}

func errorTable(entries []plant.Entry) string {
	table := []string{"| error | name | meaning |", "|---|---|---|"}
	for _, e := range entries {
		table = append(table, fmt.Sprintf("| %d | %s | %s |", e.Code, e.Name, e.Meaning))
	}
	return strings.Join(table, "\n")
}

// replace replaces the names in braces, and removes the comments, which are only for readers of the source. A text with
// the tag !number becomes a number.
func replace(node *yaml.Node, names *strings.Replacer) {
	node.HeadComment, node.LineComment, node.FootComment = "", "", ""
	if node.Kind == yaml.ScalarNode {
		node.Value = names.Replace(node.Value)
		if node.ShortTag() != "!!str" {
			node.Tag, node.Style = "", 0
		}
	}
	for _, child := range node.Content {
		replace(child, names)
	}
}

func (d *Document) writeYAML(root *yaml.Node) error {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	err := errors.Join(encoder.Encode(root), encoder.Close())
	d.YAML = out.Bytes()
	return err
}

// writeJSON encodes the nodes without decoding their values, which would lose the order of the members and round the
// bounds of int64 to floats.
func (d *Document) writeJSON(root *yaml.Node) error {
	compact, err := appendNode(nil, root.Content[0])
	if err != nil {
		return err
	}
	var out bytes.Buffer
	err = json.Indent(&out, compact, "", "  ")
	out.WriteByte('\n')
	d.JSON = out.Bytes()
	return err
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
		switch {
		case node.Kind == yaml.MappingNode && i%2 == 1: // a value, after its name
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
