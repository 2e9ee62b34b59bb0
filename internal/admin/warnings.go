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
	"syscall"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/backup"
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

// Warnings returns the conditions that hold, the most urgent first, at most one of each id. It does not read the store,
// and the destination of the backups at most once a minute, or every lastBackupEvery if it has no backup or fails.
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
			return textIf(o.unready != nil && !o.Follower, "The store accepts no plants: %v.", o.unready)
		},
		"Read the reason in the server's log.", "/settings#db", (*observed).full,
	},
	{
		"certificate-expires", Critical, func(o *observed) string { return o.expires(expirySoon) },
		"Replace the files, or repair the renewal, now.", "/settings#tls-cert", nil,
	},
	{
		"disk-fills", Critical, func(o *observed) string { return o.fills(fillsSoon) },
		"Free space now, or stop what fills the disk.", "/settings#db", nil,
	},
	{
		"not-durable", Critical, func(o *observed) string {
			return textIf(len(o.durability.Warnings) > 0, "Acknowledged plants are at risk: %s.",
				strings.Join(o.durability.Warnings, "; "))
		},
		"Correct the settings of the database.", "/settings#db", nil,
	},
	{
		"standby-missing", Notable, func(o *observed) string {
			return textIf(!o.Standby && o.watched.standby, "The database has lost its synchronous standby.")
		},
		"Repair the standby, and check synchronous_standby_names.", "/settings#db", nil,
	},
	{
		"commits-fail", Notable, func(o *observed) string {
			r := o.rises(commitsFailed, recently)
			return textIf(r.n > 0, "Commits have failed%s.", o.spanOf(r))
		},
		"Read the reason in the server's log.", "/settings#db", (*observed).refusing,
	},
	{
		"queue-full", Notable, func(o *observed) string {
			return o.lasting(plantsRefused, "The queue is full: plants were refused%s, reason %s.")
		},
		"Find why commits are slow, or limit the client that fills the queue.", "/#chart-connections", (*observed).refusing,
	},
	{
		"creates-fail", Notable, func(o *observed) string {
			r := o.rises(requestsFailed, recently)
			return textIf(r.n > 0, "Requests have failed%s: %s.", o.spanOf(r), strings.Join(r.labels, ", "))
		},
		"Look the number up in the reference of errors; the server's log has the cause.", "/#chart-errors",
		func(o *observed) bool { return o.refusing() || o.found["commits-fail"] || o.found["queue-full"] },
	},
	{
		"connections-refused", Notable, func(o *observed) string {
			return o.lasting(connectionsRefused, "Connections were refused%s: %s.")
		},
		"Find the client that opens too many connections, or raise the limit.", "/#chart-connections", nil,
	},
	{
		"issuer-keys-old", Notable, func(o *observed) string {
			r := o.rises(keyFetchesFailed, recently)
			return textIf(r.n > 0 && o.now.Sub(o.watched.KeysFetched) >= keysAgeMax,
				"The keys of the issuer could not be fetched%s.", o.spanOf(r))
		},
		"Check the issuer, and the network between.", "/settings#oidc-issuer", nil,
	},
	{
		"certificate-expires", Notable, func(o *observed) string { return o.expires(expiryLater) },
		"Replace the files, or repair the renewal.", "/settings#tls-cert", nil,
	},
	{
		"certificate-refused", Notable, func(o *observed) string {
			return o.unless(certificatesLoaded, certificatesRefused, day,
				"New files of the TLS certificate were refused%s; the previous one stays in use.")
		},
		"Read the reason in the server's log, and install a certificate with its key.", "/settings#tls-cert", nil,
	},
	{
		"orders-fail", Notable, func(o *observed) string {
			return o.unless(ordersIssued, ordersFailed, math.MaxInt64, "Orders of the TLS certificate have failed%s.")
		},
		"Read the response of the CA in the server's log; check DNS and the port of the challenge.",
		"/settings#acme-domain", nil,
	},
	{
		"disk-fills", Notable, func(o *observed) string { return o.fills(fillsLater) },
		"Free space, or enlarge the disk.", "/settings#db", (*observed).full,
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
		"backup-disk-too-small", Notable, func(o *observed) string {
			free, fault := OrNaN(o.watched.Backups.DiskFree), ""
			if o.schedule.Fault != nil {
				fault = fmt.Sprintf("; the last one failed: %v", o.schedule.Fault)
			}
			return textIf(free < OrNaN(o.StoreBytes)+OrNaN(o.WALBytes),
				"The disk of the backups has only %s free, too little for the next one%s.", FormatBytes(free), fault)
		},
		"Enlarge the disk, lower --backup-keep, or delete old backups, but never the newest.", "/backups", nil,
	},
	{
		"backups-fail", Notable, func(o *observed) string {
			if o.schedule.Fault == nil {
				return textIf(o.BackupsError != "", "The server could not list the backups: %s.", o.BackupsError)
			}
			r := o.rises(backupsFailed, math.MaxInt64)
			return textIf(!o.isFull(o.schedule.Fault.Error()), "Backups have failed%s: %v; the next one starts at %s.",
				o.spanOf(r), o.schedule.Fault, o.clock(o.schedule.Next))
		},
		"Check the destination of the backups.", "/backups", nil,
	},
	{
		"copy-late", Notable, func(o *observed) string {
			lag, faults := o.watched.Backups.CopyLag, strings.Join(o.schedule.Faults, "; ")
			if faults == "" {
				faults = "it is slower than the creates"
			}
			return textIf(lag > copyLagMax && !o.isFull(faults),
				"The destination of the backups lacks the commits since %s: %s.",
				o.clock(o.now.Add(-lag)), faults)
		},
		"Check the destination of the backups.", "/backups", nil,
	},
	{
		"standby-behind", Notable, func(o *observed) string {
			s, _ := errors.AsType[backup.StandbyStatus](o.unready)
			fault := textIf(s.Fault != nil, ": %v", s.Fault)
			return textIf(o.Follower && s.Behind() > behindMax,
				"This standby lacks what the server on %s has stored since %s%s.", s.Host, o.clock(s.Current), fault)
		},
		"Check the destination of the backups, and the network between.", "/settings#standby", nil,
	},
	{
		"segments-grow", Notable, func(o *observed) string {
			b := o.watched.Backups
			return textIf(b.Segments > segmentsMax || b.MergeLag > mergeLagMax,
				"The copied commits are in %d segments, because merges of them fail or take too long.", b.Segments)
		},
		"Read the reason in the server's log; check the rights of the keys and the lifecycle rule of the bucket.",
		"/backups", nil,
	},
	{
		"backups-vanish", Notable, func(o *observed) string {
			r := o.rises(backupsVanished, day)
			return textIf(r.n > 0, "Backups have vanished%s: somebody has removed them, or their disk is not mounted.",
				o.spanOf(r))
		},
		"Find out who it was; the server's log names them.", "/backups", nil,
	},
	{
		"backup-missing", Notable, func(o *observed) string {
			return textIf(!o.Backups && !o.Follower && o.StoreBytes != nil, "The server makes no backups.") // a file
		},
		"Set --backup-dir, or copy backups with your own tools.", "/settings#backup-dir", nil,
	},
	{
		"backup-missing", Notable, func(o *observed) string {
			b := o.LastBackup
			if b == nil {
				return textIf(o.Backups && o.BackupsError == "", "There is no complete backup.")
			}
			return textIf(o.now.Sub(b.At) > max(backupAgeMax, 2*o.schedule.Every),
				"The last backup is of %s: %s.", o.clock(b.At), b.Name)
		},
		"Start one.", "/backups",
		func(o *observed) bool { return o.found["backups-fail"] || o.found["backup-disk-too-small"] },
	},
	{
		"credential-expires", Notable, func(o *observed) string {
			if o.CredentialsExpiring == 1 {
				return "A credential expires within 7 days."
			}
			return textIf(o.CredentialsExpiring > 1, "%d credentials expire within 7 days.", o.CredentialsExpiring)
		},
		"Rotate each before it expires.", "/credentials?state=expiring", nil,
	},
	{
		"ended-credential-used", Notable, (*observed).endedUsed,
		"Give its client a new token, or stop the client.", "/credentials#ended", nil,
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
		"events-late", Notable, func(o *observed) string {
			oldest := o.now
			for _, w := range o.deliveries {
				if !w.Oldest.IsZero() && w.Oldest.Before(oldest) {
					oldest = w.Oldest
				}
			}
			return textIf(o.now.Sub(oldest) > eventAgeMax, "An event for a webhook has waited since %s.", o.clock(oldest))
		},
		"Check the receiver, and --webhook-rate.", "/webhooks", nil,
	},
	{
		"dead-letters", Notable, func(o *observed) string {
			return o.receivers(func(w webhook.Status) string {
				return textIf(w.Dead > 0, "%d", w.Dead)
			}, "The server no longer delivers some events to %s: %s.")
		},
		"Retry or drop these dead letters.", "/webhooks#dead", nil,
	},
	{
		"log-incomplete", Notable, func(o *observed) string {
			r := o.rises(logLinesDropped, recently)
			return textIf(r.n > 0, "Lines of the server's log were dropped%s.", o.spanOf(r))
		},
		"Check the disk of the journal, and --log-level.", "/settings#log-level", nil,
	},
}

// The limits of conditions. The rules for Prometheus have the same.
const (
	diskSpare    = 1e9 // bytes of free space beside those for a copy of the store
	backupAgeMax = 2 * day
	copyLagMax   = time.Minute
	behindMax    = 30 * time.Second
	mergeLagMax  = 15 * time.Minute
	segmentsMax  = 250_000
	eventAgeMax  = time.Hour
	keysAgeMax   = 30 * time.Minute

	day = 24 * time.Hour
)

// expiry is the time to the expiry of a certificate: a share of its validity, so that it fits certificates of a day and
// of a year.
type expiry struct {
	share float64
	most  time.Duration
}

// filling is the time in which a disk is full at the rate of each of the last two periods: of two, because a single
// step, such as a backup on the same disk, is in one.
type filling struct{ within, period time.Duration }

var (
	expirySoon, expiryLater = expiry{20, 2 * day}, expiry{5, 14 * day}
	fillsSoon, fillsLater   = filling{4 * time.Hour, 30 * time.Minute}, filling{day, 3 * time.Hour}
)

// observed is what the conditions are found in.
type observed struct {
	State

	now        time.Time
	unready    error // why the store accepts no plants; nil: it does
	durability store.Durability
	deliveries map[int64]webhook.Status
	schedule   BackupSchedule
	ended      []auth.EndedUse
	watched    *watched // locked
	found      map[string]bool
}

func (o *observed) full() bool { return errors.Is(o.unready, writepath.ErrDiskFull) }

func (o *observed) refusing() bool { return o.unready != nil }

// isFull reports whether a fault is about a full disk of which another warning tells.
func (o *observed) isFull(fault string) bool {
	return strings.Contains(fault, syscall.ENOSPC.Error()) && (o.full() || o.found["backup-disk-too-small"])
}

// expires returns the text about a certificate that expires within a time.
func (o *observed) expires(e expiry) string {
	c := o.watched.Certificate
	if c == nil {
		return "" // no TLS
	}
	switch left := c.End.Sub(o.now); {
	case left.Seconds() >= min(c.End.Sub(c.Begin).Seconds()/e.share, e.most.Seconds()):
		return ""
	case c.End.IsZero():
		return "The server has no TLS certificate yet, so no client can connect."
	case left <= 0:
		return "The TLS certificate expired at " + o.clock(c.End) + ", so clients refuse to connect."
	default:
		return "The TLS certificate expires at " + o.clock(c.End) + "; then clients refuse to connect."
	}
}

// fills returns the text about a disk that is full soon.
func (o *observed) fills(f filling) string {
	free, disk := OrNaN(o.DiskFreeBytes), o.watched
	full := func(end time.Time) bool {
		shrunk := disk.freeAt(end.Add(-f.period)) - disk.freeAt(end)
		return free-shrunk*float64(f.within/f.period) < 0
	}
	return textIf(full(o.now.Add(-f.period)) && full(o.now),
		"The store's disk will be full within %.0f hours: %s are free.", f.within.Hours(), FormatBytes(free))
}

// lasting returns the text about refusals that have lasted, with their span and labels.
func (o *observed) lasting(c counter, format string) string {
	const least = 10 * time.Minute
	r := o.rises(c, recently)
	return textIf(r.n > 0 && r.last.Sub(r.first) >= least, format, o.spanOf(r), strings.Join(r.labels, ", "))
}

// unless returns the text about failures within a time that no success follows.
func (o *observed) unless(success, failure counter, within time.Duration, format string) string {
	r := o.rises(failure, within)
	return textIf(r.last.After(o.rises(success, within).last), format, o.spanOf(r))
}

func (o *observed) rises(c counter, within time.Duration) rises {
	return o.watched.rises(c, o.now.Add(-within))
}

// endedUsed returns a text about the ended credential that was used last.
func (o *observed) endedUsed() string {
	if len(o.ended) == 0 {
		return ""
	}
	u, end, others := o.ended[0], "expired", ""
	if u.Revoked() {
		end = "was revoked"
	}
	if n := len(o.ended) - 1; n > 0 {
		others = fmt.Sprintf(" Others in use: %d.", n)
	}
	return fmt.Sprintf("%s %s at %s and was used at %s.%s", auth.PrincipalName(u.Name), end, o.clock(u.EndedAt()),
		o.clock(u.Last), others)
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
	switch r.n {
	case 0: // the watcher has not looked since
		return ""
	case 1:
		return " once, at " + o.clock(r.last)
	}
	return fmt.Sprintf(" %d times since %s, the last time at %s", r.n, o.clock(r.first), o.clock(r.last))
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
	o.now, o.found, o.watched = time.Now(), map[string]bool{}, &s.watched
	o.deliveries, o.schedule, o.ended = s.Deliveries(), s.BackupSchedule(), s.endedUses()
	s.watched.mu.Lock()
	defer s.watched.mu.Unlock()
	list, since := []Warning{}, map[string]time.Time{}
	for _, c := range conditions {
		if o.found[c.id] || c.hidden != nil && c.hidden(o) {
			continue
		}
		text := c.find(o)
		if text == "" {
			continue
		}
		o.found[c.id], since[c.id] = true, s.watched.since[c.id]
		if since[c.id].IsZero() {
			since[c.id] = o.now.UTC().Truncate(time.Second)
		}
		list = append(list, Warning{c.id, c.severity, text, c.remedy, c.page, since[c.id]})
	}
	s.watched.since = since
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
