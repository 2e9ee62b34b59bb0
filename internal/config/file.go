package config

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"plantstore/internal/terminal"
)

// FileBytesMax is the size limit of the settings file.
const FileBytesMax = 1 << 20

// readConfigText reads the settings file, which may be a FIFO or a device.
func readConfigText(ctx context.Context, path string) ([]byte, error) {
	f, err := terminal.OpenInput(ctx, path)
	if err != nil {
		return nil, inConfig(err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(terminal.InterruptibleReader(ctx, f), FileBytesMax+1))
	switch {
	case err != nil:
		return nil, inConfig(err)
	case len(text) > FileBytesMax:
		return nil, Usagef("config: %s is larger than %d bytes; check --config", path, FileBytesMax)
	}
	return text, nil
}

// inConfig returns an error of reading the settings file as a usage error, except an interrupt.
func inConfig(err error) error {
	if errors.Is(err, terminal.ErrInterrupted) {
		return err
	}
	return Usagef("config: %w", err)
}

// readConfig reads the settings file, a YAML mapping of the names of settings to values. sum is the SHA-256 of the
// file.
func readConfig(
	ctx context.Context, path string, settings []string,
) (values map[string]string, sum [sha256.Size]byte, err error) {
	if path == "" {
		return nil, sum, nil
	}
	text, err := readConfigText(ctx, path)
	if err != nil {
		return nil, sum, err
	}
	values, err = parseConfig(path, text, settings)
	return values, sha256.Sum256(text), err
}

// parseConfig parses the text of the settings file at path.
func parseConfig(path string, text []byte, settings []string) (map[string]string, error) {
	mapping, err := settingsMapping(text)
	if err != nil {
		return nil, Usagef("config: %s: %w", path, err)
	}
	values := map[string]string{}
	for pair := range slices.Chunk(mapping, 2) {
		name, node := pair[0].Value, pair[1]
		_, duplicate := values[name]
		switch {
		case pair[0].Kind != yaml.ScalarNode || !slices.Contains(settings, name) || name == "config":
			return nil, Usagef("config: %s:%d: unknown setting %q%s; see plantstore config --help",
				path, pair[0].Line, name, DidYouMean(name, settings))
		case duplicate:
			return nil, Usagef("config: %s:%d: duplicate setting %s", path, pair[0].Line, name)
		}
		if values[name], err = scalar(node); err != nil {
			return nil, Usagef("config: %s:%d: %s: %w", path, pair[0].Line, name, err)
		}
	}
	return values, nil
}

// settingsMapping returns the alternating keys and values of a YAML document that is a mapping. It returns nil for an
// empty document.
func settingsMapping(text []byte) ([]*yaml.Node, error) {
	in := yaml.NewDecoder(bytes.NewReader(text))
	var document, second yaml.Node
	switch err := in.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if err := in.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, errors.New("the file has more than one YAML document; use one")
	}
	root := document.Content[0]
	switch {
	case root.Kind == yaml.MappingNode:
		return root.Content, nil
	case root.Tag == YAMLNull:
		return nil, nil
	}
	return nil, errors.New("the file is not a YAML mapping; use lines of the form name: value")
}

// YAMLNull is the tag of a YAML value that is missing.
const YAMLNull = "!!null"

// scalar returns a value of the file in the form of a flag: a list becomes its items with commas between them.
func scalar(node *yaml.Node) (string, error) {
	switch {
	case node.Tag == YAMLNull:
		return "", errors.New("the value is missing")
	case node.ShortTag() == "!!binary": // plantstore config prints a value that is not UTF-8 in this form
		value, err := base64.StdEncoding.DecodeString(node.Value)
		if err != nil {
			return "", fmt.Errorf("the value is not base64, which !!binary requires: %w", err)
		}
		return string(value), nil
	case node.Kind == yaml.ScalarNode:
		return node.Value, nil
	case node.Kind == yaml.SequenceNode:
		items := make([]string, 0, len(node.Content))
		for _, item := range node.Content {
			if item.Kind != yaml.ScalarNode {
				return "", errors.New("the value is not a list of plain values")
			}
			items = append(items, item.Value)
		}
		return strings.Join(items, ","), nil
	default:
		return "", errors.New("the value is not a plain value")
	}
}
