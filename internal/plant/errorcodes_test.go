package plant_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"plantstore/internal/plant"
)

// codesInSource returns the value of every constant of type Code.
func codesInSource(t *testing.T) map[plant.Code]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "errorcodes.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	codes := map[plant.Code]string{}
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Code") {
			return true
		}
		typ, ok := spec.Type.(*ast.Ident)
		if !ok || typ.Name != "Code" || len(spec.Names) != 1 || len(spec.Values) != 1 {
			t.Errorf("%s: want a constant of type Code, alone on its line", spec.Names[0].Name)
			return true
		}
		value, ok := spec.Values[0].(*ast.BasicLit)
		if !ok {
			t.Errorf("%s: want a plain number", spec.Names[0].Name)
			return true
		}
		n, err := strconv.ParseInt(value.Value, 10, 32)
		if err != nil {
			t.Errorf("%s: %v", spec.Names[0].Name, err)
		}
		if other, ok := codes[plant.Code(n)]; ok {
			t.Errorf("%s and %s are the same number", spec.Names[0].Name, other)
		}
		codes[plant.Code(n)] = spec.Names[0].Name
		return true
	})
	return codes
}

func TestCatalogueIsClosed(t *testing.T) {
	t.Parallel()
	codes := codesInSource(t)
	if len(codes) < 40 {
		t.Fatalf("found only %d codes in errorcodes.go", len(codes))
	}
	entries := plant.Catalogue()
	for _, entry := range entries {
		if codes[entry.Code] == "" {
			t.Errorf("%d is in the catalogue, but is not a constant", entry.Code)
		}
		delete(codes, entry.Code)
	}
	for code, name := range codes {
		t.Errorf("%s (%d) is not in the catalogue, or is a duplicate", name, code)
	}
}

func TestCatalogueEntries(t *testing.T) {
	t.Parallel()
	entries := plant.Catalogue()
	form := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	names := map[string]bool{}
	for i, entry := range entries {
		if i > 0 && entry.Code <= entries[i-1].Code {
			t.Errorf("%d is not in ascending order", entry.Code)
		}
		if status := entry.Code.Status(); status < 400 || status > 505 {
			t.Errorf("%d: status %d is not an error", entry.Code, status)
		}
		if !form.MatchString(entry.Name) || names[entry.Name] {
			t.Errorf("%d: the name %q is not words joined by hyphens, or is a duplicate", entry.Code, entry.Name)
		}
		names[entry.Name] = true
		if text := entry.Meaning; !strings.HasSuffix(text, ".") || strings.TrimSpace(text) != text || len(text) < 10 {
			t.Errorf("%d: %q is not a sentence", entry.Code, text)
		}
	}
	entries[0].Name = "changed"
	if plant.Catalogue()[0].Name == "changed" {
		t.Error("a caller can change the catalogue")
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	for code, want := range map[plant.Code]int{
		plant.CodeBodyMissing: 400, plant.CodeBodyTooLarge: 413,
	} {
		if got := code.Status(); got != want {
			t.Errorf("%d: got status %d, want %d", code, got, want)
		}
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	var faults plant.Faults
	if err := faults.Err(); err != nil {
		t.Errorf("without faults: got %v, want nil", err)
	}
	faults.Add(plant.CodeTagWrongType, "third; got 3; 4")
	if got, want := faults.Err(), "third; got 3; 4"; got.Error() != want {
		t.Errorf("one fault: got %q, want %q", got, want)
	}
	faults.Add(plant.CodeIDMissing, "first")
	faults.Add(plant.CodeTagWrongType, "fourth")
	faults.Add(plant.CodeNameMissing, "second")
	want := plant.Error{Code: plant.CodeIDMissing, Message: "first; second; third, got 3; 4; fourth"}
	for range 2 {
		var got *plant.Error
		if err := faults.Err(); !errors.As(err, &got) || *got != want || err.Error() != want.Message {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	for range 100 {
		faults.Add(plant.CodeMemberTwice, "x")
	}
	if n := strings.Count(faults.Err().Error(), "x"); n != 12 {
		t.Errorf("got %d faults, want 16", n+4)
	}
}

func TestDifferences(t *testing.T) {
	t.Parallel()
	const (
		with        = "a plant with this id is stored with "
		nameDiffers = with + "a different name"
	)
	rosa := plant.Plant{Name: "Rosa"}
	shrub := plant.Plant{Name: "Rosa", Tag: plant.Tagged("shrub")}
	blank := plant.Plant{Name: "Rosa", Tag: plant.Tagged("")}
	for _, tt := range []struct {
		name         string
		sent, stored plant.Plant
		want         plant.Error
	}{
		{"same, no tag", rosa, rosa, plant.Error{}},
		{"same, tag", shrub, shrub, plant.Error{}},
		{"same, empty tag", blank, blank, plant.Error{}},
		{"name", plant.Plant{Name: "rosa"}, rosa, plant.Error{Code: plant.CodeDifferentName, Message: nameDiffers}},
		{"tag sent", shrub, rosa, plant.Error{Code: plant.CodeDifferentTag, Message: with + "no tag"}},
		{"empty tag sent", blank, rosa, plant.Error{Code: plant.CodeDifferentTag, Message: with + "no tag"}},
		{"tag stored", rosa, shrub, plant.Error{Code: plant.CodeDifferentTag, Message: with + "a tag"}},
		{"empty tag stored", rosa, blank, plant.Error{Code: plant.CodeDifferentTag, Message: with + "a tag"}},
		{"other tag", shrub, blank, plant.Error{Code: plant.CodeDifferentTag, Message: with + "a different tag"}},
		{
			"name and tag", shrub,
			plant.Plant{},
			plant.Error{Code: plant.CodeDifferentName, Message: nameDiffers + "; " + with + "no tag"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := plant.Differences(tt.sent, tt.stored)
			var got plant.Error
			if refusal := (*plant.Error)(nil); errors.As(err, &refusal) {
				got = *refusal
			}
			if got != tt.want || (err == nil) != (tt.want == plant.Error{}) {
				t.Errorf("got %d %q, want %d %q", got.Code, got.Message, tt.want.Code, tt.want.Message)
			}
		})
	}
}

func TestTag(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		tag  plant.Tag
		text string
		ok   bool
	}{{plant.Tag{}, "", false}, {plant.Tagged(""), "", true}, {plant.Tagged("shrub"), "shrub", true}} {
		if text, ok := tt.tag.Get(); text != tt.text || ok != tt.ok {
			t.Errorf("got %q, %t; want %q, %t", text, ok, tt.text, tt.ok)
		}
	}
	if (plant.Tag{}) == plant.Tagged("") {
		t.Error("no tag equals an empty tag")
	}
}
