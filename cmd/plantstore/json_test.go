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

	"plantstore/internal/config"
	"plantstore/internal/terminal"
)

// volatile lists the members whose values differ between runs, with their form and the placeholder in a golden file.
// A value of another form gets no placeholder, so it differs from the golden file.
var volatile = []struct {
	member      *regexp.Regexp
	placeholder string
}{
	{regexp.MustCompile(`"(\w+_at)":"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z"`), `"$1":"TIME"`},
	{regexp.MustCompile(`"store":"[0-9a-f]+"`), `"store":"STORE"`},
	{regexp.MustCompile(`"bytes":[1-9][0-9]*`), `"bytes":4096`},
	{regexp.MustCompile(`"sha256":"[0-9a-f]{64}"`), `"sha256":"SHA-256"`},
	{regexp.MustCompile(`"secret":"pst_\w{49}"`), `"secret":"SECRET"`},
	{regexp.MustCompile(`"prefix":"pst_\w{4}"`), `"prefix":"PREFIX"`},
	{regexp.MustCompile(`"digest":"-?[0-9a-f]+"`), `"digest":"DIGEST"`},
	{regexp.MustCompile(`"from":\d+,"to":\d+`), `"from":2,"to":3`},
}

// withPlaceholders returns JSON with placeholders for volatile values and for the test's directory.
func withPlaceholders(text, dir string) string {
	for _, v := range volatile {
		text = v.member.ReplaceAllString(text, v.placeholder)
	}
	return strings.ReplaceAll(text, dir+"/", "DIR/")
}

// jsonRun is one run of a command with --json.
type jsonRun struct {
	golden string // the name of the golden file
	args   string // DIR is the test's directory; the default store is DIR/plantstore.db
	code   int
	keep   string // a part of each line in the golden file; empty for all lines
}

// jsonRuns are the runs of TestJSON, in order.
var jsonRuns = []jsonRun{
	{golden: "import", args: "import DIR/plants.jsonl --create --quiet"},
	{
		golden: "import_refused", args: "import DIR/refused.jsonl --on-conflict report --rejects DIR/rejects.jsonl",
		code: exitFailure,
	},
	{golden: "get", args: "get 1"},
	{golden: "list", args: "list"},
	{golden: "token_create", args: "token create web-shop --expires 90d"},
	{golden: "token_create_file", args: "token create till --no-expiry -o DIR/till.token"},
	{golden: "token_rotate", args: "token rotate web-shop --overlap 7d"},
	{golden: "token_revoke", args: "token revoke --id 1"},
	{golden: "token_list", args: "token list"},
	{golden: "export", args: "export -o DIR/plants.csv.gz"},
	{golden: "backup", args: "backup DIR/copy.db --quiet"},
	{golden: "restore", args: "restore DIR/copy.db --db DIR/restored.db --quiet"},
	{golden: "verify", args: "verify DIR/copy.db --quiet"},
	{golden: "verify_damaged", args: "verify DIR/damaged.db", code: exitFailure},
	{golden: "migrate", args: "migrate"},
	{golden: "move", args: "move --from DIR/plantstore.db --to DIR/moved.db --quiet"},
	{golden: "move_abandon", args: "move --abandon --from DIR/restored.db"},
	{golden: "config", args: "config --listen 127.0.0.1:80", keep: `listen"`},
}

// The golden files have the output of each command with --json; -update writes them.
func TestJSON(t *testing.T) {
	t.Parallel()
	dir := filepath.Clean(t.TempDir()) // as the commands print it
	const maple = `{"id":9223372036854775807,"name":"カエデ"}` + "\n"
	willow := `{"id":1,"name":"Salix <alba> & \"caprea\"","tag":""}` + "\n"
	writeFileText(t, filepath.Join(dir, "plants.jsonl"), willow+maple)
	writeFileText(t, filepath.Join(dir, "refused.jsonl"), `{"id":1,"name":"Salix"}`+"\n{}\n"+maple)
	for _, r := range jsonRuns {
		if r.golden == "verify_damaged" {
			damageCopy(t, dir)
		}
		args := append(strings.Fields(r.args), "--json")
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "DIR", dir)
		}
		if !strings.Contains(r.args, "--db") && !strings.HasPrefix(r.args, "move") {
			args = append(args, "--db", filepath.Join(dir, "plantstore.db"))
		}
		var out, stderr bytes.Buffer
		code := run(t.Context(), args, config.NewEnvironment(nil), nil, &out, &stderr)
		if warned := stderr.Len() > 0; code != r.code || warned != (r.code != exitOK || r.golden == "export") {
			t.Errorf("%s: got %d and %q, want %d", r.golden, code, &stderr, r.code)
		}
		var kept strings.Builder
		for line := range strings.Lines(withPlaceholders(out.String(), dir)) {
			if strings.Contains(line, r.keep) {
				kept.WriteString(line)
			}
		}
		checkGoldenJSON(t, r.golden, kept.String())
	}
}

// damageCopy makes a copy of the backup with a changed plant.
func damageCopy(t *testing.T, dir string) {
	t.Helper()
	backup, err := os.ReadFile(filepath.Join(dir, "copy.db"))
	if err != nil {
		t.Fatal(err)
	}
	damaged := filepath.Join(dir, "damaged.db")
	writeFileText(t, damaged, string(backup))
	if err := execSQL(damaged, "UPDATE plants SET name = 'Salix' WHERE id = 1"); err != nil {
		t.Fatal(err)
	}
}

// The version of the program depends on its build, so the test prints constant facts.
func TestJSONVersion(t *testing.T) {
	t.Parallel()
	v := versionFacts{Version: "1.2.3", GoVersion: "go1.26.8", OS: "linux", Arch: "amd64", SQLiteVersion: "3.53.4"}
	var out bytes.Buffer
	if err := terminal.WriteJSON(&out, v); err != nil {
		t.Fatal(err)
	}
	v.setCommit("5363298c0ffee5363298c0ffee5363298c0ffee5", "2026-01-02T04:04:05+01:00", "false", nil)
	if err := terminal.WriteJSON(&out, v); err != nil {
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

// checkJSONRules checks the rules of json.go for each line, and that the page describes each member.
func checkJSONRules(t *testing.T, name, text string) {
	t.Helper()
	described, err := os.ReadFile("../../docs/reference/json.md")
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
			case !bytes.Contains(described, []byte("\n- `"+member+"`")):
				t.Errorf("%s: docs/reference/json.md does not describe %s", name, member)
			case value == nil:
				t.Errorf("%s: %s is null", name, member)
			case strings.HasSuffix(member, "_at"):
				if text, ok := value.(string); !ok || text != "TIME" && !strings.HasSuffix(text, "Z") {
					t.Errorf("%s: %s is not a time in UTC: %v", name, member, value)
				}
			case member != strings.ToLower(member):
				t.Errorf("%s: %s is not in snake_case", name, member)
			}
		}
	}
}
