package server_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A client that was generated from the specification works with this server: oasdiff finds no breaking change from the
// specification to the API document.
func TestNoBreakingChange(t *testing.T) {
	if testing.Short() {
		t.Skip("builds oasdiff, which takes longer than the program: run without -short")
	}
	t.Parallel()
	document := string(newDocument(t, "https://plants.example").JSON)
	for _, change := range breakingChanges(t, document) {
		t.Error(change)
	}
	for name, replace := range map[string][2]string{
		"closed enum":     {`"format": "int32",`, `"format": "int32", "enum": [40001],`},
		"bound of id":     {`"format": "int64",`, `"format": "int64", "maximum": 9223372036854775807,`},
		"name of a plant": {`"name": {`, `"title": {`},
	} {
		changed := strings.ReplaceAll(document, replace[0], replace[1])
		if len(breakingChanges(t, changed)) == 0 {
			t.Errorf("%s: oasdiff found no breaking change; the test relies on it", name)
		}
	}
}

// breakingChanges returns the changes that oasdiff reports as errors.
func breakingChanges(t *testing.T, document string) []string {
	t.Helper()
	revision := filepath.Join(t.TempDir(), "openapi.json")
	if err := os.WriteFile(revision, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "tool", "-modfile=../../tools/oasdiff.mod", "oasdiff",
		"breaking", "--fail-on", "ERR", "--format", "json", "testdata/specification.yaml", revision)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1 || len(out) == 0) {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	var changes []struct {
		ID, Text string
		Level    int
	}
	if len(out) > 0 {
		if err := json.Unmarshal(out, &changes); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
	}
	var texts []string
	for _, c := range changes {
		if c.Level >= 3 { // ERR
			texts = append(texts, c.ID+": "+c.Text)
		}
	}
	if (err != nil) != (len(texts) > 0) {
		t.Fatalf("oasdiff ended with %v and found %q\n%s", err, texts, &stderr)
	}
	return texts
}
