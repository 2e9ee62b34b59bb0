package backup

import (
	"path/filepath"
	"strings"
	"time"
)

// The name of a backup is the prefix of its store, the time of its start, and the end of its kind.
const (
	nameTime     = "20060102T150405Z"
	scheduledEnd = ".db"
	manualEnd    = "-manual.db"
)

// prefix returns the prefix of the names of this store's backups.
func (s *Service) prefix() string {
	return strings.TrimSuffix(filepath.Base(s.config.DB), ".db") + "-"
}

// nameAt returns the name of a backup that starts at a time.
func (s *Service) nameAt(at time.Time, end string) string {
	return s.prefix() + at.UTC().Format(nameTime) + end
}

// named returns a backup with the facts that its name contains. ok is false for any other name, such as one with a
// slash.
func (s *Service) named(name string) (b Backup, ok bool) {
	middle, ok := strings.CutPrefix(name, s.prefix())
	if !ok {
		return b, false
	}
	b = Backup{Name: name, Location: s.to.location(name)}
	for _, end := range []string{manualEnd, scheduledEnd} {
		at, err := time.Parse(nameTime+end, middle)
		if err == nil {
			b.At, b.Manual = at, end == manualEnd
			return b, true
		}
	}
	return b, false
}
