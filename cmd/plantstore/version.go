package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"plantstore/internal/sqlite"
)

// version is the product's; the API's is in the API document.
const version = "1.0.0-dev"

func newVersion(p *program) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version, and what the program was built with",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(p.stdout, "plantstore %s%s\n%s %s/%s, SQLite %s\n",
				version, revision(), runtime.Version(), runtime.GOOS, runtime.GOARCH, sqlite.Version())
			return err
		},
	}
}

// revision returns the commit that the program was built from, if it is known.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return " (" + s.Value + ")"
		}
	}
	return ""
}
