package console

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/server"
)

// ranges are the times that the charts can show.
var ranges = []string{"15m", "1h", "6h", "24h"}

// overview is the content of the overview.
type overview struct {
	admin.State // its list of backups is at most 10 s old: the destination may be slow

	Summary []link // the parts of the sentence about the state
	New     bool   // the store has no plant yet, so the page has Recent instead of tiles and charts
	Recent  []admin.AuditEntry
	URL     string // where clients create plants
	Tiles   []tile
	Charts  []chart
	Range   string
	Ranges  []string
}

// tile is a number of the overview.
type tile struct {
	ID    string `json:"id"`
	Name  string `json:"-"`
	Value string `json:"value"`
	Note  string `json:"note"`
}

type link struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

func (c *Console) showOverview(call *server.Call) error {
	o := c.overview(call.Request)
	if o.New {
		const entries = 5
		c.Audit.Flush(context.WithoutCancel(call.Context()))
		page, err := c.Operations.Audit(call.Context(), admin.AuditQuery{Limit: entries})
		if err != nil {
			return err
		}
		o.Recent, o.URL = page.Entries, c.operationURL()
	}
	return c.render(call, http.StatusOK, "overview", view{Title: "Overview", Content: o})
}

// serveLive responds with the parts of the overview that its script replaces.
func (c *Console) serveLive(call *server.Call) error {
	o := c.overview(call.Request)
	reload := o.Digest() != call.URL.Query().Get("shown")
	return call.Respond(map[string]any{
		"tiles": o.Tiles, "charts": o.Charts, "summary": o.Summary, "reason": o.Reason, "alert": reload,
	})
}

// Digest returns a digest of the parts of the page that the script does not replace.
func (o overview) Digest() string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%q %t %t %t", o.Guarantee, o.Standby, o.Follower, o.New)
	for _, w := range o.Warnings {
		fmt.Fprintf(h, " %s %q", w.Severity, w.Text)
	}
	return strconv.FormatUint(h.Sum64(), 36)
}

func (c *Console) overview(r *http.Request) overview {
	now, o := c.now(), overview{State: c.Operations.State(r.Context()), Range: "1h", Ranges: ranges}
	if given := r.URL.Query().Get("range"); slices.Contains(ranges, given) {
		o.Range = given
	}
	span, _ := time.ParseDuration(o.Range) // all ranges are valid
	ofChart := func(w admin.Warning) bool { return strings.HasPrefix(w.Page, "/#") }
	o.New = o.Ready && o.Plants != nil && *o.Plants == 0 && !slices.ContainsFunc(o.Warnings, ofChart) &&
		c.isEmpty(r.Context())
	o.Summary = c.summary(o)
	o.Charts = charts(c.samples.since(now.Add(-span)), now, span)
	o.Tiles = c.tiles(o)
	return o
}

// tone is the state of the server, in a word and its class.
type tone struct{ Class, Text string }

// Tone returns the state of the server.
func (o overview) Tone() tone {
	switch {
	case o.Follower && len(o.Warnings) == 0:
		return tone{"good", "Standby"}
	case !o.Ready && !o.Follower:
		return tone{"bad", "Accepts no plants"}
	case len(o.Warnings) == 0:
		return tone{"good", "Healthy"}
	case o.Warnings[0].Severity == admin.Critical:
		return tone{"bad", "Needs attention now"}
	}
	return tone{"warn", "Needs attention"}
}

// isEmpty reports whether the store has no plants: the number in the metrics may be older, or an estimate.
func (c *Console) isEmpty(ctx context.Context) bool {
	page, err := c.Operations.Plants(ctx, admin.PageQuery{Limit: 1})
	return err == nil && len(page.Plants) == 0
}

// summary returns the parts of the sentence about the state of the store: what it has, and what needs the operator.
func (c *Console) summary(o overview) (parts []link) {
	add := func(text, url string) { parts = append(parts, link{text, url}) }
	if n := len(o.Warnings); n > 0 {
		add(counted(n, "warning"), "#warnings")
	}
	switch {
	case o.New:
		add("no plants yet", "/plants")
	case o.Plants != nil && *o.Plants > 0:
		add(counted(int(*o.Plants), "plant"), "/plants")
	}
	switch last := o.LastBackup; {
	case o.Follower:
	case !o.Backups && o.StoreBytes != nil: // a file
		add("no backups", settingLink("backup-dir").URL)
	case !o.Backups:
	case last != nil && strings.HasPrefix(last.Location, "s3://"):
		add("copied to the bucket "+formatAgo(c.now().Sub(last.At)), "/backups")
	case last != nil:
		add("backed up "+formatAgo(c.now().Sub(last.At)), "/backups")
	case o.BackupsError != "":
		add("backups unknown", "/backups")
	default:
		add("no backup yet", "/backups")
	}
	if at := c.Operations.BackupSchedule().Copied; !at.IsZero() {
		add("all commits copied "+formatAgo(c.now().Sub(at)), "/backups")
	}
	failing, deliveries := 0, c.Operations.Deliveries()
	for _, s := range deliveries {
		if s.Gone || s.Failures > 0 {
			failing++
		}
	}
	switch {
	case failing > 0:
		add(counted(failing, "webhook")+" failing", "/webhooks")
	case len(deliveries) > 0:
		add(counted(len(deliveries), "webhook"), "/webhooks")
	}
	if n := o.CredentialsExpiring; n > 0 {
		add(counted(int(n), "credential")+" about to expire", "/credentials?state=expiring")
	}
	return parts
}

// counted returns a number of things, such as 2 plants.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return formatCount(float64(n)) + " " + thing + "s"
}

func formatPlants(n int64) string { return counted(int(n), "plant") }

const (
	latencyName = "Create latency" // names its tile and its chart
	errorsName  = "Errors per second"
)

func charts(samples []sample, now time.Time, span time.Duration) []chart {
	return []chart{
		newChart("creates", "Plants created per second", samples, now, span, formatRate,
			series{"created", func(s sample) float64 { return s.creates }}),
		newChart("latency", latencyName, samples, now, span, formatSeconds,
			series{"p99", func(s sample) float64 { return s.p99 }},
			series{"p50", func(s sample) float64 { return s.p50 }}),
		newChart("errors", errorsName, samples, now, span, formatRate,
			series{"server errors", func(s sample) float64 { return s.serverErrors }},
			series{"client errors", func(s sample) float64 { return s.clientErrors }}),
		newChart("connections", "Open connections", samples, now, span, formatRate,
			series{"connections", func(s sample) float64 { return s.connections }},
			series{"queued plants", func(s sample) float64 { return s.queued }}),
		newChart("size", "Size on disk", samples, now, span, admin.FormatBytes,
			series{"file", func(s sample) float64 { return s.store }},
			series{"write-ahead log", func(s sample) float64 { return s.wal }}),
		newChart("plants", "Plants stored", samples, now, span, formatCount,
			series{"plants", func(s sample) float64 { return s.plants }}),
	}
}

// tiles returns the numbers of the overview. Rates and latencies are from the charts.
func (c *Console) tiles(o overview) []tile {
	lines := map[string][]line{}
	for _, c := range o.Charts {
		lines[c.ID] = c.Lines
	}
	latency, errors := lines["latency"], lines["errors"]
	tiles := []tile{
		{"plants", "Plants stored", orDash(admin.OrNaN(o.Plants), formatCount), ""},
		{"creates", "Created per second", lines["creates"][0].Now, ""},
		{"latency", latencyName, latency[0].Now, "p99 · p50 " + latency[1].Now},
		{"errors", "Server errors per second", errors[0].Now, "client errors " + errors[1].Now},
		{"connections", "Open connections", formatCount(float64(o.Connections["public"])), "of the public listener"},
	}
	if o.StoreBytes != nil {
		tiles = append(tiles, tile{
			"size", "Size of the store", admin.FormatBytes(float64(*o.StoreBytes + *cmp.Or(o.WALBytes, new(int64)))),
			"of it write-ahead log " + orDash(admin.OrNaN(o.WALBytes), admin.FormatBytes),
		})
	}
	if o.DiskFreeBytes != nil {
		tiles = append(tiles, tile{"free", "Free on the disk", admin.FormatBytes(float64(*o.DiskFreeBytes)), ""})
	}
	if o.Backups {
		t := tile{"backup", "Last backup", "none", ""}
		switch {
		case o.LastBackup != nil:
			t.Value, t.Note = formatAgo(c.now().Sub(o.LastBackup.At)), admin.FormatBytes(float64(o.LastBackup.Bytes))
		case o.BackupsError != "":
			t.Value = "–"
		}
		tiles = append(tiles, t)
	}
	return tiles
}

func settingLink(name string) link { return link{"Setting " + name, "/settings#" + name} }

// formatAge returns a time in its largest unit.
func formatAge(d time.Duration) string {
	for _, u := range []struct {
		name string
		d    time.Duration
	}{{"day", 24 * time.Hour}, {"hour", time.Hour}, {"min", time.Minute}} {
		switch n := d / u.d; {
		case n == 1 || n > 1 && u.name == "min":
			return fmt.Sprintf("%d %s", n, u.name)
		case n > 1:
			return fmt.Sprintf("%d %ss", n, u.name)
		}
	}
	return fmt.Sprintf("%d s", max(0, d/time.Second))
}
