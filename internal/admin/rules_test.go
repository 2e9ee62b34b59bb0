package admin_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"plantstore/internal/admin"
)

// notWarned are the runbooks without a warning, with the reason.
var notWarned = map[string]string{
	"creates-slow": "a chart shows the latency; only the requests of hours show that the objective is at risk",
	"down":         "a server that does not run notices nothing",
	"restarts":     "a server does not know how often it was started",
}

// TestRulesAgree shows that each runbook belongs to a warning or to a reason why there is none, and that the rules for
// Prometheus have the severities and the limits of the program.
func TestRulesAgree(t *testing.T) {
	t.Parallel()
	severities := admin.Severities()
	runbooks, err := filepath.Glob("../../docs/runbooks/*.md")
	if err != nil || len(runbooks) == 0 {
		t.Fatalf("got the runbooks %q, %v", runbooks, err)
	}
	var ids []string
	for _, file := range runbooks {
		id := strings.TrimSuffix(filepath.Base(file), ".md")
		ids = append(ids, id)
		if (severities[id] == nil) == (notWarned[id] == "") {
			t.Errorf("%s: want a warning, or a reason why there is none", id)
		}
	}
	for id := range severities {
		if !slices.Contains(ids, id) {
			t.Errorf("the warning %s has no page in docs/runbooks", id)
		}
	}
	text, err := os.ReadFile("../../deploy/prometheus/plantstore.yml")
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr         string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	limits := admin.RuleLimits()
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			name := rule.Alert + " " + rule.Labels["severity"]
			expr := strings.Join(strings.Fields(rule.Expr), " ")
			for _, part := range limits[name] {
				if !strings.Contains(expr, part) {
					t.Errorf("%s: the limit of the program is %q; the rule has %q", name, part, expr)
				}
			}
			delete(limits, name)
			id := strings.TrimSuffix(filepath.Base(rule.Annotations["runbook_url"]), ".md")
			// The rules page for failed creates by their share of the requests of hours.
			if rule.Labels["severity"] == "page" && severities[id] != nil && id != "creates-fail" &&
				!slices.Contains(severities[id], admin.Critical) {
				t.Errorf("%s wakes the operator, but no warning %s is critical", rule.Alert, id)
			}
		}
	}
	for name := range limits {
		t.Errorf("there is no rule %s", name)
	}
}
