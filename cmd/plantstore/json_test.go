package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// volatile is what differs from run to run: the form that each member has, and what stands for it in a golden file. A
// member that does not have its form is left as it is, and so differs from the golden file.
var volatile = []struct {
	member      *regexp.Regexp
	placeholder string
}{
	{regexp.MustCompile(`"(\w+_at)":"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z"`), `"$1":"TIME"`},
	{regexp.MustCompile(`"store":"[0-9a-f]+"`), `"store":"STORE"`},
	{regexp.MustCompile(`"bytes":[1-9][0-9]*`), `"bytes":4096`},
	{regexp.MustCompile(`"sha256":"[0-9a-f]{64}"`), `"sha256":"SHA-256"`},
}

// settled returns JSON with placeholders for all that is volatile, and for the test's directory.
func settled(text, dir string) string {
	for _, v := range volatile {
		text = v.member.ReplaceAllString(text, v.placeholder)
	}
	return strings.ReplaceAll(text, dir+"/", "DIR/")
}

// jsonRun is one run of a command with --json.
type jsonRun struct {
	golden string // the name of its golden file
	args   []string
	code   int
}

// What each command prints with --json is kept as a file; -update writes them anew.
func TestJSON(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := filepath.Join(dir, "plantstore.db")
	plants := filepath.Join(dir, "plants.jsonl")
	writeFileText(t, plants, `{"id":1,"name":"Salix <alba> & \"caprea\"","tag":""}`+"\n"+`{"id":9223372036854775807,"name":"カエデ"}`+"\n")
	var out, stderr bytes.Buffer
	if code := run(t.Context(), []string{"import", plants, "--create", "--db", db}, nil, nil, &out, &stderr); code != exitOK {
		t.Fatal(code, stderr.String())
	}
	for _, r := range []jsonRun{
		{"get", []string{"get", "1", "--db", db}, exitOK},
		{"list", []string{"list", "--db", db}, exitOK},
		{"backup", []string{"backup", filepath.Join(dir, "copy.db"), "--db", db}, exitOK},
		{"restore", []string{"restore", filepath.Join(dir, "copy.db"), "--db", filepath.Join(dir, "restored.db")}, exitOK},
		{"migrate", []string{"migrate", "--db", db}, exitOK},
	} {
		var out, stderr bytes.Buffer
		code := run(t.Context(), append(r.args, "--json"), nil, nil, &out, &stderr)
		if code != r.code || (stderr.Len() > 0) != (r.code != exitOK) {
			t.Errorf("%s: got %d and %q, want %d", r.golden, code, &stderr, r.code)
		}
		checkGoldenJSON(t, r.golden, settled(out.String(), dir))
	}
}

// The version of the program itself depends on how it was built, so this one is made up.
func TestJSONVersion(t *testing.T) {
	t.Parallel()
	v := versionFacts{Version: "1.2.3", GoVersion: "go1.26.8", OS: "linux", Arch: "amd64", SQLiteVersion: "3.53.4"}
	var out bytes.Buffer
	if err := writeJSON(&out, v); err != nil {
		t.Fatal(err)
	}
	v.setCommit("5363298c0ffee5363298c0ffee5363298c0ffee5", "2026-01-02T04:04:05+01:00", "false", nil)
	if err := writeJSON(&out, v); err != nil {
		t.Fatal(err)
	}
	checkGoldenJSON(t, "version", out.String())
}

func checkGoldenJSON(t *testing.T, name, got string) {
	t.Helper()
	checkJSONRules(t, name, got)
	file := filepath.Join("testdata", "json", name+".json")
	if *update {
		writeFileText(t, file, got)
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// checkJSONRules checks what holds for every line of JSON (see json.go), and that the page describes each member.
func checkJSONRules(t *testing.T, name, text string) {
	t.Helper()
	described, err := os.ReadFile("../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			t.Errorf("%s: %v: %s", name, err, line)
		}
		for _, member := range slices.Sorted(maps.Keys(object)) {
			value := object[member]
			switch {
			case !bytes.Contains(described, []byte("| `"+member+"` |")):
				t.Errorf("%s: docs/json.md does not describe %s", name, member)
			case value == nil:
				t.Errorf("%s: %s is null", name, member)
			case strings.HasSuffix(member, "_at"):
				if text, ok := value.(string); !ok || text != "TIME" && !strings.HasSuffix(text, "Z") {
					t.Errorf("%s: %s is no time in UTC: %v", name, member, value)
				}
			case member != strings.ToLower(member):
				t.Errorf("%s: %s is not in snake_case", name, member)
			}
		}
	}
}
