package main

import (
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	metricHelp = regexp.MustCompile(`(?m)^# HELP (plantstore_\w+) (.*)\n# TYPE \w+ (\w+)\n(.*)$`)
	labelName  = regexp.MustCompile(`(\w+)="`)
	adminURL   = regexp.MustCompile(`admin=(http://\S+)`)
)

// metric is a row of docs/reference/metrics.md.
type metric struct{ name, kind, labels, help string }

// TestReferenceMetrics compares docs/reference/metrics.md, the rules and the dashboard with the metrics of servers on a
// file and of a server on PostgreSQL.
func TestReferenceMetrics(t *testing.T) {
	t.Parallel()
	exposed := map[string]metric{}
	var scrapes strings.Builder
	scrape := func(s *testServer, token string) { scrapes.WriteString(metricsOf(t, s, token, exposed)) }
	add := func(s *testServer) { scrape(s, s.operator(t)) }
	copies := t.TempDir()
	owner := startServer(t, filepath.Join(t.TempDir(), "a.db"), "--backup-dir", copies,
		"--webhook-url", "https://plants.invalid/events", "--webhook-secret-file", webhookSecretFile(t))
	token := owner.operator(t)
	if _, err := owner.await(owner.stderr, "backup made"); err != nil { // the standby starts when the owner has ended
		t.Fatal(err)
	}
	scrape(owner, token)
	scrape(startServer(t, filepath.Join(t.TempDir(), "a.db"), "--backup-dir", copies, "--standby"), token)
	flags := append(newTLSFiles(t).flags(), "--oidc-issuer", "http://127.0.0.1:1", "--oidc-audience", "a")
	add(startServer(t, database(t), flags...))
	traced := append(cleanEnviron(), "OTEL_TRACES_EXPORTER=otlp")
	add(startServerIn(t, traced, filepath.Join(t.TempDir(), "c.db")))
	add(startServer(t, filepath.Join(t.TempDir(), "b.db"), "--acme-domain", "localhost",
		"--acme-email", "operator@plants.example", "--acme-directory", "https://127.0.0.1:1/directory"))
	checkSignals(t, scrapes.String())

	var page strings.Builder
	page.WriteString("# Metrics\n\n" + wrapped("`/metrics` on the [admin listener](admin-listener.md) serves these "+
		"metrics in the text format of Prometheus, with those of the Go runtime (`go_…`) and of the process (`process_…`). "+
		generatedBy("the metrics of a server on a file and of a server on PostgreSQL")))
	page.WriteString("\n" + tableHead("metric", "type", "meaning"))
	for _, name := range slices.Sorted(maps.Keys(exposed)) {
		m := exposed[name]
		name := m.name
		if m.labels != "" {
			name += "{" + m.labels + "}"
		}
		page.WriteString(tableRow(code(name), m.kind, strings.TrimSuffix(m.help, ".")))
	}
	page.WriteString(metricNotes)
	checkPage(t, "metrics.md", page.String())
}

var metricNotes = "\n" + wrapped("The names have the units: bytes, seconds, Unix time in seconds "+
	"(`_timestamp_seconds`), or what is counted. Labels have closed sets of values: the listeners, the routes, the "+
	"statuses and the [errors](errors.md).\n\n"+
	"A server has `plantstore_tls_…` with TLS, `plantstore_acme_…` with `--acme-domain`, `plantstore_oidc_…` with "+
	"`--oidc-issuer`, `plantstore_webhook_…` with `--webhook-url`, and `plantstore_trace_…` if it exports "+
	"[traces](traces.md). Only a server on a file has the metrics of the WAL, the checkpoints and the disk, and with "+
	"`--backup-dir` of the backups, and `plantstore_copy_…` unless `--backup-lag` is 0. A standby has "+
	"`plantstore_standby_…` instead. Only a server on PostgreSQL has "+
	"`plantstore_database_…`; `pool_max_conns` in its URL sets the maximum.\n\n"+
	"`address` is the URL of the webhook without its query. "+
	"`plantstore_credentials_expiring` omits rotated tokens, and tokens for a day or less. "+
	"`plantstore_http_request_duration_seconds` omits static files and profiles. "+
	"`plantstore_plants` is read once a minute on PostgreSQL.\n\n"+
	"A server that exports traces also serves OpenMetrics to a scraper whose header `Accept` asks for it. Then the "+
	"buckets of `plantstore_http_request_duration_seconds` and `plantstore_commit_duration_seconds` have exemplars with "+
	"a `trace_id`, and `le` of whole numbers has a decimal point: `1.0`, not `1`.")

// checkUnit checks that the name of a metric has its unit, or the noun of what it counts.
func checkUnit(t *testing.T, name string) {
	t.Helper()
	name = strings.TrimSuffix(name, "_total")
	switch name {
	case "plantstore_durability_standby", "plantstore_build_info", "plantstore_store_reachable": // 0 or 1
		return
	}
	if strings.HasSuffix(name, "_seconds") || strings.HasSuffix(name, "_bytes") {
		return
	}
	for _, noun := range []string{
		"plants", "requests", "errors", "connections", "credentials", "commits", "backups", "lines", "warnings",
		"handshakes", "reloads", "orders", "attempts", "events", "deliveries", "letters",
		"spans", "segments",
	} {
		if strings.Contains(name, "_"+noun) {
			return
		}
	}
	t.Errorf("%s has no unit in its name", name)
}

// metricsOf adds the metrics that a server exposes after a request, stops the server, and returns the scrape.
func metricsOf(t *testing.T, s *testServer, token string, exposed map[string]metric) (scrape string) {
	t.Helper()
	url := adminURL.FindStringSubmatch(s.stderr.String())[1] + "/metrics"
	for range 2 { // the server counts a request after its response
		status, text := authorized(t, url, token)
		if status != http.StatusOK {
			t.Fatalf("%s: status %d", url, status)
		}
		scrape = string(text)
		for _, match := range metricHelp.FindAllStringSubmatch(scrape, -1) {
			var labels []string
			for _, label := range labelName.FindAllStringSubmatch(match[4], -1) {
				if label[1] != "le" {
					labels = append(labels, label[1])
				}
			}
			exposed[match[1]] = metric{match[1], match[3], strings.Join(labels, ", "), match[2]}
			checkUnit(t, match[1])
		}
	}
	s.stop(t)
	return scrape
}
