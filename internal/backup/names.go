package backup

import (
	"path/filepath"
	"strings"
	"time"
)

// series names the backups and segments of one store: it is the name of the store's file without .db.
type series string

func seriesOf(db string) series { return series(strings.TrimSuffix(filepath.Base(db), ".db")) }

// The name of a backup is the prefix of its series, the time of its start, and the end of its kind.
const (
	nameTime     = "20060102T150405Z"
	scheduledEnd = ".db"
	manualEnd    = "-manual.db"
)

// prefix returns the prefix of the names of the backups.
func (n series) prefix() string { return string(n) + "-" }

// segmentPrefix returns the prefix of the names of the segments, so that a list of the backups has no segments.
func (n series) segmentPrefix() string { return string(n) + "." }

// nameAt returns the name of a backup that starts at a time.
func (n series) nameAt(at time.Time, end string) string {
	return n.prefix() + at.UTC().Format(nameTime) + end
}

// named returns a backup with the facts that its name contains. ok is false for any other name, such as one with a
// slash.
func (n series) named(name string) (b Backup, ok bool) {
	middle, ok := strings.CutPrefix(name, n.prefix())
	if !ok {
		return b, false
	}
	b.Name = name
	for _, end := range []string{manualEnd, scheduledEnd} {
		at, err := time.Parse(nameTime+end, middle)
		if err == nil {
			b.At, b.Manual = at, end == manualEnd
			return b, true
		}
	}
	return b, false
}

func seriesOfBackup(name string) (n series, ok bool) {
	for _, end := range []string{manualEnd, scheduledEnd} {
		start, isBackup := strings.CutSuffix(name, end)
		at := len(start) - len(nameTime)
		if !isBackup || at < 1 || start[at-1] != '-' {
			continue
		}
		n = series(start[:at-1])
		if _, ok := n.named(name); ok {
			return n, true
		}
	}
	return "", false
}
