package server

import (
	"bytes"
	_ "embed" // for openapi.yaml
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"plantstore/internal/plant"
)

//go:embed openapi.yaml
var documentSource []byte

// Document is the API document of the public listener, OpenAPI 3.1, in both forms
// that it is served in. Both have the same content in the same order.
type Document struct {
	YAML []byte // application/yaml, RFC 9512
	JSON []byte // application/json
}

// DocumentLimits are the limits in force, which the document tells.
type DocumentLimits struct {
	BodyMax        int64 // bytes
	HeaderMax      int   // bytes
	RequestTimeout time.Duration
	AnswerTimeout  time.Duration
	QueueMax       int // plants that wait to be stored
}

// NewDocument returns the document of a store that is reached at baseURL, an
// absolute URL, and has these limits. If the URL is only a guess, the document
// names its server relative to itself, so that it is right from wherever it
// was read. The same input gives the same bytes.
func NewDocument(baseURL *url.URL, guessed bool, limits DocumentLimits) (Document, error) {
	if baseURL.Scheme == "" || baseURL.Host == "" {
		return Document{}, fmt.Errorf("the base URL %q has no scheme or no host", baseURL.Redacted())
	}
	var root yaml.Node
	if err := yaml.Unmarshal(documentSource, &root); err != nil {
		return Document{}, fmt.Errorf("read openapi.yaml: %w", err)
	}
	if err := fillIn(root.Content[0], baseURL, guessed, limits); err != nil {
		return Document{}, fmt.Errorf("fill in openapi.yaml: %w", err)
	}
	var document Document
	var err error
	if document.YAML, err = renderYAML(&root); err != nil {
		return Document{}, fmt.Errorf("write openapi.yaml: %w", err)
	}
	if document.JSON, err = renderJSON(root.Content[0]); err != nil {
		return Document{}, fmt.Errorf("write openapi.json: %w", err)
	}
	return document, nil
}

// fillIn puts what is a setting in its places.
func fillIn(document *yaml.Node, baseURL *url.URL, guessed bool, limits DocumentLimits) error {
	// Without credentials, query and fragment, should it have any; paths begin with a slash, so the server ends without.
	path := strings.TrimRight(baseURL.EscapedPath(), "/")
	base := baseURL.Scheme + "://" + baseURL.Host + path
	server := base
	if guessed {
		server = path + "/"
	}
	for _, value := range []struct {
		path string
		text string
	}{
		{"servers 0 url", server},
		{"paths /plants post x-limits bodyBytesMax", strconv.FormatInt(limits.BodyMax, 10)},
		{"paths /plants post x-limits headerBytesMax", strconv.Itoa(limits.HeaderMax)},
		{"paths /plants post x-limits requestTimeoutSeconds", secondsText(limits.RequestTimeout)},
		{"paths /plants post x-limits answerTimeoutSeconds", secondsText(limits.AnswerTimeout)},
		{"paths /plants post x-limits queueMax", strconv.Itoa(limits.QueueMax)},
	} {
		node := find(document, strings.Fields(value.path)...)
		if node == nil {
			return errors.New("there is no " + value.path)
		}
		node.Value, node.Tag = value.text, "" // the type follows from the text, as in the source
	}
	examples := find(document, strings.Fields("components schemas Error properties error examples")...)
	if examples == nil {
		return errors.New("the Error schema has no examples of error")
	}
	for _, e := range publicErrors() {
		examples.Content = append(examples.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: strconv.Itoa(int(e.Code))})
	}
	replace(document, strings.NewReplacer(
		"{baseURL}", base,
		"{bodyBytesMax}", sizeText(limits.BodyMax),
		"{bodyBytes}", strconv.FormatInt(limits.BodyMax, 10),
		"{headerBytesMax}", sizeText(int64(limits.HeaderMax)),
		"{requestTimeout}", limits.RequestTimeout.String(),
		"{answerTimeout}", limits.AnswerTimeout.String(),
		"{queueMax}", strconv.Itoa(limits.QueueMax),
		"{errorTable}", errorTable(),
	))
	return nil
}

// publicErrors returns the part of the catalogue that the public listener
// answers with. It is in the document as a table and as examples, not as an
// enum: a number that is added later must not break a client that was
// generated from an earlier document.
func publicErrors() []plant.Entry {
	return slices.DeleteFunc(plant.Catalogue(), func(e plant.Entry) bool { return e.Code.AdminOnly() })
}

func errorTable() string {
	var table strings.Builder
	table.WriteString("| error | name | meaning |\n|---|---|---|\n")
	for _, e := range publicErrors() {
		fmt.Fprintf(&table, "| %d | %s | %s |\n", e.Code, e.Name, e.Meaning)
	}
	return strings.TrimSuffix(table.String(), "\n")
}

func secondsText(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64)
}

// find returns the node under a path of keys and indices, or nil.
func find(node *yaml.Node, path ...string) *yaml.Node {
	if len(path) == 0 {
		return node
	}
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i < len(node.Content); i += 2 {
			if node.Content[i].Value == path[0] {
				return find(node.Content[i+1], path[1:]...)
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(path[0]); err == nil && 0 <= i && i < len(node.Content) {
			return find(node.Content[i], path[1:]...)
		}
	}
	return nil
}

// replace fills in the names in braces, and drops the comments, which are for
// those who edit the source.
func replace(node *yaml.Node, names *strings.Replacer) {
	node.HeadComment, node.LineComment, node.FootComment = "", "", ""
	if node.Kind == yaml.ScalarNode && node.ShortTag() == "!!str" {
		node.Value = names.Replace(node.Value)
	}
	for _, child := range node.Content {
		replace(child, names)
	}
}

// sizeText writes a number of bytes for people, exactly.
func sizeText(bytes int64) string {
	if bytes >= 1024 && bytes%1024 == 0 {
		return fmt.Sprintf("%d KiB (%d bytes)", bytes/1024, bytes)
	}
	return fmt.Sprintf("%d bytes", bytes)
}

func renderYAML(root *yaml.Node) ([]byte, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(root); err != nil {
		return nil, err
	}
	if err := encoder.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// renderJSON writes the nodes themselves instead of decoding them first: that
// would lose the order of the keys and, by way of floats, the bounds of int64.
func renderJSON(node *yaml.Node) ([]byte, error) {
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
		// YAML knows forms of null, booleans and numbers that JSON does not, such as ~, 0x10 and .inf.
		if !json.Valid([]byte(node.Value)) {
			return nil, fmt.Errorf("line %d: %s is not JSON", node.Line, node.Value)
		}
		return append(dst, node.Value...), nil
	default:
		return nil, fmt.Errorf("line %d: an alias has no form in JSON", node.Line)
	}
}

// appendNodes writes what is in a mapping or a sequence, between its brackets.
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
