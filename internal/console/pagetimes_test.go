package console_test

import (
	"flag"
	"fmt"
	"html"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/audit"
	"plantstore/internal/plant"
	"plantstore/internal/postgres"
	"plantstore/internal/postgres/pgtest"
	"plantstore/internal/sqlite"
	"plantstore/internal/store"
	"plantstore/internal/store/storetest"
)

var plantsOfPages = flag.Int64("plants", 0, "plants in the store of TestPageTimes; 0 skips it")

// pageTimeMax bounds the time of a page, with any number of plants.
const pageTimeMax = 50 * time.Millisecond

// Each page responds within 50 ms, also to the first request after the start. Searches read all plants and are
// excluded. `make pages` runs the test with 10 million plants.
func TestPageTimes(t *testing.T) {
	if *plantsOfPages == 0 {
		t.Skip("-plants is 0")
	}
	t.Run("SQLite", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "plants.db")
		open := func(metrics prometheus.Registerer) (storetest.Engine, error) {
			return sqlite.Open(t.Context(), sqlite.Config{Path: file, Server: true, Metrics: metrics})
		}
		fillStore(t, open)
		timePages(t, startOn(t, file, open))
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		server, err := pgtest.Start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := server.Stop(); err != nil {
				t.Error(err)
			}
		}()
		url, err := server.Database(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		open := func(metrics prometheus.Registerer) (storetest.Engine, error) {
			return postgres.Open(t.Context(), postgres.Config{URL: url, Metrics: metrics})
		}
		t.Run("pages", func(t *testing.T) { // its cleanup ends the console before the database
			fillStore(t, open)
			timePages(t, startOn(t, "", open))
		})
	})
}

// fillStore stores the plants of TestPageTimes in the order of 16 series of ids. The events of the last hundredth wait
// for a webhook.
func fillStore(t *testing.T, open func(prometheus.Registerer) (storetest.Engine, error)) {
	t.Helper()
	const batchPlants, series = 20_000, 16
	engine, err := open(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	began, n := time.Now(), *plantsOfPages
	batch := make([]store.Create, 0, batchPlants)
	for i := range n {
		if i == n-n/100 {
			if _, err := engine.SetWebhooks(
				t.Context(), []string{"https://plants.example/events"}, audit.Origin{},
			); err != nil {
				t.Fatal(err)
			}
		}
		name := fmt.Sprintf("Rosa canina, tray %d", i)
		batch = append(batch, stored(i%series*n+i, name, plant.Tagged([]string{"shrub", "tree", "herb"}[i%3])))
		if len(batch) == batchPlants || i == n-1 {
			if _, err := engine.Insert(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
			batch = batch[:0]
		}
	}
	if err := engine.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("stored %d plants in %s", n, time.Since(began).Round(time.Second))
}

// timePages logs a row for each page: the time of the first request, median and maximum of 20, and the most processor
// time of one, in milliseconds. Other work of the machine changes all but the last.
func timePages(t *testing.T, h *harness) {
	t.Helper()
	c := h.signIn(h.admin)
	began := time.Now()
	page := c.get("/plants").body // the first page after the start
	first := time.Since(began)
	t.Logf("the first page: %.1f ms", millis(first))
	if first > pageTimeMax {
		t.Errorf("the first page: %s, want at most %s", first, pageTimeMax)
	}
	next := regexp.MustCompile(`href="(/plants\?at=[^"]*)">Next`).FindStringSubmatch(page)
	if next == nil {
		t.Fatal("the first page of plants has no link to the next one")
	}
	for _, path := range []string{
		"/", "/?range=24h", "/live", "/plants", html.UnescapeString(next[1]), "/plants/1", "/plants/new", "/credentials",
		"/credentials?state=all", "/backups", "/webhooks", "/import", "/audit", "/settings", "/reference", "/reference/admin",
		"/sign-in", "/plants/999999999999999999",
	} {
		var times, processor []time.Duration
		for range 20 {
			began, used := time.Now(), processorTime()
			res := c.get(path)
			times, processor = append(times, time.Since(began)), append(processor, processorTime()-used)
			if res.status != http.StatusOK && res.status != http.StatusNotFound {
				t.Fatalf("%s: got %d: %s", path, res.status, res.body)
			}
		}
		first := times[0]
		slices.Sort(times)
		t.Logf("| `%s` | %.1f | %.1f | %.1f | %.1f |", path, millis(first), millis(times[len(times)/2]),
			millis(times[len(times)-1]), millis(slices.Max(processor)))
		if slowest := times[len(times)-1]; slowest > pageTimeMax {
			t.Errorf("%s: %s, want at most %s", path, slowest, pageTimeMax)
		}
	}
}

// processorTime returns the processor time of this process, which is server and client.
func processorTime() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used) // fails for no valid arguments
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
