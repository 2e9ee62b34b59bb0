package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"plantstore/internal/sqlite"
)

// version is the version of the program. The API document has the version of the API.
const version = "1.0.0-dev"

// The linker sets these with -X (tools/ldflags.sh). If commit is empty, thisVersion uses the build information of the
// Go command.
var (
	commit         string
	commitTime     string // RFC 3339
	commitModified string // true or false
)

func newVersion(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of the program",
		Long: `Print the version and the commit of the program, and the versions of Go and
SQLite. "modified" means that the source differed from the commit. The output omits
unknown values.`,
		Example: `  plantstore version
  plantstore version --json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return p.printVersion() },
	}
	p.bindJSON(cmd.Flags(), "print a JSON object")
	return cmd
}

func (p *program) printVersion() error {
	v := thisVersion()
	return p.result(v, "%s", v.text())
}

// versionFacts is the output of version --json.
type versionFacts struct {
	Version       string    `json:"version"`
	Commit        string    `json:"commit,omitempty"`
	CommittedAt   time.Time `json:"committed_at,omitzero"`
	Modified      *bool     `json:"modified,omitempty"` // the source differed from the commit
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
	v := versionFacts{
		Version: version, GoVersion: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		SQLiteVersion: sqlite.Version(),
	}
	v.setCommit(commit, commitTime, commitModified, info.Settings)
	return v
}

// setCommit sets the commit from the linker's variables, or else from the build information of the Go command. It never
// combines the two.
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

// text returns the facts for people.
func (v *versionFacts) text() string {
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
	return fmt.Sprintf("plantstore %s (%s)\n%s %s/%s, SQLite %s\n",
		v.Version, from, v.GoVersion, v.OS, v.Arch, v.SQLiteVersion)
}
