package pages

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// typeFault matches an error of the TypeScript compiler in a file.
var typeFault = regexp.MustCompile(`(?m)^([\w-]+)\.ts\(.*$`)

// TestDashboardSchema compares the dashboard with the schema of the oldest supported version of Grafana and of the
// latest one: names, types and values of all members, also of the options of panels and of the queries.
func TestDashboardSchema(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"node", "npm"} {
		_, err := exec.LookPath(program)
		need(t, err == nil, program)
	}
	text, err := os.ReadFile(deployDir + "/grafana/plantstore.json")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/grafana")); err != nil {
		t.Fatal(err)
	}
	npmCI(t, dir)
	for version, query := range map[string]string{"grafana-11": "dataquery", "grafana-latest": "Dataquery"} {
		faults := typeFaults(t, dir, version, query, map[string]string{
			"dashboard": string(text),
			"control1":  strings.Replace(string(text), `"schemaVersion": 39`, `"schemaVersion": "39"`, 1),
			"control2":  strings.Replace(string(text), `"colorMode": "value"`, `"colorMode": "other"`, 1),
			"control3":  strings.Replace(string(text), `"expr": "`, `"expression": "`, 1),
			"control4":  strings.Replace(string(text), `"type": "stat"`, `"type": "singlestat"`, 1),
			"control5":  strings.Replace(string(text), `"drawStyle": "line"`, `"drawStyle": "lines"`, 1),
			"control6":  strings.Replace(string(text), `"refresh": 1`, `"refresh": 3`, 1),
			"control7":  strings.Replace(string(text), `"panels": []`, `"panel": []`, 1),
		})
		if fault := faults[version] + faults["dashboard"]; fault != "" {
			t.Errorf("%s: %s", version, fault)
		}
		for i := range 7 {
			if name := fmt.Sprint("control", i+1); faults[name] == "" {
				t.Errorf("%s: the compiler found no fault in %s; the test relies on it", version, name)
			}
		}
	}
}

// npmCI installs the packages of the lock file in the directory.
func npmCI(t *testing.T, dir string) {
	t.Helper()
	install := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
}

// typeFaults returns the first error of the compiler in each of the dashboards.
func typeFaults(t *testing.T, dir, version, query string, dashboards map[string]string) map[string]string {
	t.Helper()
	schema, err := os.ReadFile(filepath.Join(dir, "schema.ts"))
	if err != nil {
		t.Fatal(err)
	}
	names := strings.NewReplacer(`"SDK/`, `"`+version+`/`, "prometheus.QUERY", "prometheus."+query)
	sources := map[string]string{version: names.Replace(string(schema))}
	for name, text := range dashboards {
		sources[name] = fmt.Sprintf("import type {DashboardFile} from %q;\nexport const file: DashboardFile =\n%s;\n",
			"./"+version, text)
	}
	args := []string{
		"node_modules/typescript/bin/tsc", "--noEmit", "--strict", "--target", "esnext", "--module", "esnext",
		"--moduleResolution", "bundler",
	}
	for name, source := range sources {
		if err := os.WriteFile(filepath.Join(dir, name+".ts"), []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, name+".ts")
	}
	compile := exec.Command("node", args...)
	compile.Dir = dir
	out, err := compile.Output()
	faults := map[string]string{}
	for _, match := range typeFault.FindAllStringSubmatch(string(out), -1) {
		if faults[match[1]] == "" {
			faults[match[1]] = match[0]
		}
	}
	if len(faults) == 0 {
		t.Fatalf("the compiler found nothing: %v\n%s", err, out)
	}
	return faults
}
