package config

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"plantstore/internal/terminal"
)

// fileBytesMax is the size limit of the settings file.
const fileBytesMax = 1 << 20

// readFile returns the values of the settings file, none if there is no file.
func (s *Settings) readFile(ctx context.Context, settings []string) (map[string]string, error) {
	if s.Config == "" {
		return nil, nil
	}
	text, err := readConfig(ctx, s.Config)
	if err != nil {
		return nil, err
	}
	s.FileSum = sha256.Sum256(text)
	return parseConfig(s.Config, text, settings)
}

// useDefaultFile makes the settings file of the environment the one to read, if it exists, unless a flag or a variable
// names a file or a store.
func (s *Settings) useDefaultFile(env *Environment, flags *pflag.FlagSet) bool {
	for _, name := range []string{"config", "db"} {
		if _, given := env.Vars[Variable(name)]; given || flags.Changed(name) {
			return false
		}
	}
	if _, err := os.Stat(env.SettingsFile); env.SettingsFile == "" || errors.Is(err, fs.ErrNotExist) {
		return false
	}
	s.Config = env.SettingsFile
	return true
}

// readDefaultFile is readFile for the file of useDefaultFile. It leaves the file out if the working directory has
// another store with the name of the default. If the user may not read the file, the default would be a second store.
func (s *Settings) readDefaultFile(ctx context.Context, settings []string) (map[string]string, error) {
	file, err := s.readFile(ctx, settings)
	_, none := os.Stat(initialStore)
	switch {
	case none == nil && (err != nil || !SameFile(initialStore, cmp.Or(file["db"], initialStore))):
		s.Config, s.FileSum = "", [sha256.Size]byte{}
		return nil, nil //nolint:nilerr // a file of another store, readable or not
	case errors.Is(err, fs.ErrPermission):
		err = fmt.Errorf("%w, or name another store with --db", err)
	}
	return file, err
}

// readConfig reads the settings file, which may be a FIFO or a device. Its errors are usage errors, except the error of
// an interrupt.
func readConfig(ctx context.Context, path string) (text []byte, err error) {
	f, err := terminal.OpenInput(ctx, path)
	if err == nil {
		defer f.Close()
		text, err = io.ReadAll(io.LimitReader(terminal.InterruptibleReader(ctx, f), fileBytesMax+1))
	}
	switch {
	case errors.Is(err, terminal.ErrInterrupted):
		return nil, err
	case errors.Is(err, fs.ErrPermission):
		return nil, Usagef("config: %w; run the command as the user of the server, as by sudo -u plantstore plantstore", err)
	case err != nil:
		return nil, Usagef("config: %w", err)
	case len(text) > fileBytesMax:
		return nil, Usagef("config: %s is larger than %d bytes; check --config", path, fileBytesMax)
	}
	return text, nil
}

// parseConfig parses the text of the settings file at path, a YAML mapping of the names of settings to values. It
// returns the values of the settings without a fault, nil if the text is no mapping.
func parseConfig(path string, text []byte, settings []string) (values map[string]string, faults error) {
	mapping, err := settingsMapping(text)
	if err != nil {
		return nil, Usagef("config: %s: %w", path, err)
	}
	values = map[string]string{}
	for pair := range slices.Chunk(mapping, 2) {
		name, node := pair[0].Value, pair[1]
		value, err := scalar(node)
		_, duplicate := values[name]
		switch {
		case pair[0].Kind != yaml.ScalarNode || !slices.Contains(settings, name) || name == "config":
			err = Usagef("config: %s:%d: unknown setting %q%s; see plantstore config --help",
				path, pair[0].Line, name, DidYouMean(name, settings))
		case duplicate:
			err = Usagef("config: %s:%d: duplicate setting %s", path, pair[0].Line, name)
		case err != nil:
			err = Usagef("config: %s:%d: %s: %w", path, pair[0].Line, name, err)
		default:
			values[name] = value
		}
		faults = errors.Join(faults, err)
	}
	return values, faults
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

// scalar returns a value of the file in the form of a flag: a list becomes its items with commas between them. Decode
// also reads the form !!binary, in which plantstore config prints a value that is not UTF-8.
func scalar(node *yaml.Node) (value string, err error) {
	var items []string
	missing := func(item *yaml.Node) bool { return item.Tag == YAMLNull }
	switch {
	case missing(node):
		return "", errors.New("the value is missing")
	case node.Kind == yaml.SequenceNode && slices.ContainsFunc(node.Content, missing): // Decode would omit it
		return "", errors.New("an item of the list is missing")
	case node.Kind == yaml.ScalarNode && node.Decode(&value) == nil:
		return value, nil
	case node.Kind == yaml.SequenceNode && node.Decode(&items) == nil:
		return strings.Join(items, ","), nil
	case node.Kind == yaml.SequenceNode:
		return "", errors.New("the value is not a list of plain values")
	}
	return "", errors.New("the value is not a plain value")
}
