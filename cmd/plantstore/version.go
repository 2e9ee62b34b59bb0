package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"plantstore/internal/sqlite"
)

// version is the product's; the API's is in the API document.
const version = "1.0.0-dev"

// What the linker sets with -X, as tools/ldflags.sh has it. Empty is unknown: then what the Go command stamped counts.
var (
	commit         string
	commitTime     string // RFC 3339
	commitModified string // true or false
)

func newVersion(p *program) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version, and what the program was built from and with",
		Long: `Show the version, the commit that the program was built from, whether its files
were modified, and the versions of Go and SQLite. What is not known is left out.`,
		Example: `  plantstore version
  plantstore version --json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := thisVersion()
			if asJSON {
				return writeJSON(p.stdout, v)
			}
			return v.print(p.stdout)
		},
	}
	bindJSON(cmd.Flags(), &asJSON, "print a JSON object")
	return cmd
}

// versionFacts is what version --json prints.
type versionFacts struct {
	Version       string    `json:"version"`
	Commit        string    `json:"commit,omitempty"`
	CommittedAt   time.Time `json:"committed_at,omitzero"`
	Modified      *bool     `json:"modified,omitempty"` // whether files differed from the commit
	GoVersion     string    `json:"go_version"`
	OS            string    `json:"os"`
	Arch          string    `json:"arch"`
	SQLiteVersion string    `json:"sqlite_version"`
}

func thisVersion() versionFacts {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	v := versionFacts{Version: version, GoVersion: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, SQLiteVersion: sqlite.Version()}
	v.setCommit(commit, commitTime, commitModified, info.Settings)
	return v
}

// setCommit takes the commit from what the linker was given, or else from what
// the Go command stamped into the program. It never mixes the two.
func (v *versionFacts) setCommit(commit, at, modified string, stamped []debug.BuildSetting) {
	if commit == "" {
		at, modified = "", ""
		for _, s := range stamped {
			switch s.Key {
			case "vcs.revision":
				commit = s.Value
			case "vcs.time":
				at = s.Value
			case "vcs.modified":
				modified = s.Value
			}
		}
	}
	v.Commit = commit
	if t, err := time.Parse(time.RFC3339, at); err == nil {
		v.CommittedAt = t.UTC()
	}
	if m, err := strconv.ParseBool(modified); err == nil {
		v.Modified = &m
	}
}

// print writes the facts for a person.
func (v *versionFacts) print(w io.Writer) error {
	from := "unknown commit"
	if v.Commit != "" {
		from = "commit " + v.Commit
	}
	if !v.CommittedAt.IsZero() {
		from += " of " + v.CommittedAt.Format(time.RFC3339)
	}
	if v.Modified != nil && *v.Modified {
		from += ", modified"
	}
	_, err := fmt.Fprintf(w, "plantstore %s (%s)\n%s %s/%s, SQLite %s\n", v.Version, from, v.GoVersion, v.OS, v.Arch, v.SQLiteVersion)
	return err
}
