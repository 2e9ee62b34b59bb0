package server

import (
	"bytes"
	"cmp"
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

// document is the API document of the public listener (OpenAPI 3.1) in two forms with
// the same content in the same order.
type document struct {
	YAML []byte // application/yaml, RFC 9512
	JSON []byte // application/json
}

// newDocument returns the document of a server with a base URL, which must be
// absolute, and with limits. If the URL is a guess, the server in the document is
// relative to the document, so that it is right for every client. The same input
// gives the same bytes.
func newDocument(baseURL *url.URL, guessed bool, limits Limits) (document, error) {
	if baseURL.Scheme == "" || baseURL.Host == "" {
		return document{}, fmt.Errorf("base URL must have a scheme and a host; got %q", baseURL.Redacted())
	}
	var root yaml.Node
	if err := yaml.Unmarshal(documentSource, &root); err != nil {
		return document{}, fmt.Errorf("read openapi.yaml: %w", err)
	}
	if err := fillIn(root.Content[0], baseURL, guessed, limits); err != nil {
		return document{}, fmt.Errorf("fill in openapi.yaml: %w", err)
	}
	var doc document
	var err error
	if doc.YAML, err = renderYAML(&root); err != nil {
		return document{}, fmt.Errorf("write openapi.yaml: %w", err)
	}
	if doc.JSON, err = renderJSON(root.Content[0]); err != nil {
		return document{}, fmt.Errorf("write openapi.json: %w", err)
	}
	return doc, nil
}

// AdminDocument returns an OpenAPI document of routes on the admin listener in JSON, from
// its source in YAML. It replaces {errorTable} in the source by the table of all errors.
func AdminDocument(source []byte) ([]byte, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(source, &root); err != nil {
		return nil, fmt.Errorf("read the API document: %w", err)
	}
	replace(&root, strings.NewReplacer("{errorTable}", errorTable(plant.Catalogue())))
	return renderJSON(root.Content[0])
}

// fillIn replaces the settings in the document.
func fillIn(document *yaml.Node, baseURL *url.URL, guessed bool, limits Limits) error {
	// Omit credentials, query and fragment. Paths begin with a slash, so the base ends without one.
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
		{"paths /plants post x-limits authFailuresPerMinute", strconv.Itoa(limits.AuthFailures)},
		{"paths /plants post x-limits requestsPerSecond", strconv.Itoa(limits.Rate)},
		{"paths /plants post x-limits requestBurst", strconv.Itoa(cmp.Or(limits.Burst, limits.Rate))},
		{"paths /plants post x-limits concurrentRequests", strconv.Itoa(limits.Concurrency)},
	} {
		node := find(document, strings.Fields(value.path)...)
		if node == nil {
			return errors.New("the source has no " + value.path)
		}
		node.Value, node.Tag = value.text, "" // YAML derives the type from the text
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
		"{authFailures}", numberOrNone(limits.AuthFailures),
		"{requestsPerSecond}", numberOrNone(limits.Rate),
		"{concurrentRequests}", numberOrNone(limits.Concurrency),
		"{errorTable}", errorTable(publicErrors()),
	))
	return nil
}

// publicErrors returns the errors of the public listener. The document has them as a
// table and as examples, not as an enum: a new number must not break a client that
// was generated from an older document.
func publicErrors() []plant.Entry {
	return slices.DeleteFunc(plant.Catalogue(), func(e plant.Entry) bool { return e.Code.AdminOnly() })
}

func errorTable(entries []plant.Entry) string {
	var table strings.Builder
	table.WriteString("| error | name | meaning |\n|---|---|---|\n")
	for _, e := range entries {
		fmt.Fprintf(&table, "| %d | %s | %s |\n", e.Code, e.Name, e.Meaning)
	}
	return strings.TrimSuffix(table.String(), "\n")
}

// numberOrNone returns a limit as text; 0 is no limit.
func numberOrNone(n int) string {
	if n == 0 {
		return "none"
	}
	return strconv.Itoa(n)
}

func secondsText(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64)
}

// find returns the node at a path of keys and indices, or nil.
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

// replace replaces the names in braces and removes the comments, which are only for
// the source.
func replace(node *yaml.Node, names *strings.Replacer) {
	node.HeadComment, node.LineComment, node.FootComment = "", "", ""
	if node.Kind == yaml.ScalarNode && node.ShortTag() == "!!str" {
		node.Value = names.Replace(node.Value)
	}
	for _, child := range node.Content {
		replace(child, names)
	}
}

// sizeText returns a number of bytes as text, with its number of KiB if that is an
// integer.
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

// renderJSON encodes the nodes without decoding their values. Decoding would lose the
// order of the keys, and round the bounds of int64 to floats.
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
