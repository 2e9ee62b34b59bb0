package main

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newConfig(p *program) *cobra.Command {
	s := &settings{}
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show the settings in force, and where each comes from",
		Long: `Show every setting of "plantstore serve" with the value in force and where it
comes from: a flag, an environment variable, the file, or the default. Secrets
are hidden. The output is a settings file itself.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.load(p, cmd); err != nil {
				return err
			}
			cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
				if f.Name != "config" && f.Name != "help" {
					value := f.Name + ": " + shown(f)
					fmt.Fprintf(p.stdout, "%-34s # %s\n", value, s.sources[f.Name])
				}
			})
			return nil
		},
	}
	s.bindStore(cmd.Flags())
	s.bindServe(cmd.Flags())
	return cmd
}

// shown returns a setting's value as YAML, without a password in it.
func shown(f *pflag.Flag) string {
	value := f.Value.String()
	if f.Name == "db" {
		if u, err := url.Parse(value); err == nil && u.User != nil {
			value = u.Redacted()
		}
	}
	switch {
	case strings.HasPrefix(value, "["): // a list, in YAML's flow form
		return value
	case value == "" || strings.ContainsAny(value, "#'\"{}*&!|>%@`, ") || strings.Contains(value, ": "):
		return "'" + strings.ReplaceAll(value, "'", "''") + "'"
	}
	return value
}
