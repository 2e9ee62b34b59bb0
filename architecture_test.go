// Package plantstore_test checks the rules of the project that no compiler and no linter checks: the reasons for
// dependencies, and the targets of links.
package plantstore_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// onlyInTests are the direct dependencies that only tests link.
var onlyInTests = []string{
	"github.com/chromedp/cdproto",
	"github.com/chromedp/chromedp",
	"github.com/getkin/kin-openapi",
	"github.com/google/go-cmp",
	"github.com/rogpeppe/go-internal",
	"pgregory.net/rapid",
}

// docs/explanation/decisions.md has a table row with the reason for each module that go.mod requires directly.
func TestDependenciesHaveReasons(t *testing.T) {
	t.Parallel()
	const decisionsPage = "docs/explanation/decisions.md"
	direct := requirements(t, "go.mod", func(r requirement) bool { return !r.Indirect })
	page, err := os.ReadFile(decisionsPage)
	if err != nil {
		t.Fatalf("cannot read the reasons for %q in %s: %v", slices.Sorted(maps.Keys(direct)), decisionsPage, err)
	}
	reasons := tableReasons(string(page))
	for _, name := range slices.Sorted(maps.Keys(direct)) {
		if reasons[name] == "" {
			t.Errorf("go.mod requires %s: %s needs a table row that begins with | `%s` | and ends with the reason",
				name, decisionsPage, name)
		}
	}
}

func TestProductLinksNoTestDependency(t *testing.T) {
	t.Parallel()
	const format = "{{.ImportPath}} {{with .Module}}{{.Path}}{{end}}"
	linked := strings.Fields(run(t, "go", "list", "-deps", "-f", format, "./cmd/plantstore"))
	if len(linked) < 100 {
		t.Fatalf("go list -deps printed only %q", linked)
	}
	for _, name := range append(slices.Clone(onlyInTests), "testing") {
		if slices.Contains(linked, name) {
			t.Errorf("cmd/plantstore links %s, which only tests may link", name)
		}
	}
}

// modernc.org/sqlite is C code that was translated for one version of modernc.org/libc. It compiles with another
// version, and then it crashes.
func TestCLibraryIsTheOneOfSQLite(t *testing.T) {
	t.Parallel()
	const engine, library = "modernc.org/sqlite", "modernc.org/libc"
	var sqlite, libc struct{ Version, GoMod string }
	for name, out := range map[string]any{engine: &sqlite, library: &libc} {
		if err := json.Unmarshal([]byte(run(t, "go", "list", "-m", "-json", name)), out); err != nil {
			t.Fatalf("go list -m -json %s: %v", name, err)
		}
	}
	want := requirements(t, sqlite.GoMod, func(r requirement) bool { return r.Path == library })[library]
	if want == "" || libc.Version != want {
		t.Errorf("%s is at %s, but %s %s requires %q: require that version",
			library, libc.Version, engine, sqlite.Version, want)
	}
}

var (
	fenced   = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	codeSpan = regexp.MustCompile("`[^`\n]*`")
	link     = regexp.MustCompile(`\]\(<?([^)\s>]+)>?(?:\s+"[^"]*")?\)|(?m:^\[[^\]\n]+\]:\s+(\S+))`)
	heading  = regexp.MustCompile(`(?m)^#{1,6}\s+(.+?)\s*#*$`)
	makeName = regexp.MustCompile("`make ([a-z]+)")
	makeRule = regexp.MustCompile(`(?m)^([a-z]+):`)
	ownPath  = regexp.MustCompile(`(?:^|\s)(?:@|\./)?((?:tools|cmd|docs|bench|faults|deploy)/[\w./-]+)`)
)

func TestLinksResolve(t *testing.T) {
	t.Parallel()
	for _, page := range files(t, ".md") {
		text := fenced.ReplaceAllString(read(t, page), "")
		for _, match := range link.FindAllStringSubmatch(codeSpan.ReplaceAllString(text, ""), -1) {
			target := match[1] + match[2]
			if strings.Contains(target, ":") { // the link has a scheme
				continue
			}
			name, anchor, _ := strings.Cut(target, "#")
			if name == "" {
				name = filepath.Base(page)
			}
			name = filepath.Join(filepath.Dir(page), name)
			if _, err := os.Stat(name); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, target)
			} else if anchor != "" && path.Ext(name) == ".md" && !slices.Contains(anchors(read(t, name)), anchor) {
				t.Errorf("%s links to %s, but %s has no such heading", page, target, name)
			}
		}
	}
}

func TestMakeTargetsAndScriptsExist(t *testing.T) {
	t.Parallel()
	makefile := read(t, "Makefile")
	var targets []string
	for _, match := range makeRule.FindAllStringSubmatch(makefile, -1) {
		targets = append(targets, match[1])
	}
	for _, page := range files(t, ".md") {
		for _, match := range makeName.FindAllStringSubmatch(read(t, page), -1) {
			if !slices.Contains(targets, match[1]) {
				t.Errorf("%s names make %s, but the Makefile has only %q", page, match[1], targets)
			}
		}
	}
	for _, match := range ownPath.FindAllStringSubmatch(makefile, -1) {
		if _, err := os.Stat(match[1]); err != nil {
			t.Errorf("the Makefile names %s, which does not exist", match[1])
		}
	}
}

// files returns the module's files with an extension, without test data, the files that make builds and, for Go files,
// nested modules.
func files(t *testing.T, extension string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !entry.IsDir():
			if filepath.Ext(name) == extension {
				names = append(names, name)
			}
			return nil
		case name == ".":
			return nil
		}
		_, err = os.Stat(filepath.Join(name, "go.mod"))
		nested := err == nil && extension == ".go"
		base := entry.Name()
		if nested || name == "dist" || base == "testdata" || base == "node_modules" || strings.HasPrefix(base, ".") {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(names) == 0 {
		t.Fatalf("found no file with the extension %s", extension)
	}
	return names
}

type requirement struct {
	Path, Version string
	Indirect      bool
}

// requirements returns the versions, by module path, of the wanted requirements of a go.mod file.
func requirements(t *testing.T, goMod string, wanted func(requirement) bool) map[string]string {
	t.Helper()
	var parsed struct{ Require []requirement }
	if err := json.Unmarshal([]byte(run(t, "go", "mod", "edit", "-json", goMod)), &parsed); err != nil {
		t.Fatalf("go mod edit -json %s: %v", goMod, err)
	}
	found := map[string]string{}
	for _, r := range parsed.Require {
		if wanted(r) {
			found[r.Path] = r.Version
		}
	}
	return found
}

// tableReasons returns, for each table row of a page whose first cell is a code span, the text of the other cells.
func tableReasons(page string) map[string]string {
	reasons := map[string]string{}
	for line := range strings.Lines(page) {
		row, isRow := strings.CutPrefix(strings.TrimSpace(line), "|")
		name, rest, _ := strings.Cut(row, "|")
		name = strings.TrimSpace(name)
		if isRow && len(name) > 2 && name[0] == '`' {
			reasons[strings.Trim(name, "`")] = strings.Trim(rest, "| \t")
		}
	}
	return reasons
}

// anchors returns the fragment identifiers of a page's headings.
func anchors(page string) []string {
	var names []string
	for _, match := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			default:
				return -1
			}
		}, match[1])
		for n, base := 1, name; slices.Contains(names, name); n++ {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		names = append(names, name)
	}
	return names
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// run runs a command in the root of the module and returns its standard output.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, &stderr)
	}
	return string(out)
}
