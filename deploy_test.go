package plantstore_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// alertRule is an alert of deploy/prometheus/plantstore.yml.
type alertRule struct {
	Alert       string
	For         time.Duration
	Labels      map[string]string
	Annotations map[string]string
}

// runbook returns the page of an alert. A package installs the pages below the directory that the URL names.
func (a *alertRule) runbook(t *testing.T) string {
	t.Helper()
	page, ok := strings.CutPrefix(a.Annotations["runbook_url"], "file:///usr/share/plantstore/")
	if !ok {
		t.Errorf("the runbook_url of %s is %q, want a file of the package", a.Alert, a.Annotations["runbook_url"])
	}
	return page
}

func alertRules(t *testing.T) (alerts []alertRule) {
	t.Helper()
	var file struct{ Groups []struct{ Rules []alertRule } }
	if err := yaml.Unmarshal([]byte(read(t, "deploy/prometheus/plantstore.yml")), &file); err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			if rule.Alert != "" {
				alerts = append(alerts, rule)
			}
		}
	}
	if len(alerts) < 20 {
		t.Fatalf("%d alerts; want more", len(alerts))
	}
	return alerts
}

// TestAlertTexts checks that each alert has a severity, and tells an operator the measured value, since when, and what
// clients notice.
func TestAlertTexts(t *testing.T) {
	t.Parallel()
	clients := regexp.MustCompile(`\b([Cc]lients|every client)\b`)
	period := regexp.MustCompile(`in the last (\d+ minutes|hour|\d+ hours|day|\d+ days)`)
	for _, rule := range alertRules(t) {
		summary, description := rule.Annotations["summary"], rule.Annotations["description"]
		if severity := rule.Labels["severity"]; severity != "page" && severity != "ticket" {
			t.Errorf("%s has severity %q, want page or ticket", rule.Alert, severity)
		}
		if !strings.Contains(summary, "$value") || strings.HasSuffix(summary, ".") {
			t.Errorf("the summary of %s has no $value, or ends with a period: %s", rule.Alert, summary)
		}
		since := period.MatchString(summary)
		if rule.For > 0 {
			since = strings.Contains(summary+description, fmt.Sprintf("at least %.0f minutes", rule.For.Minutes()))
		}
		timed := strings.Contains(summary, "humanizeDuration") || strings.Contains(summary, "within 7 days")
		if !since && !timed {
			t.Errorf("%s does not say since when: %s. %s", rule.Alert, summary, description)
		}
		if !clients.MatchString(description) {
			t.Errorf("the description of %s does not say what clients notice: %s", rule.Alert, description)
		}
	}
}

// TestAlertsHaveRunbooks checks that the title of each alert's runbook is the name of the alert, and that each runbook
// has an alert.
func TestAlertsHaveRunbooks(t *testing.T) {
	t.Parallel()
	named := map[string]bool{}
	for _, rule := range alertRules(t) {
		runbook := rule.runbook(t)
		if title, _, _ := strings.Cut(read(t, runbook), "\n"); title != "# "+rule.Alert {
			t.Errorf("the first line of %s is %q, want %q", runbook, title, "# "+rule.Alert)
		}
		named[runbook] = true
	}
	for _, page := range files(t, ".md") {
		if strings.HasPrefix(page, "docs/runbooks/") && !named[page] {
			t.Errorf("%s is the runbook of no alert", page)
		}
	}
}

// TestIndexHasTheAlerts checks that the index of the pages has each alert, those that can page before the others.
func TestIndexHasTheAlerts(t *testing.T) {
	t.Parallel()
	_, index, _ := strings.Cut(read(t, "docs/README.md"), "### Alerts that page\n")
	pages, tickets, found := strings.Cut(index, "### Tickets\n")
	if !found {
		t.Fatal("docs/README.md lacks the headings of the alerts")
	}
	canPage := map[string]bool{}
	for _, rule := range alertRules(t) {
		canPage[rule.Alert] = canPage[rule.Alert] || rule.Labels["severity"] == "page"
	}
	for _, rule := range alertRules(t) {
		list := tickets
		if canPage[rule.Alert] {
			list = pages
		}
		item := "\n- [" + rule.Alert + "](" + strings.TrimPrefix(rule.runbook(t), "docs/") + "): "
		if !strings.Contains(list, item) {
			t.Errorf("docs/README.md has no item %q at its place", item)
		}
	}
}

// TestRunbooksHaveTheirSections checks the sections, whose order an operator relies on.
func TestRunbooksHaveTheirSections(t *testing.T) {
	t.Parallel()
	want := []string{"For clients", "What to do now", "When it is over"}
	section := regexp.MustCompile(`(?m)^## (.*)$`)
	for _, page := range files(t, ".md") {
		if !strings.HasPrefix(page, "docs/runbooks/") {
			continue
		}
		var got []string
		for _, match := range section.FindAllStringSubmatch(read(t, page), -1) {
			got = append(got, match[1])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s has the sections %q, want %q", page, got, want)
		}
	}
}

// TestEachAlertIsTested checks that the tests of the rules have, for each alert and each of its labels, a time at which
// it fires, and a time at which it does not.
func TestEachAlertIsTested(t *testing.T) {
	t.Parallel()
	type fires struct{ alert, severity, window string }
	tested := map[fires]bool{}
	silent := map[string]bool{}
	paths, err := filepath.Glob("deploy/prometheus/*.test.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		var file struct {
			Tests []struct {
				Checks []struct {
					Alert  string `yaml:"alertname"`
					Alerts []struct {
						Labels map[string]string `yaml:"exp_labels"`
					} `yaml:"exp_alerts"`
				} `yaml:"alert_rule_test"`
			}
		}
		if err := yaml.Unmarshal([]byte(read(t, path)), &file); err != nil {
			t.Fatal(err)
		}
		for _, test := range file.Tests {
			for _, check := range test.Checks {
				silent[check.Alert] = silent[check.Alert] || len(check.Alerts) == 0
				for _, a := range check.Alerts {
					tested[fires{check.Alert, a.Labels["severity"], a.Labels["window"]}] = true
				}
			}
		}
	}
	for _, rule := range alertRules(t) {
		want := fires{rule.Alert, rule.Labels["severity"], rule.Labels["window"]}
		if !tested[want] || !silent[rule.Alert] {
			t.Errorf("%+v fires in a test: %t; does not fire in another: %t", want, tested[want], silent[rule.Alert])
		}
	}
}

// panel is the part of a panel of Grafana that TestDashboard checks.
type panel struct {
	ID      int
	Title   string
	Type    string
	GridPos struct{ X, Y, W, H int }
	Targets []struct {
		Datasource struct{ UID string }
		RefID      string
	}
}

// TestDashboard checks that the panels have their own numbers and places, and the data source of the variable.
func TestDashboard(t *testing.T) {
	t.Parallel()
	var dashboard struct {
		ID            *int
		UID           string
		SchemaVersion int
		Panels        []panel
		Templating    struct{ List []struct{ Name, Type string } }
	}
	if err := json.Unmarshal([]byte(read(t, "deploy/grafana/plantstore.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	variables := dashboard.Templating.List
	if dashboard.ID != nil || dashboard.UID == "" || dashboard.SchemaVersion < 39 || len(variables) != 2 ||
		variables[0].Type != "datasource" || variables[0].Name != "datasource" || variables[1].Name != "instance" {
		t.Errorf("got id %v, uid %q, schema %d, variables %+v",
			dashboard.ID, dashboard.UID, dashboard.SchemaVersion, variables)
	}
	ids := map[int]bool{}
	type cell struct{ x, y int }
	taken := map[cell]string{}
	for _, p := range dashboard.Panels {
		if ids[p.ID] || p.Title == "" || p.Type != "row" && len(p.Targets) == 0 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %d %q has the number of another, no title, no target, or no place", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := cell{p.GridPos.X + x, p.GridPos.Y + y}
				if other, ok := taken[at]; ok {
					t.Fatalf("%q covers %q", p.Title, other)
				}
				taken[at] = p.Title
			}
		}
		for _, target := range p.Targets {
			if target.Datasource.UID != "${datasource}" || target.RefID == "" {
				t.Errorf("%q has a target with the data source %q", p.Title, target.Datasource.UID)
			}
		}
	}
}
