package main

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/postgres/pgtest"
)

var (
	metricType  = regexp.MustCompile(`(?m)^# TYPE (plantstore_\w+) `)
	metricNamed = regexp.MustCompile("`(plantstore_\\w+)[`{]")
	adminURL    = regexp.MustCompile(`admin=(http://\S+)`)
)

// The table in docs/reference/metrics.md lists exactly the metrics that a server of a
// file and a server of a database expose.
func TestMetricsPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| (.*?) \|`).FindAllStringSubmatch(string(page), -1) {
		for _, match := range metricNamed.FindAllStringSubmatch(row[1], -1) {
			documented[match[1]] = true
		}
	}

	db := filepath.Join(t.TempDir(), "a.db")
	exposed := metricsOf(t, startServer(t, db, "--backup-dir", t.TempDir()))
	database, err := pgtest.Start(t.Context())
	if errors.Is(err, pgtest.ErrMissing) && os.Getenv("CI") != "true" {
		t.Skip("the metrics of a store in PostgreSQL were not compared:", err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := database.Stop(); err != nil {
			t.Error(err)
		}
	})
	url, err := database.Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(exposed, metricsOf(t, startServer(t, url)))
	if diff := cmp.Diff(slices.Sorted(maps.Keys(exposed)), slices.Sorted(maps.Keys(documented))); diff != "" {
		t.Errorf("docs/reference/metrics.md (-exposed +documented):\n%s", diff)
	}
}

// metricsOf returns the names of the metrics that a server exposes after a
// request, and stops the server.
func metricsOf(t *testing.T, s *testServer) map[string]bool {
	t.Helper()
	url := adminURL.FindStringSubmatch(s.stderr.String())[1] + "/metrics"
	names := map[string]bool{}
	for range 2 { // the first one is counted when the second is answered
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := httpClient(1).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%s: status %d, %v", url, res.StatusCode, err)
		}
		for _, match := range metricType.FindAllStringSubmatch(string(text), -1) {
			names[match[1]] = true
		}
	}
	s.stop(t)
	return names
}
