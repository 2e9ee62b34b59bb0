package console_test

import (
	"encoding/json"
	"html"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/auth"
	"plantstore/internal/backup"
	"plantstore/internal/console"
	"plantstore/internal/sqlite"
	"plantstore/internal/store/storetest"
	"plantstore/internal/webhook"
)

// warningsOf returns the warnings of the overview as text, each with the target of its link.
func (c *client) warningsOf() (list []string, live string) {
	c.h.t.Helper()
	page := c.get("/").body
	target := regexp.MustCompile(`data-live="([^"]+)"`).FindStringSubmatch(page)
	if target == nil {
		c.h.t.Fatalf("got %s", page)
	}
	items := regexp.MustCompile(`(?s)<ul class="warnings">(.*?)</ul>`).FindString(page)
	for _, item := range regexp.MustCompile(`<li .*?</li>`).FindAllString(items, -1) {
		href := regexp.MustCompile(`href="([^"]+)"`).FindStringSubmatch(item)
		if href == nil {
			c.h.t.Fatalf("no link in %s", item)
		}
		text := regexp.MustCompile(`<[^>]+>`).ReplaceAllString(item, "")
		list = append(list, html.UnescapeString(text)+" -> "+href[1])
	}
	return list, html.UnescapeString(target[1])
}

// alert reports whether the script loads the page again.
func (c *client) alert(live string) bool {
	c.h.t.Helper()
	var l struct{ Alert bool }
	res := c.get(live)
	if err := json.Unmarshal([]byte(res.body), &l); err != nil {
		c.h.t.Fatalf("%v: %s", err, res.body)
	}
	return l.Alert
}

// wantWarnings compares the warnings of the overview whose texts have a word.
func (c *client) wantWarnings(word string, want ...string) (live string) {
	c.h.t.Helper()
	all, live := c.warningsOf()
	var got []string
	for _, text := range all {
		if strings.Contains(text, word) {
			got = append(got, text)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		c.h.t.Errorf("warnings about %s, -want +got:\n%s", word, diff)
	}
	return live
}

// TestWarnings shows that the overview has each warning with its remedy and a link to a place that exists, and that the
// script loads the page again only if a text has changed.
func TestWarnings(t *testing.T) {
	t.Parallel()
	h := start(t, stored(1, "Rosa", plantTag("shrub")))
	c := h.signIn(h.admin)
	c.wantWarnings("webhook")
	const shop, labels, farm = "https://shop.example/events", "https://labels.example/plants", "https://farm.example/"
	h.deliveries = map[int64]webhook.Status{
		1: {Address: shop, DeliveredAt: time.Now()}, 2: {Address: labels, Failures: 4, Reason: "connection refused", Dead: 7},
		3: {Address: farm, Gone: true},
	}
	live := c.wantWarnings("webhook",
		"Deliveries to 2 webhooks fail: "+labels+": connection refused; "+farm+": 410 Gone, so it gets no more events. "+
			"Call the operator of the receiver. After 410 Gone, correct the address, or restart the server. "+
			"Webhooks What to do -> /webhooks",
		"The server no longer delivers some events to a webhook: "+labels+": 7. Retry or drop these dead letters. "+
			"Webhooks What to do -> /webhooks#dead")
	if c.alert(live) {
		t.Error("the page is loaded again with the same warnings")
	}
	h.deliveries[2] = webhook.Status{Address: labels, Failures: 5, Reason: "status 503", Dead: 7}
	if !c.alert(live) {
		t.Error("the page is not loaded again with the same number of other warnings")
	}
	c.get("/webhooks").want(t, 200, `id="dead"`)
	c.get("/").want(t, 200, "Needs attention", `id="chart-errors"`)
}

// TestFullDisk shows that the overview is red with one warning about a full disk.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "plants.db")
	h := startOn(t, file, func(metrics prometheus.Registerer) (storetest.Engine, error) {
		engine, err := sqlite.Open(t.Context(), sqlite.Config{Path: file, Server: true, Metrics: metrics})
		return fullEngine{engine}, err
	})
	c := h.signIn(h.admin)
	c.post("/plants/new", url.Values{"id": {"1"}, "name": {"Acer"}}).want(t, 503, "the disk of the store is full")
	for h.writePath.Ready() == nil {
		<-time.After(10 * time.Millisecond) // until the failures have lasted
	}
	c.get("/").want(t, 200, `<div class="hero bad">`, "Accepts no plants", `<li class="critical">`)
	c.wantWarnings("plants", "The store accepts no plants: its disk is full. "+
		"Free space on the disk; the server then continues by itself. Settings What to do -> /settings#db")
}

// TestStandby shows that the overview of a standby is calm and names the other server, and that each form tells where
// to make the change.
func TestStandby(t *testing.T) {
	t.Parallel()
	file, started := filepath.Join(t.TempDir(), "plants.db"), new(atomic.Pointer[harness])
	h := startOn(t, "", func(metrics prometheus.Registerer) (storetest.Engine, error) { // without backups
		return sqlite.Open(t.Context(), sqlite.Config{Path: file, Server: true, Metrics: metrics, MayWrite: func() error {
			if h := started.Load(); h != nil {
				return h.mayAccept()
			}
			return nil
		}})
	}, stored(1, "Rosa", plantTag("shrub")))
	started.Store(h)
	c := h.signIn(h.admin)
	page := c.get("/plants/1")
	correct, erase := c.formOf(page, "/plants/1/correct"), c.formOf(page, "/plants/1/erase")
	correct.Set("name", "Acer")
	_, live := c.warningsOf()
	h.follows.Store(&backup.StandbyStatus{Host: "host-a", Current: time.Now()})
	if !c.alert(live) {
		t.Error("the page is not loaded again when the server becomes a standby")
	}
	c.get("/").want(t, 200, `<div class="hero good">`, "Standby",
		`This server is a <span class="breaks" dir="auto" data-reason>standby of the server on host-a, `,
		" s behind</span>. Plants are created there.")
	c.get("/backups").want(t, 200, "It is a standby; the server that accepts plants makes them.")
	for path, form := range map[string]url.Values{
		"/plants/new":       {"id": {"2"}, "name": {"Acer"}},
		"/plants/1/erase":   erase,
		"/plants/1/correct": correct,
		"/credentials/mint": {"name": {"shop"}, "scope": {"plants:create"}, "lifetime": {"30d"}},
		"/backups/start":    {},
	} {
		t.Run(path, func(t *testing.T) {
			c.post(path, form).want(t, 503, "this server is a standby; make changes at the server that accepts plants")
		})
	}
}

// TestDraw shows that a value between two gaps is visible: a path of one point is not.
func TestDraw(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	for _, test := range []struct {
		values     []float64
		path, area string
	}{
		{[]float64{nan, nan, nan, nan}, "", ""},
		{[]float64{1, 2, 1, nan}, "M75 60L225 0L375 60", "M75 120L75 60L225 0L375 60V120Z"},
		{[]float64{1, nan, 1, nan}, "M75 60L375 60", "M75 120L75 60L375 60V120Z"}, // one empty part is no gap
		{[]float64{nan, nan, 1, nan}, "M300 60L450 60", "M300 120L300 60L450 60V120Z"},
		{[]float64{2, nan, nan, 1}, "M0 0L150 0M450 60L600 60", "M0 120L0 0L150 0V120ZM450 120L450 60L600 60V120Z"},
	} {
		path, area := console.Draw(test.values, 2)
		if path != test.path || area != test.area {
			t.Errorf("%v: got %s and %s, want %s and %s", test.values, path, area, test.path, test.area)
		}
	}
}

// TestCreateLatency shows that the tile and the legend of the chart have the same name and value for every range.
func TestCreateLatency(t *testing.T) {
	t.Parallel()
	h := start(t, stored(1, "Rosa", plantTag("shrub")))
	c := h.signIn(h.admin)
	h.console.AddSample(0.08)
	h.console.AddSample(0.02) // in the same part of the chart as the one before
	for _, span := range []string{"15m", "1h", "24h"} {
		page := c.get("/?range=" + span)
		page.want(t, 200,
			`<dt>Create latency</dt><dd class="value">20 ms</dd><dd class="note">p99 · p50 10 ms</dd>`,
			`<span>Create latency</span>`, `p99 <b>20 ms</b>`, `p50 <b>10 ms</b>`)
		if strings.Contains(page.body, "Time of a create") {
			t.Errorf("%s: the page has two names", span)
		}
	}
}

// TestCopied shows how far a restore of the destination of the backups goes.
func TestCopied(t *testing.T) {
	t.Parallel()
	h := start(t)
	c := h.signIn(h.admin)
	const overview, page = "all commits copied", "Can be restored to any second since"
	if strings.Contains(c.get("/").body, overview) || strings.Contains(c.get("/backups").body, page) {
		t.Error("says that commits are copied before the copy has started")
	}
	h.backups.Start()
	for !strings.Contains(c.get("/").body, overview) || !strings.Contains(c.get("/backups").body, page) {
		<-time.After(10 * time.Millisecond) // until the first backup is complete
	}
	schedule := h.backups.Schedule()
	c.get("/backups").want(t, 200, "This server became the owner of the destination",
		`adds to the timeline <span class="mono">`+schedule.Timeline+"</span>.")
	if err := os.WriteFile(filepath.Join(schedule.Destination, "plants.owner"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.mint("another", auth.ScopeCreate)
	for !strings.Contains(c.get("/backups").body, "The server could not copy commits: ") {
		<-time.After(10 * time.Millisecond)
	}
}
