package main

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const (
	rulesFile     = "../../deploy/prometheus/plantstore.yml"
	dashboardFile = "../../deploy/grafana/plantstore.json"
)

// serverSeries are the series of servers: the values of each label of each metric.
type serverSeries map[string]map[string]map[string]bool

var (
	seriesLine  = regexp.MustCompile(`(?m)^([a-z]\w*)(?:\{(.*)\})? \S+$`)
	seriesLabel = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// seriesOf returns the series of scrapes, and those that Prometheus itself makes: up, ALERTS and the recorded ones.
func seriesOf(scrapes string, recorded []string) serverSeries {
	all := serverSeries{}
	add := func(name, labels string) {
		if all[name] == nil {
			all[name] = map[string]map[string]bool{"job": {"plantstore": true}, "instance": {}}
		}
		for _, label := range seriesLabel.FindAllStringSubmatch(labels, -1) {
			if all[name][label[1]] == nil {
				all[name][label[1]] = map[string]bool{}
			}
			all[name][label[1]][label[2]] = true
		}
	}
	for _, line := range seriesLine.FindAllStringSubmatch(scrapes, -1) {
		add(line[1], line[2])
	}
	add("up", "")
	add("ALERTS", `alertname="PlantStoreDown",alertstate="firing",severity="page"`)
	for _, name := range recorded {
		add(name, "")
	}
	return all
}

// shownExpressions returns the expressions of the rules and of the dashboard with the labels that their texts show, and
// the names that the rules record.
func shownExpressions(t *testing.T) (shown map[string]string, recorded []string) {
	t.Helper()
	var rules struct {
		Groups []struct {
			Rules []struct{ Record, Expr string }
		}
	}
	var dashboard struct {
		Annotations, Templating struct {
			List []struct{ Expr, Definition, TitleFormat, TextFormat string }
		}
		Panels []struct {
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	rulesText, err1 := os.ReadFile(rulesFile)
	dashboardText, err2 := os.ReadFile(dashboardFile)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if err := yaml.Unmarshal(rulesText, &rules); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(dashboardText, &dashboard); err != nil {
		t.Fatal(err)
	}
	shown = map[string]string{}
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			shown[rule.Expr] = "" // promtool compares the summaries
			if rule.Record != "" {
				recorded = append(recorded, rule.Record)
			}
		}
	}
	for _, entry := range slices.Concat(dashboard.Annotations.List, dashboard.Templating.List) {
		shown[entry.Expr+entry.Definition] = entry.TitleFormat + entry.TextFormat
	}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			shown[target.Expr] = target.LegendFormat
		}
	}
	delete(shown, "") // the data source has no expression
	return shown, recorded
}

var (
	selector   = regexp.MustCompile(`([a-zA-Z_:][\w:]*)\s*\{([^}]*)\}`)
	matcher    = regexp.MustCompile(`(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"`)
	grouping   = regexp.MustCompile(`\b(?:by|on|ignoring|without)\s*\(([^)]*)\)`)
	metricName = regexp.MustCompile(`\b[a-zA-Z_:][\w:]*\b(\s*\()?`)
	shownLabel = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)
	noMetric   = regexp.MustCompile(`\[[^\]]*\]|"[^"]*"`)
	operators  = []string{"and", "or", "unless", "offset", "bool", "instance"} // instance: argument of label_values
)

// faults returns the names and values of an expression that no server exposes.
func (all serverSeries) faults(expr, text string) (faults []string) {
	labels := map[string]bool{}
	rest := selector.ReplaceAllStringFunc(expr, func(s string) string {
		part := selector.FindStringSubmatch(s)
		for _, m := range matcher.FindAllStringSubmatch(part[2], -1) {
			if !all.matches(part[1], m[1], m[2], m[3]) {
				faults = append(faults, part[1]+"{"+m[0]+"}")
			}
		}
		return part[1]
	})
	wanted := shownLabel.FindAllStringSubmatch(text, -1)
	for _, group := range grouping.FindAllStringSubmatch(rest, -1) {
		for label := range strings.SplitSeq(group[1], ",") {
			wanted = append(wanted, []string{group[0], strings.TrimSpace(label)})
		}
	}
	rest = noMetric.ReplaceAllString(grouping.ReplaceAllString(rest, ""), "")
	for _, name := range metricName.FindAllStringSubmatch(rest, -1) {
		switch metric := all[name[0]]; {
		case name[1] != "" || slices.Contains(operators, name[0]): // a function or an operator
		case metric == nil:
			faults = append(faults, name[0])
		default:
			for label := range maps.Keys(metric) {
				labels[label] = true
			}
		}
	}
	for _, label := range wanted {
		if !labels[label[1]] {
			faults = append(faults, "label "+label[1])
		}
	}
	return faults
}

// matches reports whether a series of the metric matches. Prometheus adds instance, whose value the dashboard selects.
func (all serverSeries) matches(metric, label, operator, value string) bool {
	values, ok := all[metric][label]
	if !ok || label == "instance" {
		return ok
	}
	if operator == "=" || operator == "!=" {
		return values[value]
	}
	pattern := regexp.MustCompile(`^(?:` + value + `)$`)
	return slices.ContainsFunc(slices.Collect(maps.Keys(values)), pattern.MatchString)
}

// checkSignals compares each metric, label and value of the rules and of the dashboard with scrapes of servers.
func checkSignals(t *testing.T, scrapes string) {
	t.Helper()
	shown, recorded := shownExpressions(t)
	all := seriesOf(scrapes, recorded)
	if len(shown) < 80 || len(all) < 60 {
		t.Errorf("%d expressions and %d metrics; want more", len(shown), len(all))
	}
	for expr, text := range shown {
		for _, fault := range all.faults(expr, text) {
			t.Errorf("no server exposes %s, in:\n%s\n%s", fault, expr, text)
		}
	}
	for expr, want := range map[string]string{ // a wrong expression must not pass
		`rate(plantstore_no_total[5m])`:                                "plantstore_no_total",
		`plantstore_connections_open{listener="private"}`:              `plantstore_connections_open{listener="private"}`,
		`plantstore_connections_open{zone=~".*"}`:                      `plantstore_connections_open{zone=~".*"}`,
		`plantstore_http_requests_total{status=~"6.."}`:                `plantstore_http_requests_total{status=~"6.."}`,
		`sum by (zone) (plantstore_connections_open)`:                  "label zone",
		`up{job="plantstore"} == 0 and on (job) plantstore_plants > 0`: "",
	} {
		if got := strings.Join(all.faults(expr, ""), " "); got != want {
			t.Errorf("%s: got %q, want %q", expr, got, want)
		}
	}
	if got := all.faults("up", "{{zone}}"); len(got) != 1 {
		t.Errorf("an unknown label in a legend: got %q", got)
	}
}
