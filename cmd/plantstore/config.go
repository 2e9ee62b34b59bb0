package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"plantstore/internal/admin"
	"plantstore/internal/config"
	"plantstore/internal/remote"
	"plantstore/internal/serve"
	"plantstore/internal/terminal"
)

func newConfig(p *program) *cobra.Command {
	var changed bool
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the settings in force, with their sources",
		Long: `Print every setting of "plantstore serve" with the value in force and its source:
a flag, an environment variable, the settings file, or the default. Passwords are
hidden. The output is a settings file. --changed omits the defaults. To check the
files and servers that the settings name, run "plantstore serve --check".

With --server print the settings in force of a running server, and the values that
wait for a restart of it.`,
		Example: `  plantstore config
  plantstore config --changed
  plantstore config --listen 0.0.0.0:8080 --log-format json > plantstore.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if p.server.URL != "" {
				return p.withServer(cmd, func(ctx context.Context, r *remote.Client) error {
					list, err := r.Settings(ctx)
					if err != nil {
						return err
					}
					return p.printSettings(list, changed)
				})
			}
			return p.withSettings(cmd, func(context.Context) error {
				return p.printSettings(serve.ListSettings(&p.settings), changed)
			})
		},
	}
	p.bindServe(cmd)
	p.server.Bind(cmd.Flags())
	cmd.Flags().BoolVar(&changed, "changed", false, "print only settings with another source than the default")
	p.bindJSON(cmd.Flags(), "print one JSON object per setting and line")
	return cmd
}

// settingFacts is a line of config --json.
type settingFacts struct {
	Name   string `json:"name"`
	Value  string `json:"value"`  // in the form of a flag, without passwords
	Source string `json:"source"` // a flag, an environment variable, the path of the file, or default
}

// printSettings prints the settings of this program or of a server; if changed, without the defaults.
func (p *program) printSettings(list []admin.Setting, changed bool) error {
	known, flags := &config.Settings{}, pflag.NewFlagSet("", pflag.ContinueOnError)
	known.BindServe(flags)
	var out bytes.Buffer
	for _, l := range list {
		if changed && l.Source == config.Default {
			continue
		}
		if p.asJSON {
			if err := terminal.WriteJSON(&out, settingFacts{l.Name, l.Value, l.Source}); err != nil {
				return err
			}
			continue
		}
		value := yamlText(flags.Lookup(l.Name), l.Value)
		fmt.Fprintf(&out, "%-34s # %s\n", terminal.Printable(l.Name)+": "+value, terminal.Printable(l.Source))
	}
	_, err := p.Stdout.Write(out.Bytes())
	return err
}

// yamlText returns the value of a setting as YAML on one line. Its flag is nil for a setting of another version.
func yamlText(f *pflag.Flag, value string) string {
	node := plainNode(value)
	if f != nil {
		if l, ok := f.Value.(*config.List); ok && l.Set(value) == nil {
			node = &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
			for _, item := range l.Shown() {
				node.Content = append(node.Content, plainNode(item))
			}
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
	if node.ShortTag() == config.YAMLNull || strings.ContainsFunc(text, unicode.IsControl) {
		node.Style = yaml.DoubleQuotedStyle
	}
	return node
}
