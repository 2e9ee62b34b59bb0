package console

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/server"
	"plantstore/internal/store"
)

// spans are the times that the charts can show.
var spans = []struct {
	Name string
	span time.Duration
}{{"15m", 15 * time.Minute}, {"1h", time.Hour}, {"6h", 6 * time.Hour}, {"24h", 24 * time.Hour}}

// overview is the content of the overview.
type overview struct {
	Ready      string // why the store accepts no plant; empty: it accepts plants
	Durability store.Durability
	Tiles      []tile
	Charts     []chart
	Range      string
	Ranges     []string
	Backup     *lastBackup // nil: the server makes no backups
	Warnings   []warning
	Engine     string
}

// tile is a number of the overview.
type tile struct {
	ID    string `json:"id"`
	Name  string `json:"-"`
	Value string `json:"value"`
	Note  string `json:"note"`
}

// warning is a state that needs the operator.
type warning struct{ Text, Advice string }

// lastBackup is the state of the backups.
type lastBackup struct {
	At    time.Time // of the newest complete backup that is known; zero: none
	Bytes int64
	Fault string // why the destination could not be listed; empty: it was
}

func (c *Console) showOverview(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
	o := c.overview(r)
	return c.render(w, r, http.StatusOK, "overview", view{Title: "Overview", Content: o})
}

// live is the response for the script of the overview.
type live struct {
	Tiles  []tile  `json:"tiles"`
	Charts []chart `json:"charts"`
	Alert  bool    `json:"alert"` // the warnings differ from those of the page, which the script loads again
}

func (c *Console) serveLive(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
	o := c.overview(r)
	body, err := json.Marshal(live{
		Tiles: o.Tiles, Charts: o.Charts, Alert: fmt.Sprint(len(o.Warnings)) != r.URL.Query().Get("warnings"),
	})
	if err != nil {
		return fmt.Errorf("encode the overview: %w", err)
	}
	server.WriteJSON(w, http.StatusOK, append(body, '\n'))
	return nil
}

func (c *Console) overview(r *http.Request) overview {
	now, n := c.now(), c.read()
	o := overview{Durability: c.Store.Durability(), Range: "1h"}
	span := time.Hour
	for _, s := range spans {
		o.Ranges = append(o.Ranges, s.Name)
		if s.Name == r.URL.Query().Get("range") {
			o.Range, span = s.Name, s.span
		}
	}
	if err := c.Store.Ready(); err != nil {
		o.Ready = err.Error()
	}
	o.Backup = c.lastBackup(r)
	o.Warnings = c.warnings(n, o)
	o.Charts = charts(c.samples.since(now.Add(-span)), now, span)
	o.Tiles = c.tiles(n, c.samples.since(now.Add(-time.Minute)), o)
	return o
}

func charts(samples []sample, now time.Time, span time.Duration) []chart {
	return []chart{
		newChart("creates", "Plants created a second", samples, now, span, formatRate,
			series{"created", func(s sample) float64 { return s.creates }}),
		newChart("latency", "Time of a create", samples, now, span, formatSeconds,
			series{"p99", func(s sample) float64 { return s.p99 }},
			series{"p50", func(s sample) float64 { return s.p50 }}),
		newChart("errors", "Errors a second", samples, now, span, formatRate,
			series{"of the server", func(s sample) float64 { return s.failures }},
			series{"of clients", func(s sample) float64 { return s.refusals }}),
		newChart("connections", "Open connections", samples, now, span, formatRate,
			series{"connections", func(s sample) float64 { return s.connections }},
			series{"plants in the queue", func(s sample) float64 { return s.queued }}),
		newChart("size", "Size on disk", samples, now, span, formatSize,
			series{"store", func(s sample) float64 { return s.store }},
			series{"write-ahead log", func(s sample) float64 { return s.wal }}),
		newChart("plants", "Stored plants", samples, now, span, formatWhole,
			series{"plants", func(s sample) float64 { return s.plants }}),
	}
}

// tiles returns the numbers of the overview. Rates are those of the last minute.
func (c *Console) tiles(n reading, minute []sample, o overview) []tile {
	mean := func(value func(sample) float64) float64 {
		sum, known := 0.0, 0
		for _, s := range minute {
			if v := value(s); !math.IsNaN(v) {
				sum, known = sum+v, known+1
			}
		}
		return sum / float64(known) // NaN for none
	}
	failures := mean(func(s sample) float64 { return s.failures })
	tiles := []tile{
		{"plants", "Plants stored", formatWhole(n.gauge("plantstore_plants")), ""},
		{"creates", "Created a second", formatRate(mean(func(s sample) float64 { return s.creates })), "mean of a minute"},
		{
			"latency", "Time of a create", formatSeconds(mean(func(s sample) float64 { return s.p99 })),
			"p99; p50 " + formatSeconds(mean(func(s sample) float64 { return s.p50 })),
		},
		{
			"errors", "Errors a second", formatRate(failures),
			"of the server; of clients " + formatRate(mean(func(s sample) float64 { return s.refusals })),
		},
		{"connections", "Open connections", formatWhole(n.gauge("plantstore_connections_open")), "of the public listener"},
	}
	if size := n.gauge("plantstore_store_bytes"); !math.IsNaN(size) {
		tiles = append(tiles, tile{
			"size", "Size of the store", formatSize(size), "write-ahead log " + formatSize(n.gauge("plantstore_wal_bytes")),
		})
	}
	if free := n.gauge("plantstore_store_disk_free_bytes"); !math.IsNaN(free) {
		tiles = append(tiles, tile{"free", "Free on the disk", formatSize(free), ""})
	}
	if o.Backup != nil {
		t := tile{"backup", "Last backup", "none", ""}
		switch {
		case !o.Backup.At.IsZero():
			t.Value, t.Note = formatAge(c.now().Sub(o.Backup.At))+" ago", formatBytes(o.Backup.Bytes)
		case o.Backup.Fault != "":
			t.Value = "–"
		}
		tiles = append(tiles, t)
	}
	return tiles
}

// lastBackup returns the state of the backups, which is at most 10 s old: the destination may be slow.
func (c *Console) lastBackup(r *http.Request) *lastBackup {
	state := c.Operations.State(r.Context())
	if !state.Backups {
		return nil
	}
	b := &lastBackup{Fault: state.BackupsError}
	if state.LastBackup != nil {
		b.At, b.Bytes = state.LastBackup.At, state.LastBackup.Bytes
	}
	return b
}

// warnings returns the states that need the operator, the most urgent first.
func (c *Console) warnings(n reading, o overview) []warning {
	const (
		backupAgeMax  = 2 * 24 * time.Hour
		freeFactorMin = 0.1 // of the store's size
	)
	var list []warning
	add := func(text, advice string) { list = append(list, warning{text, advice}) }
	if o.Ready != "" {
		add("The store accepts no plant: "+o.Ready+".", "Read the log of the server.")
	}
	for _, text := range o.Durability.Warnings {
		add(text, "")
	}
	size, free := n.gauge("plantstore_store_bytes"), n.gauge("plantstore_store_disk_free_bytes")
	if free < max(1<<30, size*freeFactorMin) {
		add("The disk of the store has only "+formatSize(free)+" free.", "Free space, or move the store to a larger disk.")
	}
	if wal, most := n.gauge("plantstore_wal_bytes"), n.gauge("plantstore_wal_max_bytes"); wal > most {
		add("The write-ahead log is larger than --wal-max: a reader blocks its checkpoint.",
			"End a backup, a verification or a program that has the file open for long.")
	}
	switch b := o.Backup; {
	case b == nil && !math.IsNaN(size):
		add("The server makes no backups.", "Set --backup-dir, or copy backups with your own tools.")
	case b == nil:
	case b.At.IsZero():
		if b.Fault == "" {
			add("There is no complete backup.", "See the page Backups.")
		}
	case c.now().Sub(b.At) > backupAgeMax:
		add("The last backup is "+formatAge(c.now().Sub(b.At))+" old.", "Start one on the page Backups.")
	}
	if o.Backup != nil && o.Backup.Fault != "" {
		add("The server could not list the backups: "+o.Backup.Fault+".", "See the page Backups.")
	}
	switch expiring := n.gauge("plantstore_credentials_expiring"); {
	case expiring == 1:
		add("One credential expires within 7 days.", "Rotate it on the page Credentials.")
	case expiring > 1:
		add(formatCount(expiring)+" credentials expire within 7 days.", "Rotate them on the page Credentials.")
	}
	if c.Open {
		add("The admin listener requires no credential (--admin-open).",
			"Every user and every program of this machine can read the plants. Remove the setting.")
	}
	return list
}

// formatAge returns a time in its largest unit.
func formatAge(d time.Duration) string {
	for _, u := range []struct {
		name string
		d    time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"min", time.Minute}} {
		if d >= u.d {
			return fmt.Sprintf("%d %s", d/u.d, u.name)
		}
	}
	return fmt.Sprintf("%d s", max(0, d/time.Second))
}
