package main

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

func newConfig(p *program) *cobra.Command {
	s := &settings{}
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show the settings in force, and where each comes from",
		Long: `Show every setting of "plantstore serve" with the value in force and where it
comes from: a flag, an environment variable, the file, or the default. Secrets
are hidden. The output is a settings file itself.`,
		Example: `  plantstore config
  plantstore config --listen 0.0.0.0:8080 --log-format json > plantstore.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.load(p, cmd); err != nil {
				return err
			}
			var out bytes.Buffer
			cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
				if f.Name != "config" && f.Name != "help" {
					value := f.Name + ": " + shown(f)
					fmt.Fprintf(&out, "%-34s # %s\n", value, s.sources[f.Name])
				}
			})
			_, err := p.stdout.Write(out.Bytes())
			return err
		},
	}
	s.bindStore(cmd.Flags())
	s.bindServe(cmd.Flags())
	return cmd
}

// shown returns a setting's value as YAML on one line. The values themselves
// hide their secrets.
func shown(f *pflag.Flag) string {
	node := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	if list, ok := f.Value.(pflag.SliceValue); ok {
		for _, item := range list.GetSlice() {
			node.Content = append(node.Content, plainNode(item))
		}
	} else {
		node = plainNode(f.Value.String())
	}
	text, err := yaml.Marshal(node)
	if err != nil {
		return err.Error() // cannot happen: every text is a scalar
	}
	return strings.TrimSuffix(string(text), "\n")
}

// plainNode returns a text as YAML of one line that is no null.
func plainNode(text string) *yaml.Node {
	node := &yaml.Node{Kind: yaml.ScalarNode, Value: text}
	if node.ShortTag() == yamlNull || strings.ContainsFunc(text, unicode.IsControl) {
		node.Style = yaml.DoubleQuotedStyle
	}
	return node
}
