package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"plantstore/internal/store"
	"plantstore/internal/webhook"
	"plantstore/internal/writepath"
)

// Severity tells how soon a Warning needs the operator.
type Severity string

// The severities, as the labels page and ticket of the rules for Prometheus.
const (
	Critical Severity = "critical" // clients fail, or acknowledged plants are at risk, or will be within hours
	Notable  Severity = "warning"  // for the next working day
)

// Warning is a condition that needs the operator, in the form of the API.
type Warning struct {
	ID       string    `json:"id"` // of the condition, and the name of its runbook
	Severity Severity  `json:"severity"`
	Text     string    `json:"text"`   // what is wrong, with the reason and the values: a sentence
	Remedy   string    `json:"remedy"` // the next step
	Page     string    `json:"page"`   // of the console, which shows more
	Since    time.Time `json:"since"`  // when the server noticed it
}

// Warnings returns the conditions that hold, the most urgent first, at most one of each id. It reads neither the store
// nor, more than once a minute, the destination of the backups.
func (s *Service) Warnings(ctx context.Context) []Warning { return s.state(ctx, time.Minute).Warnings }

// recently is the time for which a condition holds after the last failure that a counter has counted.
const recently = 15 * time.Minute

// condition is a state of the server that needs the operator. Of several with one id, the first that holds counts.
type condition struct {
	id           string // name of a page in docs/runbooks
	severity     Severity
	find         func(*observed) string // returns the text; empty: the condition does not hold
	remedy, page string
	hidden       func(*observed) bool // another warning has the cause; nil: none can
}

// conditions are all conditions, the most urgent first.
var conditions = []condition{
	{
		"disk-fills", Critical, func(o *observed) string {
			return textIf(o.full(), "The store accepts no plants: its disk is full.")
		},
		"Free space on the disk; the server then continues by itself.", "/settings#db", nil,
	},
	{
		"store-unreachable", Critical, func(o *observed) string {
			return textIf(errors.Is(o.unready, writepath.ErrUnreachable), "The store accepts no plants: it does not respond.")
		},
		"Read the reason in the server's log; check the disk or the database, and the network between.", "/settings#db", nil,
	},
	{
		"commits-fail", Critical, func(o *observed) string {
			return textIf(o.unready != nil, "The store accepts no plants: %v.", o.unready)
		},
		"Read the reason in the server's log.", "/settings#db", (*observed).full,
	},
	{
		"not-durable", Critical, func(o *observed) string {
			return textIf(len(o.durability.Warnings) > 0, "Acknowledged plants are at risk: %s.",
				strings.Join(o.durability.Warnings, "; "))
		},
		"Correct the settings of the database.", "/settings#db", nil,
	},
	{
		"commits-fail", Notable, func(o *observed) string {
			r := o.rises("plantstore_commits_failed_total", recently)
			return textIf(r.n > 0, "Commits have failed%s.", o.spanOf(r))
		},
		"Read the reason in the server's log.", "/settings#db", (*observed).refusing,
	},
	{
		"creates-fail", Notable, func(o *observed) string {
			r := o.rises("plantstore_http_errors_total", recently, "5")
			return textIf(r.n > 0, "Requests have failed%s: %s.", o.spanOf(r), strings.Join(r.labels, ", "))
		},
		"Look the number up in the reference of errors; the server's log has the cause.", "/#chart-errors",
		func(o *observed) bool { return o.refusing() || o.found["commits-fail"] },
	},
	{
		"disk-too-small", Notable, func(o *observed) string {
			free := OrNaN(o.DiskFreeBytes)
			return textIf(free < OrNaN(o.StoreBytes)+OrNaN(o.WALBytes)+diskSpare,
				"The store's disk has only %s free, too little for a copy of the store.", FormatBytes(free))
		},
		"Free space, or move the store to a larger disk.", "/settings#db", (*observed).full,
	},
	{
		"wal-grows", Notable, func(o *observed) string {
			return textIf(OrNaN(o.WALBytes) > OrNaN(o.WALMaxBytes),
				"The write-ahead log has %s, more than its limit: a reader blocks its checkpoint.",
				FormatBytes(OrNaN(o.WALBytes)))
		},
		"Stop any long backup or verification, and any other program that keeps the file open.", "/settings#db",
		(*observed).full,
	},
	{
		"backups-fail", Notable, func(o *observed) string {
			return textIf(o.BackupsError != "", "The server could not list the backups: %s.", o.BackupsError)
		},
		"Check the destination of the backups.", "/backups", nil,
	},
	{
		"backup-missing", Notable, func(o *observed) string {
			return textIf(!o.Backups && o.StoreBytes != nil, "The server makes no backups.") // a file
		},
		"Set --backup-dir, or copy backups with your own tools.", "/settings#backup-dir", nil,
	},
	{
		"backup-missing", Notable, func(o *observed) string {
			b := o.LastBackup
			if b == nil {
				return textIf(o.Backups && o.BackupsError == "", "There is no complete backup.")
			}
			return textIf(o.now.Sub(b.At) > backupAgeMax, "The last backup is of %s: %s.", o.clock(b.At), b.Name)
		},
		"Start one.", "/backups", nil,
	},
	{
		"credential-expires", Notable, func(o *observed) string {
			if o.CredentialsExpiring == 1 {
				return "A credential expires within 7 days."
			}
			return textIf(o.CredentialsExpiring > 1, "%d credentials expire within 7 days.", o.CredentialsExpiring)
		},
		"Rotate it, or them.", "/credentials", nil,
	},
	{
		"events-late", Notable, func(o *observed) string {
			return o.receivers(func(w webhook.Status) string {
				if w.Gone {
					return "410 Gone, so it gets no more events"
				}
				return textIf(w.Failures > 0, "%s", w.Reason)
			}, "Deliveries to %s fail: %s.")
		},
		"Call the operator of the receiver. After 410 Gone, correct the address, or restart the server.", "/webhooks", nil,
	},
	{
		"dead-letters", Notable, func(o *observed) string {
			return o.receivers(func(w webhook.Status) string {
				return textIf(w.Dead > 0, "%d", w.Dead)
			}, "The server no longer delivers some events to %s: %s.")
		},
		"Retry or drop these dead letters.", "/webhooks#dead", nil,
	},
}

// The limits of conditions. The rules for Prometheus have the same.
const (
	diskSpare    = 1e9 // bytes of free space beside those for a copy of the store
	backupAgeMax = 2 * 24 * time.Hour
)

// observed is what the conditions are found in.
type observed struct {
	State

	now        time.Time
	unready    error // why the store accepts no plants; nil: it does
	durability store.Durability
	deliveries map[int64]webhook.Status
	metrics    *metricWatch // locked
	found      map[string]bool
}

func (o *observed) full() bool { return errors.Is(o.unready, writepath.ErrDiskFull) }

func (o *observed) refusing() bool { return o.unready != nil }

func (o *observed) rises(metric string, within time.Duration, prefix ...string) rises {
	return o.metrics.rises(metric, o.now.Add(-within), strings.Join(prefix, ""))
}

// receivers returns a text with the number of webhooks for which find returns a text, and these texts of some.
func (o *observed) receivers(find func(webhook.Status) string, format string) string {
	const most = 3
	var texts []string
	for _, id := range slices.Sorted(maps.Keys(o.deliveries)) {
		if text := find(o.deliveries[id]); text != "" {
			texts = append(texts, o.deliveries[id].Address+": "+text)
		}
	}
	n := len(texts)
	if n == 0 {
		return ""
	}
	receivers := textIf(n > 1, "%d webhooks", n)
	if n == 1 {
		receivers = "a webhook"
	}
	if n > most {
		texts = append(texts[:most], fmt.Sprintf("%d others", n-most))
	}
	return fmt.Sprintf(format, receivers, strings.Join(texts, "; "))
}

// spanOf returns how often and when failures were.
func (o *observed) spanOf(r rises) string {
	if r.n == 1 {
		return " once, at " + o.clock(r.last)
	}
	return fmt.Sprintf(" %.0f times since %s, the last time at %s", r.n, o.clock(r.first), o.clock(r.last))
}

// clock returns a time, with the date unless it is today.
func (o *observed) clock(t time.Time) string {
	layout := "15:04 UTC"
	if t = t.UTC(); t.Format(time.DateOnly) != o.now.UTC().Format(time.DateOnly) {
		layout = "2006-01-02 15:04 UTC"
	}
	return t.Format(layout)
}

// textIf returns a text if a condition holds, else an empty one.
func textIf(holds bool, format string, values ...any) string {
	if !holds {
		return ""
	}
	return fmt.Sprintf(format, values...)
}

// find returns the warnings.
func (s *Service) find(o *observed) []Warning {
	o.now, o.found, o.metrics = time.Now(), map[string]bool{}, &s.metrics
	o.deliveries = s.Deliveries()
	s.metrics.mu.Lock()
	defer s.metrics.mu.Unlock()
	list, since := []Warning{}, map[string]time.Time{}
	for _, c := range conditions {
		if o.found[c.id] || c.hidden != nil && c.hidden(o) {
			continue
		}
		text := c.find(o)
		if text == "" {
			continue
		}
		o.found[c.id], since[c.id] = true, s.metrics.since[c.id]
		if since[c.id].IsZero() {
			since[c.id] = o.now.UTC().Truncate(time.Second)
		}
		list = append(list, Warning{c.id, c.severity, text, c.remedy, c.page, since[c.id]})
	}
	s.metrics.since = since
	return list
}

// OrNaN returns a number; NaN if it is unknown.
func OrNaN(n *int64) float64 {
	if n == nil {
		return math.NaN()
	}
	return float64(*n)
}

// FormatBytes returns a size in binary units.
func FormatBytes(n float64) string {
	units, unit, decimals := []string{"B", "KiB", "MiB", "GiB", "TiB"}, 0, 0
	for n >= 1024 && unit < len(units)-1 {
		n, unit, decimals = n/1024, unit+1, 1
	}
	return strconv.FormatFloat(n, 'f', decimals, 64) + " " + units[unit]
}
