package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

func newConfig(p *program) *cobra.Command {
	s := &settings{}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the settings in force, with their sources",
		Long: `Print every setting of "plantstore serve" with the value in force and its source:
a flag, an environment variable, the settings file, or the default. Passwords are
hidden. The output is a settings file.`,
		Example: `  plantstore config
  plantstore config --listen 0.0.0.0:8080 --log-format json > plantstore.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.load(p, cmd); err != nil {
				return err
			}
			var out bytes.Buffer
			var err error
			cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
				switch source, isSetting := s.sources[f.Name]; {
				case !isSetting || f.Name == "config":
				case asJSON:
					err = errors.Join(err, writeJSON(&out, settingFacts{f.Name, f.Value.String(), source}))
				default:
					fmt.Fprintf(&out, "%-34s # %s\n", f.Name+": "+yamlValue(f), source)
				}
			})
			if err != nil {
				return err
			}
			_, err = p.stdout.Write(out.Bytes())
			return err
		},
	}
	s.bindStore(cmd.Flags())
	s.bindServe(cmd.Flags())
	bindJSON(cmd.Flags(), &asJSON, "print one JSON object per setting and line")
	return cmd
}

// settingFacts is a line of config --json.
type settingFacts struct {
	Name   string `json:"name"`
	Value  string `json:"value"`  // in the form of a flag, without passwords
	Source string `json:"source"` // a flag, an environment variable, the path of the file, or default
}

// yamlValue returns the value of a setting as YAML on one line. The values themselves hide their secrets.
func yamlValue(f *pflag.Flag) string {
	node := plainNode(f.Value.String())
	if l, ok := f.Value.(*list); ok {
		node = &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, item := range l.items {
			node.Content = append(node.Content, plainNode(item))
		}
	}
	text, err := yaml.Marshal(node)
	if err != nil {
		return err.Error() // cannot happen: every text is a scalar
	}
	return strings.TrimSuffix(string(text), "\n")
}

// plainNode returns a text as a YAML string on one line.
func plainNode(text string) *yaml.Node {
	node := &yaml.Node{Kind: yaml.ScalarNode, Value: text}
	if node.ShortTag() == yamlNull || strings.ContainsFunc(text, unicode.IsControl) {
		node.Style = yaml.DoubleQuotedStyle
	}
	return node
}
