package plantstore_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestVersionScript gives a copy of the sources the version of a release and then the next version in development.
func TestVersionScript(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, tree := range []string{"cmd/plantstore", "deploy", "docs", "tools"} {
		if err := os.CopyFS(filepath.Join(dir, tree), os.DirFS(tree)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "CHANGELOG.md"), []byte(read(t, "CHANGELOG.md")), 0o600); err != nil {
		t.Fatal(err)
	}
	set := func(version, want string) {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "tools/version.sh"), version).CombinedOutput()
		if (err == nil) != (want == "") || !strings.Contains(string(out), want) {
			t.Fatalf("version.sh %q: %v %s; want %q", version, err, out, want)
		}
	}
	const page = "docs/how-to/install-a-package.md"
	const chart = "deploy/helm/plantstore/Chart.yaml"
	set("", `the version must have the form 1.2.3 or 1.2.3-dev; got ""`)
	set("v7.0.0", `got "v7.0.0"`)
	set("7.1.0-dev", "CHANGELOG.md has a section Unreleased already")
	set("7.0.0", "")
	wantMatch(t, dir, "CHANGELOG.md", `(?m)^## \[7\.0\.0\] - \d{4}-\d\d-\d\d$`)
	wantMatch(t, dir, "cmd/plantstore/version.go", `const version = "7\.0\.0"`)
	wantMatch(t, dir, chart, `(?m)^appVersion: 7\.0\.0$`)
	wantMatch(t, dir, page, `/plantstore_7\.0\.0-1_amd64\.deb`)
	set("7.0.0", "the version is 7.0.0 already")
	set("7.0.1", "CHANGELOG.md has no section Unreleased")
	set("7.1.0-dev", "")
	wantMatch(t, dir, "CHANGELOG.md", `(?m)^## \[Unreleased\]\n\n## \[7\.0\.0\] - `)
	wantMatch(t, dir, "cmd/plantstore/version.go", `const version = "7\.1\.0-dev"`)
	wantMatch(t, dir, chart, `(?m)^version: 7\.1\.0-dev$`)
	wantMatch(t, dir, page, `/plantstore_7\.1\.0~dev-1_amd64\.deb`)
}

// wantMatch checks that a file has a line.
func wantMatch(t *testing.T, dir, name, pattern string) {
	t.Helper()
	if text := read(t, filepath.Join(dir, name)); !regexp.MustCompile(pattern).MatchString(text) {
		t.Errorf("%s does not match %s", name, pattern)
	}
}
