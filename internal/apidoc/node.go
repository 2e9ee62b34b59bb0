package apidoc

import (
	"bytes"
	"encoding/json"
	"html/template"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// node is a part of a document, for the template of its page. A nil node is absent, and has no text and no parts.
type node yaml.Node

// member is a member of an object.
type member struct {
	Name  string
	Value *node
}

// Members returns the members of an object in the order of the document.
func (n *node) Members() (all []member) {
	if n != nil && n.Kind == yaml.MappingNode {
		for pair := range slices.Chunk(n.Content, 2) {
			all = append(all, member{pair[0].Value, (*node)(pair[1])})
		}
	}
	return all
}

// At returns the member at a path of names, or nil.
func (n *node) At(names ...string) *node {
	for _, name := range names {
		members := n.Members()
		i := slices.IndexFunc(members, func(m member) bool { return m.Name == name })
		if i < 0 {
			return nil
		}
		n = members[i].Value
	}
	return n
}

// Items returns the elements of an array.
func (n *node) Items() (all []*node) {
	if n != nil && n.Kind == yaml.SequenceNode {
		for _, item := range n.Content {
			all = append(all, (*node)(item))
		}
	}
	return all
}

// Has reports whether an array has a text.
func (n *node) Has(text string) bool {
	return slices.ContainsFunc(n.Items(), func(item *node) bool { return item.Value == text })
}

// String returns the text of a string, a number or a boolean.
func (n *node) String() string {
	if n == nil {
		return ""
	}
	return n.Value
}

// HTML renders a text with marks of CommonMark.
func (n *node) HTML() template.HTML { return markdown(n.String()).HTML() }

// JSON returns a value as JSON: on one line if it is short, otherwise indented.
func (n *node) JSON() (string, error) {
	const bytesOfLine = 72
	text, err := appendNode(nil, (*yaml.Node)(n))
	if err != nil || len(text) <= bytesOfLine {
		return string(text), err
	}
	var long bytes.Buffer
	err = json.Indent(&long, text, "", "  ")
	return long.String(), err
}

// Ref returns the name of the component that stands in place of the node; empty: none.
func (n *node) Ref() string {
	if ref := n.At("$ref"); ref != nil {
		return path.Base(ref.Value)
	}
	return ""
}

// Rules returns the bounds in a schema as text.
func (n *node) Rules() (rules []string) {
	for _, r := range [][3]string{
		{"minimum", "maximum", ""}, {"minLength", "maxLength", " characters"}, {"minItems", "maxItems", " items"},
	} {
		low, high, unit := n.At(r[0]).String(), n.At(r[1]).String(), r[2]
		switch {
		case low != "" && high != "":
			rules = append(rules, low+" to "+high+unit)
		case low != "":
			rules = append(rules, "at least "+low+unit)
		case high != "":
			rules = append(rules, "at most "+high+unit)
		}
	}
	return rules
}

// group is the operations with a tag.
type group struct {
	Tag        *node
	Operations []operation
}

// operation is an operation with its place in the document.
type operation struct {
	*node

	Method, Path string
}

// Open reports whether the operation requires no credential.
func (o operation) Open() bool {
	security := o.At("security")
	return security != nil && len(security.Content) == 0
}

// groups returns the tags of a document that have an operation.
func (n *node) groups() (all []group) {
	for _, tag := range n.At("tags").Items() {
		g := group{Tag: tag}
		for _, path := range n.At("paths").Members() {
			for _, method := range path.Value.Members() {
				if method.Value.At("tags").Has(tag.At("name").String()) {
					g.Operations = append(g.Operations, operation{method.Value, strings.ToUpper(method.Name), path.Name})
				}
			}
		}
		if len(g.Operations) > 0 {
			all = append(all, g)
		}
	}
	return all
}
