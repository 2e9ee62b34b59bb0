package console

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
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

	Summary  []link // the parts of the sentence about the state
	New      bool   // the store has no plant yet, so the page has Recent instead of tiles and charts
	Recent   []admin.AuditEntry
	URL      string // where clients create plants
	Tiles    []tile
	Charts   []chart
	Range    string
	Ranges   []string
	Warnings []warning // the texts of the State, and others
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

// warning is a state that needs the operator.
type warning struct {
	Text, Advice string
	Object       link // that the text is about
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
		"tiles": o.Tiles, "charts": o.Charts, "summary": o.Summary, "alert": reload,
	})
}

// Digest returns a digest of the parts of the page that the script does not replace.
func (o overview) Digest() string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%q %t %t %q", o.Guarantee, o.Standby, o.New, o.Warnings)
	return strconv.FormatUint(h.Sum64(), 36)
}

func (c *Console) overview(r *http.Request) overview {
	now, o := c.now(), overview{State: c.Operations.State(r.Context()), Range: "1h", Ranges: ranges}
	if given := r.URL.Query().Get("range"); slices.Contains(ranges, given) {
		o.Range = given
	}
	span, _ := time.ParseDuration(o.Range) // all ranges are valid
	o.Warnings = c.warnings(o.State)
	ofChart := func(w warning) bool { return strings.HasPrefix(w.Object.URL, "#") }
	o.New = o.Ready && o.Plants != nil && *o.Plants == 0 && !slices.ContainsFunc(o.Warnings, ofChart) &&
		c.isEmpty(r.Context())
	o.Summary = c.summary(o)
	o.Charts = charts(c.samples.since(now.Add(-span)), now, span)
	o.Tiles = c.tiles(o)
	return o
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
		add(counted(int(n), "credential")+" about to expire", "/credentials")
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
		newChart("size", "Size on disk", samples, now, span, formatBytes,
			series{"store", func(s sample) float64 { return s.store }},
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
		{"plants", "Plants stored", orDash(orNaN(o.Plants), formatCount), ""},
		{"creates", "Created per second", lines["creates"][0].Now, ""},
		{"latency", latencyName, latency[0].Now, "p99 · p50 " + latency[1].Now},
		{"errors", "Server errors per second", errors[0].Now, "client errors " + errors[1].Now},
		{"connections", "Open connections", formatCount(float64(o.Connections["public"])), "of the public listener"},
	}
	if o.StoreBytes != nil {
		tiles = append(tiles, tile{
			"size", "Size of the store", formatBytes(float64(*o.StoreBytes)),
			"write-ahead log " + orDash(orNaN(o.WALBytes), formatBytes),
		})
	}
	if o.DiskFreeBytes != nil {
		tiles = append(tiles, tile{"free", "Free on the disk", formatBytes(float64(*o.DiskFreeBytes)), ""})
	}
	if o.Backups {
		t := tile{"backup", "Last backup", "none", ""}
		switch {
		case o.LastBackup != nil:
			t.Value, t.Note = formatAgo(c.now().Sub(o.LastBackup.At)), formatBytes(float64(o.LastBackup.Bytes))
		case o.BackupsError != "":
			t.Value = "–"
		}
		tiles = append(tiles, t)
	}
	return tiles
}

// warnings returns the states that need the operator, the most urgent first.
func (c *Console) warnings(s admin.State) (list []warning) {
	const freeFactorMin = 0.1 // share of the store's size
	add := func(text, advice string, object link) { list = append(list, warning{text, advice, object}) }
	theStore := settingLink("db")
	if !s.Ready {
		add("The store accepts no plants: "+s.Reason+".", "Read the server's log.", theStore)
	}
	addFailures(c.samples.since(c.now().Add(-recently)), add)
	for _, text := range s.Warnings {
		add(text, "", theStore)
	}
	size, free := orNaN(s.StoreBytes), orNaN(s.DiskFreeBytes)
	if free < max(1<<30, size*freeFactorMin) {
		add("The store's disk has only "+formatBytes(free)+" free.",
			"Free space, or move the store to a larger disk.", theStore)
	}
	if orNaN(s.WALBytes) > orNaN(s.WALMaxBytes) {
		add("The write-ahead log is larger than its limit: a reader blocks its checkpoint.",
			"Stop any long backup or verification, and any other program that keeps the file open.", theStore)
	}
	c.addBackups(s, add)
	c.addWebhooks(add)
	if n := s.CredentialsExpiring; n > 0 {
		text, advice := formatCount(float64(n))+" credentials expire within 7 days.", "Rotate them."
		if n == 1 {
			text, advice = "A credential expires within 7 days.", "Rotate it."
		}
		add(text, advice, link{"Credentials", "/credentials"})
	}
	return list
}

func settingLink(name string) link { return link{"Setting " + name, "/settings#" + name} }

// recently is the age of failures up to which the overview warns of them. The warnings do not count them, so the script
// does not reload the page for each.
const recently = 15 * time.Minute

// addFailures adds the warnings about failed commits and 5xx responses in samples.
func addFailures(samples []sample, add func(text, advice string, object link)) {
	commits, errors := false, map[string]bool{}
	for _, s := range samples {
		commits = commits || s.commitFailed
		for _, name := range s.errors {
			errors[name] = true
		}
	}
	if commits {
		add("Commits failed in the last 15 minutes.",
			"The server's log has the cause.", settingLink("db"))
	}
	for _, name := range slices.Sorted(maps.Keys(errors)) {
		add("Requests failed with "+name+" in the last 15 minutes.", "", link{errorsName, "#chart-errors"})
	}
}

// addBackups adds the warnings about backups.
func (c *Console) addBackups(s admin.State, add func(text, advice string, object link)) {
	const ageMax = 2 * 24 * time.Hour
	page := link{"Backups", "/backups"}
	switch b := s.LastBackup; {
	case !s.Backups && s.StoreBytes != nil: // a file
		add("The server makes no backups.",
			"Set --backup-dir, or copy backups with your own tools.", settingLink("backup-dir"))
	case s.Backups && b == nil && s.BackupsError == "":
		add("There is no complete backup.", "Start one.", page)
	case b != nil && c.now().Sub(b.At) > ageMax:
		add("The last backup is "+formatAge(c.now().Sub(b.At))+" old: "+b.Name+".", "Start one.", page)
	}
	if s.BackupsError != "" {
		add("The server could not list the backups: "+s.BackupsError+".", "", page)
	}
}

// addWebhooks adds the warnings about the webhooks to which this server delivers.
func (c *Console) addWebhooks(add func(text, advice string, object link)) {
	deliveries := c.Operations.Deliveries()
	for _, id := range slices.Sorted(maps.Keys(deliveries)) {
		s := deliveries[id]
		object := link{"Webhook " + s.Address, "/webhooks#webhook-" + strconv.FormatInt(id, 10)}
		switch {
		case s.Gone:
			add("A receiver returned 410 Gone, so the server sends it no more events.",
				"Correct its address, or restart the server to try again.", object)
		case s.Failures > 0:
			add("Deliveries to a receiver are failing: "+s.Reason+".", "", object)
		}
		if s.Dead > 0 {
			add("A webhook has dead letters.", "Retry or drop them.", link{"Dead letters of " + s.Address, "/webhooks#dead"})
		}
	}
}

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
