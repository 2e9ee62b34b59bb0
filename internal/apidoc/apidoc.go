// Package apidoc makes the three forms of an OpenAPI 3.1 document from its source in YAML: JSON, YAML and HTML, with
// the same content in the same order. The HTML needs no script.
package apidoc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"plantstore/internal/plant"
)

// Source is a document whose source is filled in.
type Source struct{ root yaml.Node }

// Config has the parts of a document that its source in YAML lacks.
type Config struct {
	Values map[string]string // YAML texts by path, such as "servers 0 url"
	Names  map[string]string // texts by their names, which occur in braces in the texts of the source
	Errors []plant.Entry     // the table of these errors is the text of the name errorTable
}

// New fills in a source. The same input gives the same forms, byte by byte.
func New(source []byte, c Config) (*Source, error) {
	s := &Source{}
	if err := yaml.Unmarshal(source, &s.root); err != nil {
		return nil, fmt.Errorf("read the API document: %w", err)
	}
	for path, value := range c.Values {
		if err := set(s.root.Content[0], path, value); err != nil {
			return nil, fmt.Errorf("fill in the API document: %w", err)
		}
	}
	names := []string{"{errorTable}", errorTable(c.Errors)}
	for name, text := range c.Names {
		names = append(names, "{"+name+"}", text)
	}
	replace(&s.root, strings.NewReplacer(names...))
	return s, nil
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

// YAML returns the document as application/yaml (RFC 9512).
func (s *Source) YAML() ([]byte, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(&s.root), encoder.Close()); err != nil {
		return nil, fmt.Errorf("write the API document in YAML: %w", err)
	}
	return out.Bytes(), nil
}

// JSON returns the document as application/json. It encodes the nodes without decoding their values, which would lose
// the order of the members and round the bounds of int64 to floats.
func (s *Source) JSON() ([]byte, error) {
	compact, err := appendNode(nil, s.root.Content[0])
	if err != nil {
		return nil, fmt.Errorf("write the API document in JSON: %w", err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, compact, "", "  "); err != nil {
		return nil, fmt.Errorf("write the API document in JSON: %w", err)
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
