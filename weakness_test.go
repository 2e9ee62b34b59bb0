package plantstore_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestWeaknessesApply shows that the old text of each weakness that a fault harness builds into the program occurs in
// its file once. Without this test, only the long form of a harness would detect a stale weakness.
func TestWeaknessesApply(t *testing.T) {
	t.Parallel()
	sources, err := filepath.Glob("faults/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	weaknesses := 0
	for _, source := range sources {
		tree, err := parser.ParseFile(token.NewFileSet(), source, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for node := range ast.Preorder(tree) {
			file, old := weaknessOf(t, node)
			if old == "" {
				continue
			}
			weaknesses++
			text, err := os.ReadFile(filepath.FromSlash(file))
			if err != nil {
				t.Error(err)
			}
			if n := strings.Count(string(text), old); n != 1 {
				t.Errorf("%s: %s has this text %d times, want once: %q", source, file, n, old)
			}
		}
	}
	if weaknesses < 10 {
		t.Errorf("%d weaknesses, want at least 10", weaknesses)
	}
}

// weaknessOf returns the fields File and Old of a rig.Weakness with literals; empty for every other node.
func weaknessOf(t *testing.T, node ast.Node) (file, old string) {
	t.Helper()
	if call, ok := node.(*ast.CallExpr); ok {
		return failpointOf(t, call)
	}
	composite, ok := node.(*ast.CompositeLit)
	if !ok {
		return "", ""
	}
	fields := map[string]string{}
	for _, element := range composite.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			return "", ""
		}
		key, isName := pair.Key.(*ast.Ident)
		value, isLiteral := pair.Value.(*ast.BasicLit)
		if !isName || !isLiteral || value.Kind != token.STRING {
			continue
		}
		text, err := strconv.Unquote(value.Value)
		if err != nil {
			t.Fatal(err)
		}
		fields[key.Name] = text
	}
	if _, replaces := fields["New"]; !replaces {
		return "", ""
	}
	return fields["File"], fields["Old"]
}

// failpointOf returns the file and the text in the call at(NAME, FILE, TEXT) of literals; empty for every other call.
func failpointOf(t *testing.T, call *ast.CallExpr) (file, old string) {
	t.Helper()
	const argumentsOfAt = 3
	name, isName := call.Fun.(*ast.Ident)
	if !isName || name.Name != "at" || len(call.Args) != argumentsOfAt {
		return "", ""
	}
	texts := [argumentsOfAt]string{}
	for i, argument := range call.Args {
		literal, isLiteral := argument.(*ast.BasicLit)
		if !isLiteral || literal.Kind != token.STRING {
			return "", ""
		}
		var err error
		if texts[i], err = strconv.Unquote(literal.Value); err != nil {
			t.Fatal(err)
		}
	}
	return texts[1], texts[2]
}
