package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestVersionFacts(t *testing.T) {
	t.Parallel()
	const linked, stamped = "5363298c0ffee5363298c0ffee5363298c0ffee5", "222120bc0ffee222120bc0ffee222120bc0ffee2"
	yes, no := true, false
	at := time.Date(2026, 11, 22, 0, 16, 25, 0, time.UTC)
	vcs := []debug.BuildSetting{
		{Key: "-trimpath", Value: "true"},
		{Key: "vcs.revision", Value: stamped},
		{Key: "vcs.time", Value: "2026-11-22T00:16:25Z"},
		{Key: "vcs.modified", Value: "false"},
	}
	for _, tt := range []struct {
		name                 string
		commit, at, modified string
		stamped              []debug.BuildSetting
		want                 versionFacts
		text                 string
	}{
		{
			"linker", linked, "2026-11-22T01:16:25+01:00", "true", nil,
			versionFacts{Commit: linked, CommittedAt: at, Modified: &yes},
			"commit " + linked + " of 2026-11-22T00:16:25Z, modified",
		},
		{
			"linker and Go command", linked, "", "", vcs,
			versionFacts{Commit: linked},
			"commit " + linked,
		},
		{
			"Go command", "", "", "", vcs,
			versionFacts{Commit: stamped, CommittedAt: at, Modified: &no},
			"commit " + stamped + " of 2026-11-22T00:16:25Z",
		},
		{"unknown", "", "", "", vcs[:1], versionFacts{}, "unknown commit"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got versionFacts
			got.setCommit(tt.commit, tt.at, tt.modified, tt.stamped)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
			if text := got.text(); !strings.HasPrefix(text, "plantstore  ("+tt.text+")\n") {
				t.Errorf("got %q, want %q", text, tt.text)
			}
		})
	}
}

// TestLinkerFlags tests that the linker flags of make dist have the commit and name variables of version.go.
func TestLinkerFlags(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	script, err := os.ReadFile("../../tools/ldflags.sh")
	if err != nil {
		t.Fatal(err)
	}
	environ := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + root, "TZ=Asia/Tokyo",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CEILING_DIRECTORIES=" + filepath.Dir(root),
		"GIT_AUTHOR_NAME=x", "GIT_AUTHOR_EMAIL=x", "GIT_COMMITTER_NAME=x", "GIT_COMMITTER_EMAIL=x",
		"GIT_COMMITTER_DATE=2026-01-02T03:04:05+01:00",
	}
	inDir := func(dir string, args ...string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), args[0], args[1:]...)
		c.Dir, c.Env = dir, environ
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	flags := func(dir string) map[string]string {
		t.Helper()
		got := map[string]string{}
		for entry := range strings.SplitSeq(inDir(dir, "tools/ldflags.sh"), "-X ") {
			if name, value, ok := strings.Cut(strings.TrimSpace(entry), "="); ok {
				got[name] = value
			}
		}
		return got
	}
	for _, dir := range []string{root, filepath.Join(root, "unpacked")} {
		if err := os.MkdirAll(filepath.Join(dir, "tools"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "tools", "ldflags.sh"), script, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if got := flags(root); len(got) > 0 {
		t.Errorf("without a repository: got %q, want nothing", got)
	}
	inDir(root, "git", "init", "-q")
	if got := flags(root); len(got) > 0 {
		t.Errorf("without a commit: got %q, want nothing", got)
	}
	inDir(root, "git", "add", ".")
	inDir(root, "git", "commit", "-q", "-m", "x")
	want := map[string]string{
		"main.commit":     inDir(root, "git", "rev-parse", "HEAD"),
		"main.commitTime": "2026-01-02T02:04:05Z", "main.commitModified": "false",
	}
	if diff := cmp.Diff(want, flags(root)); diff != "" {
		t.Errorf("flags (-want +got):\n%s", diff)
	}
	source, err := parser.ParseFile(token.NewFileSet(), "version.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for name := range want {
		if !declares(source, strings.TrimPrefix(name, "main.")) {
			t.Errorf("version.go has no variable %s, so the linker sets nothing", name)
		}
	}
	writeFileText(t, filepath.Join(root, "new.go"), "package main\n")
	want["main.commitModified"] = "true"
	if diff := cmp.Diff(want, flags(root)); diff != "" {
		t.Errorf("with a new file, flags (-want +got):\n%s", diff)
	}
	if got := flags(filepath.Join(root, "unpacked")); len(got) > 0 {
		t.Errorf("in a folder of another repository: got %q, want nothing", got)
	}
}

// declares reports whether a file declares a variable for the whole package.
func declares(file *ast.File, name string) bool {
	for _, d := range file.Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok || group.Tok != token.VAR {
			continue
		}
		for _, spec := range group.Specs {
			named := func(id *ast.Ident) bool { return id.Name == name }
			if v, ok := spec.(*ast.ValueSpec); ok && slices.ContainsFunc(v.Names, named) {
				return true
			}
		}
	}
	return false
}
