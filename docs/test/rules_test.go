package pages

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const deployDir = "../../deploy"

// promtool runs promtool, and returns its output as the error if it fails.
func promtool(t *testing.T, arguments ...string) error {
	t.Helper()
	_, err := exec.LookPath("promtool")
	need(t, err == nil, "promtool, of Debian's package prometheus")
	out, err := exec.Command("promtool", arguments...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("promtool %s: %w\n%s", strings.Join(arguments, " "), err, out)
	}
	return nil
}

// TestRules runs the tests of the rules: series on which each alert fires, and series on which it almost fires.
func TestRules(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(deployDir + "/prometheus/*.test.yml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test of the rules: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			if err := promtool(t, "test", "rules", file); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestExpressionsOfTheDashboard parses each expression as that of a recording rule.
func TestExpressionsOfTheDashboard(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(deployDir + "/grafana/plantstore.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Annotations struct{ List []struct{ Expr string } }
		Panels      []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	var expressions []string
	for _, annotation := range dashboard.Annotations.List {
		if annotation.Expr != "" {
			expressions = append(expressions, annotation.Expr)
		}
	}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			expressions = append(expressions, target.Expr)
		}
	}
	if len(expressions) < 50 {
		t.Fatalf("%d expressions; want more", len(expressions))
	}
	if err := checkExpressions(t, expressions); err != nil {
		t.Error(err)
	}
	if checkExpressions(t, []string{"sum(plantstore_plants"}) == nil {
		t.Error("promtool accepted a malformed expression")
	}
}

// checkExpressions returns an error unless Prometheus can parse the expressions. Grafana replaces their variables.
func checkExpressions(t *testing.T, expressions []string) error {
	t.Helper()
	variables := strings.NewReplacer("$__rate_interval", "1m", "$instance", ".*")
	var rules strings.Builder
	rules.WriteString("groups:\n  - name: dashboard\n    rules:\n")
	for i, expression := range expressions {
		fmt.Fprintf(&rules, "      - {record: expression%d, expr: %q}\n", i, variables.Replace(expression))
	}
	file := filepath.Join(t.TempDir(), "dashboard.yml")
	if err := os.WriteFile(file, []byte(rules.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return promtool(t, "check", "rules", file)
}
