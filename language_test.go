package plantstore_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// wordRules is vale's list of words that the project does not use. vale checks pages and comments; the tests here check
// the texts that vale does not read.
const wordRules = "tools/vale/PlantStore/Words.yml"

// clause begins a subject or an object, unless the text is a question.
var clause = regexp.MustCompile(`(?i)\b(what|of which|that which)\b`)

// privateNames are words that the names of the code do not contain, beside those of wordRules.
var privateNames = []string{
	"begun", "doubt", "doubts", "engage", "engaged", "exchange", "flying", "gather", "gathered", "gathering", "goal",
	"lately", "meters", "unfollow",
}

func TestNamesAndStringsArePlain(t *testing.T) {
	t.Parallel()
	rules := readWordRules(t)
	for _, name := range textFiles(t, ".go") {
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		own := filepath.Base(name) == "language_test.go"
		var check func(n ast.Node) bool
		check = func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr: // a selected name is checked at its declaration
				ast.Inspect(n.X, check)
				return false
			case *ast.Ident:
				words := splitName(n.Name)
				if word := rules.FindString(words); word != "" {
					t.Errorf("%s: the name %s contains %q", set.Position(n.Pos()), n.Name, word)
				}
				for word := range strings.FieldsSeq(words) {
					if slices.Contains(privateNames, word) {
						t.Errorf("%s: the name %s contains %q", set.Position(n.Pos()), n.Name, word)
					}
				}
			case *ast.BasicLit:
				if n.Kind == token.STRING && !own {
					checkText(t, rules, set.Position(n.Pos()).String(), n.Value)
				}
			}
			return true
		}
		ast.Inspect(tree, check)
	}
}

// Scripts, the Makefile, the API document and SQL hold comments and messages.
func TestScriptsArePlain(t *testing.T) {
	t.Parallel()
	rules := readWordRules(t)
	for _, name := range textFiles(t, ".sh", ".txtar", ".yaml", ".yml", ".service", ".html", ".css", ".js", "") {
		if filepath.Dir(name) == filepath.Dir(wordRules) {
			continue
		}
		for i, line := range strings.Split(read(t, name), "\n") {
			checkText(t, rules, fmt.Sprintf("%s:%d", name, i+1), line)
		}
	}
}

func checkText(t *testing.T, rules *regexp.Regexp, at, text string) {
	t.Helper()
	if word := rules.FindString(text); word != "" {
		t.Errorf("%s: %q is not plain: %s", at, word, text)
	}
	if word := clause.FindString(text); word != "" && !strings.Contains(text, "?") {
		t.Errorf("%s: %q begins a clause that is a subject or an object: %s", at, word, text)
	}
}

// readWordRules returns the tokens of wordRules as one expression.
func readWordRules(t *testing.T) *regexp.Regexp {
	t.Helper()
	_, list, ok := strings.Cut(read(t, wordRules), "\ntokens:\n")
	var tokens []string
	for line := range strings.Lines(list) {
		if item, isItem := strings.CutPrefix(strings.TrimSpace(line), "- "); isItem {
			tokens = append(tokens, item)
		}
	}
	if !ok || len(tokens) < 10 {
		t.Fatalf("%s holds only the tokens %q", wordRules, tokens)
	}
	return regexp.MustCompile(`(?i)\b(?:` + strings.Join(tokens, "|") + `)\b`)
}

// splitName returns the words of a Go name in lower case, with spaces between them.
func splitName(name string) string {
	var b strings.Builder
	var last rune
	for _, r := range name {
		if unicode.IsUpper(r) && !unicode.IsUpper(last) || r == '_' {
			b.WriteByte(' ')
		}
		if r != '_' {
			b.WriteRune(unicode.ToLower(r))
		}
		last = r
	}
	return b.String()
}

// textFiles returns the files with one of these extensions in all modules, with test data and without hidden folders.
// The fuzz corpora hold no text of the project.
func textFiles(t *testing.T, extensions ...string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == "dist", // the files that make dist builds
			entry.IsDir() && (entry.Name() == "fuzz" || len(name) > 1 && strings.HasPrefix(entry.Name(), ".")):
			return fs.SkipDir
		case entry.Type().IsRegular() && slices.Contains(extensions, filepath.Ext(name)):
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(names) == 0 {
		t.Fatalf("found no file with an extension of %q", extensions)
	}
	return names
}
