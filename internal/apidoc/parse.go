package apidoc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// openAPI is the part of an OpenAPI 3.1 document that its page shows.
type openAPI struct {
	Info struct {
		Title, Version, Summary string
		Description             markdown
	}
	Servers []Server
	Tags    []struct {
		Name        string
		Description markdown
	}
	Paths      members[members[operation]] // by path and method
	Components struct {
		SecuritySchemes members[struct{ Description markdown }] `yaml:"securitySchemes"`
		Schemas         members[schema]
		Headers         members[header]
		Responses       members[response]
	}

	Groups []group `yaml:"-"` // the tags with an operation
}

// group is the operations of a tag.
type group struct {
	Name        string
	Description markdown
	Operations  []operation
}

// operation is an operation. Method and Path are its keys in the document.
type operation struct {
	Method      string `yaml:"-"`
	Path        string `yaml:"-"`
	OperationID string `yaml:"operationId"`
	Summary     string
	Description markdown
	Tags        []string
	Security    *[]yaml.Node // empty: requires no credential; nil: as the document says
	Parameters  []parameter
	RequestBody *struct {
		Description markdown
		Required    bool
		Content     members[content]
	} `yaml:"requestBody"`
	Responses members[response]
}

// Open reports whether the operation requires no credential.
func (o operation) Open() bool { return o.Security != nil && len(*o.Security) == 0 }

type parameter struct {
	Name, In    string
	Required    bool
	Description markdown
	Schema      schema
	Example     literal
}

// response is a response, or a reference to one of the components.
type response struct {
	Ref         string `yaml:"$ref"`
	Description markdown
	Headers     members[header]
	Content     members[content]
}

type header struct {
	Ref         string `yaml:"$ref"`
	Description markdown
	Schema      schema
	Example     literal
}

type content struct {
	Schema   schema
	Example  literal
	Examples members[struct {
		Summary     string
		Description markdown
		Value       literal
	}]
}

// schema is a JSON Schema, with the keywords that the documents use.
type schema struct {
	Ref                  string `yaml:"$ref"` // within the document
	Type, Format         string
	Description          markdown
	Required             []string
	Properties           members[schema]
	Items                *schema
	OneOf                []schema  `yaml:"oneOf"`
	AdditionalProperties yaml.Node `yaml:"additionalProperties"` // a boolean or a schema
	Enum                 []literal
	Minimum, Maximum     string
	MinLength            string `yaml:"minLength"`
	MaxLength            string `yaml:"maxLength"`
	MinItems             string `yaml:"minItems"`
	MaxItems             string `yaml:"maxItems"`
	Pattern              string
	Default              literal
	Examples             []literal
}

// Requires reports whether an object requires a member.
func (s schema) Requires(name string) bool { return slices.Contains(s.Required, name) }

// Rules returns the bounds of a value as text.
func (s schema) Rules() (rules []string) {
	for _, r := range []struct {
		low, high, unit string
	}{{s.Minimum, s.Maximum, ""}, {s.MinLength, s.MaxLength, " characters"}, {s.MinItems, s.MaxItems, " items"}} {
		switch {
		case r.low != "" && r.high != "":
			rules = append(rules, r.low+" to "+r.high+r.unit)
		case r.low != "":
			rules = append(rules, "at least "+r.low+r.unit)
		case r.high != "":
			rules = append(rules, "at most "+r.high+r.unit)
		}
	}
	return rules
}

// Values returns the schema of the other members of an object; nil without one.
func (s schema) Values() *schema {
	var values schema
	if s.AdditionalProperties.Kind != yaml.MappingNode || s.AdditionalProperties.Decode(&values) != nil {
		return nil // a boolean, or absent
	}
	return &values
}

// literal is a JSON value: on one line if it is short, otherwise indented.
type literal string

// UnmarshalYAML implements yaml.Unmarshaler.
func (l *literal) UnmarshalYAML(node *yaml.Node) error {
	text, err := appendNode(nil, node)
	if err != nil {
		return err
	}
	const bytesOfLine = 72
	if len(text) > bytesOfLine {
		var long bytes.Buffer
		err = json.Indent(&long, text, "", "  ")
		text = long.Bytes()
	}
	*l = literal(text)
	return err
}

type member[T any] struct {
	Name  string
	Value T
}

// members are the members of an object in the order of the document.
type members[T any] []member[T]

// UnmarshalYAML implements yaml.Unmarshaler.
func (m *members[T]) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: the value must be an object", node.Line)
	}
	for pair := range slices.Chunk(node.Content, 2) {
		next := member[T]{Name: pair[0].Value}
		if err := pair[1].Decode(&next.Value); err != nil {
			return err
		}
		*m = append(*m, next)
	}
	return nil
}

// parse reads an OpenAPI document.
func parse(root *yaml.Node) (*openAPI, error) {
	d := &openAPI{}
	if err := root.Decode(d); err != nil {
		return nil, err
	}
	for _, tag := range d.Tags {
		group := group{Name: tag.Name, Description: tag.Description}
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
