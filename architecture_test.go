// Package plantstore_test checks the rules of the project that no compiler and no linter checks: the imports between
// packages, the reasons for dependencies, and the targets of links.
package plantstore_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

const (
	module         = "plantstore"
	decisionsPage  = "docs/explanation/decisions.md"
	anything       = "*"
	writepath      = "internal/writepath"
	storetest      = "internal/store/storetest"
	embeddedEngine = "internal/sqlite"
	sqlite3        = "internal/sqlite/sqlite3"
	dbfile         = "internal/sqlite/dbfile"
	backupfile     = "internal/sqlite/backupfile"
	journal        = "internal/sqlite/journal"
	sqlitetest     = "internal/sqlite/sqlitetest"
	pgtest         = "internal/postgres/pgtest"
	pebbletest     = "internal/acme/pebbletest"
	s3test         = "internal/s3/s3test"
	childtest      = "internal/childtest"
	certstest      = "internal/certs/certstest"
	oidctest       = "internal/oidc/oidctest"
	tracing        = "internal/trace"
	tracetest      = "internal/trace/tracetest"
	browsertest    = "internal/server/browsertest"
	ptytest        = "internal/terminal/ptytest"
)

// mayImport has a row for each package: the packages of the program that it may import. A name that ends in ...
// includes the packages below it. The change that adds a package adds its row here and its sentence in ARCHITECTURE.md.
var mayImport = map[string][]string{
	"internal/plant":    {},
	"client":            {},
	"internal/auth":     {"internal/plant"},
	"internal/audit":    {"internal/limit"},
	"internal/extsort":  {},
	"internal/oidc":     {"internal/auth"},
	oidctest:            {},
	"internal/dump":     {"internal/plant"},
	"internal/move":     {"internal/audit", "internal/auth", "internal/store"},
	"internal/store":    {"internal/plant", "internal/audit", "internal/auth"},
	writepath:           {"internal/plant", "internal/auth", "internal/store", tracing},
	tracing:             {},
	tracetest:           {},
	browsertest:         {},
	storetest:           {"internal/plant", "internal/audit", "internal/auth", "internal/store"},
	"internal/webhook":  {"internal/plant", "internal/audit", "internal/store"},
	"internal/safefile": {},
	"internal/acme":     {"internal/safefile"},
	"internal/backup": {
		"internal/audit", "internal/safefile", "internal/s3", embeddedEngine, backupfile, dbfile, journal,
	},
	"internal/s3":     {},
	s3test:            {childtest},
	pebbletest:        {childtest},
	"internal/apidoc": {"internal/plant"},
	"internal/listen": {"internal/limit"},
	"internal/limit":  {},
	sqlite3:           {},
	journal:           {"internal/plant", "internal/store"},
	dbfile:            {"internal/plant", "internal/audit", "internal/store", "internal/safefile", sqlite3, journal},
	backupfile: {
		"internal/audit", "internal/auth", "internal/store", "internal/safefile", sqlite3, dbfile, journal,
	},
	embeddedEngine: {
		"internal/plant", "internal/audit", "internal/auth", "internal/store", "internal/safefile", sqlite3, dbfile,
		journal, tracing,
	},
	sqlitetest:          {"internal/plant", "internal/audit", "internal/auth", "internal/store", sqlite3, embeddedEngine},
	"internal/postgres": {"internal/plant", "internal/audit", "internal/auth", "internal/store", tracing},
	pgtest:              {childtest},
	childtest:           {},
	"internal/certs...": {},
	"internal/server": {
		"internal/plant", "internal/apidoc", "internal/audit", "internal/auth", writepath, "internal/listen",
		"internal/limit", tracing,
	},
	"internal/admin": {
		"internal/plant", "internal/audit", "internal/auth", "internal/oidc", "internal/store", writepath, "internal/backup",
		"internal/webhook", "internal/dump", "internal/importer", backupfile,
	},
	"internal/adminapi": {
		"internal/plant", "internal/audit", "internal/auth", "internal/store", writepath, "internal/server", "internal/admin",
		"internal/dump", "internal/importer", "internal/apidoc",
	},
	"internal/importer": {"internal/plant", "internal/dump", "internal/store", "internal/extsort"},
	"internal/console": {
		"internal/plant", "internal/audit", "internal/auth", "internal/oidc", "internal/store", writepath, "internal/server",
		"internal/admin", "internal/adminapi", "internal/dump", "internal/importer", "internal/apidoc",
		tracing,
	},
	"internal/terminal": {"internal/safefile"},
	ptytest:             {},
	"internal/config": {
		"internal/plant", "internal/auth", "internal/store", "internal/postgres", "internal/server", "internal/acme",
		"internal/s3", "internal/backup", "internal/webhook", "internal/oidc", "internal/terminal",
	},
	"internal/serve": {anything},
	"internal/remote": {
		"internal/plant", "internal/audit", "internal/auth", "internal/store", "internal/admin", "internal/config",
		"internal/terminal",
	},
	"cmd...": {anything},
	"site":   {},
}

// testsMayAdd are the packages that all tests may import too: the suite of the engines, the engine that needs no other
// program, so that tests need no fake of it, the PostgreSQL server, the issuer of JWTs, the collector and the S3 server
// for tests.
var testsMayAdd = []string{
	storetest, embeddedEngine, pgtest, certstest, oidctest, pebbletest, tracetest, s3test, browsertest, ptytest,
}

// testsOfMayAdd are the packages that the tests of one package may import beyond testsMayAdd.
var testsOfMayAdd = map[string][]string{
	"client":            {"internal/plant"},
	"internal/backup":   {"internal/plant", "internal/store"},
	embeddedEngine:      {backupfile, sqlitetest},
	dbfile:              {"internal/auth", backupfile, sqlitetest},
	backupfile:          {"internal/plant", sqlitetest},
	"internal/terminal": {"internal/plant"},
	"internal/move":     {"internal/plant", "internal/postgres"},
	"internal/acme":     {"internal/postgres"},
	"internal/postgres": {writepath},
	"internal/server":   {"internal/store", "internal/oidc", "internal/admin", "internal/adminapi"},
	"internal/admin":    {"internal/postgres"},
	"internal/adminapi": {"internal/listen", "internal/backup", "internal/webhook", sqlitetest},
	"internal/console":  {"internal/listen", "internal/postgres", "internal/webhook", "internal/backup", sqlitetest},
}

// onlyStandardLibrary are the packages that import no other module, because most packages, or other programs, import
// them.
var onlyStandardLibrary = []string{"client", "internal/plant", "internal/safefile"}

// onlyInTests are the direct dependencies that only tests link.
var onlyInTests = []string{
	"github.com/chromedp/cdproto",
	"github.com/chromedp/chromedp",
	"github.com/getkin/kin-openapi",
	"github.com/google/go-cmp",
	"github.com/rogpeppe/go-internal",
	"pgregory.net/rapid",
}

func TestImportsFollowTheTable(t *testing.T) {
	t.Parallel()
	for _, file := range goFiles(t) {
		allowed, known := rowOf(file.dir)
		if !known && file.dir != "." {
			t.Errorf("%s: package %s has no row in mayImport: add one", file.path, file.dir)
			continue
		}
		if file.test {
			itself := []string{file.dir} // an external test package imports its package
			allowed = slices.Concat(allowed, testsMayAdd, testsOfMayAdd[file.dir], itself)
		}
		for _, imported := range file.imports {
			inside, ok := strings.CutPrefix(imported, module+"/")
			switch {
			case ok && !matchesAny(allowed, inside):
				t.Errorf("%s imports %s: the table allows %s only %q", file.path, inside, file.dir, allowed)
			case !ok && !file.test && slices.Contains(onlyStandardLibrary, file.dir) && !isStandardLibrary(imported):
				t.Errorf("%s imports %s: %s imports the standard library only", file.path, imported, file.dir)
			}
		}
	}
}

func TestRowsHavePackages(t *testing.T) {
	t.Parallel()
	for name := range mayImport {
		if _, err := os.Stat(strings.TrimSuffix(name, "...")); err != nil {
			t.Errorf("mayImport has a row for %s, which does not exist", name)
		}
	}
}

func TestTestingStaysOutOfTheProgram(t *testing.T) {
	t.Parallel()
	for _, file := range goFiles(t) {
		if file.test || file.dir == storetest || file.dir == sqlitetest {
			continue
		}
		for _, imported := range file.imports {
			if first, _, _ := strings.Cut(imported, "/"); first == "testing" {
				t.Errorf("%s imports %s: only tests, %s and %s may", file.path, imported, storetest, sqlitetest)
			}
		}
	}
}

// docs/explanation/decisions.md has a table row with the reason for each module that go.mod requires directly.
func TestDependenciesHaveReasons(t *testing.T) {
	t.Parallel()
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

// goFile holds the properties of a Go file that the rules use.
type goFile struct {
	path, dir string
	test      bool
	imports   []string
}

// goFiles parses all Go files of the module, including files for other systems.
func goFiles(t *testing.T) []goFile {
	t.Helper()
	var all []goFile
	for _, name := range files(t, ".go") {
		tree, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		file := goFile{
			path: name,
			dir:  filepath.ToSlash(filepath.Dir(name)),
			test: strings.HasSuffix(name, "_test.go"),
		}
		for _, spec := range tree.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			file.imports = append(file.imports, imported)
		}
		all = append(all, file)
	}
	return all
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

// rowOf returns the packages that the package in dir may import, and whether mayImport has a row for it.
func rowOf(dir string) (allowed []string, known bool) {
	for name, row := range mayImport {
		if matchesAny([]string{name}, dir) {
			return row, true
		}
	}
	return nil, false
}

func matchesAny(patterns []string, dir string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		top, deep := strings.CutSuffix(pattern, "...")
		return pattern == anything || dir == top || deep && strings.HasPrefix(dir, top+"/")
	})
}

// isStandardLibrary reports whether the first element of an import path has no dot.
func isStandardLibrary(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
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
