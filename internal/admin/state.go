package admin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"plantstore/internal/backup"
)

// State is the state of a server and its store, in the form of the API.
type State struct {
	Version   string    `json:"version"`
	StartedAt time.Time `json:"started_at"`
	DB        string    `json:"db"`     // without its password
	Ready     bool      `json:"ready"`  // the store accepts plants
	Reason    string    `json:"reason"` // why it does not; empty if it does

	Guarantee string   `json:"guarantee"` // where an acknowledged plant is stored
	Standby   bool     `json:"standby"`   // an acknowledged plant is stored on more than one machine
	Warnings  []string `json:"warnings"`  // why the guarantee may not hold, each with advice

	Gauges

	Backups      bool          `json:"backups"`                 // the server makes backups
	LastBackup   *BackupRecord `json:"last_backup,omitempty"`   // the newest complete one of the last complete list
	BackupsError string        `json:"backups_error,omitempty"` // why the server could not read which backup is the last
}

// State returns the state of the server.
func (s *Service) State(ctx context.Context) State {
	st := State{
		Version: s.config.Version, StartedAt: s.started, DB: s.config.DB, Backups: s.config.Backups != nil,
		Gauges: s.Metrics().Gauges, Warnings: []string{},
	}
	d := s.engine.Durability()
	st.Guarantee, st.Standby, st.Warnings = d.Guarantee, d.Standby, append(st.Warnings, d.Warnings...)
	if s.config.Store != nil {
		err := s.config.Store.Ready()
		if st.Ready = err == nil; err != nil {
			st.Reason = err.Error()
		}
	}
	st.LastBackup, st.BackupsError = s.lastBackup(ctx)
	return st
}

const (
	lastBackupEvery = 10 * time.Second // for which State uses the same list of backups
	listTimeMax     = 2 * time.Second
)

// newestBackup is the newest complete backup, read at most every lastBackupEvery.
type newestBackup struct {
	timeMax time.Duration // in which the destination must return the list

	mu     sync.Mutex    // guards the fields below, even while one goroutine lists the backups
	record *BackupRecord // of the last complete list; nil: none
	fault  string        // why the list at the time at failed; empty: it did not
	at     time.Time
}

// lastBackup returns the newest complete backup, nil without one, and why the destination could not be listed. The
// backup is then from the last complete list. The result is shared, so one client's disconnect must not stop it.
func (s *Service) lastBackup(ctx context.Context) (last *BackupRecord, fault string) {
	if s.config.Backups == nil {
		return nil, ""
	}
	n := &s.newest
	n.mu.Lock()
	defer n.mu.Unlock()
	if time.Since(n.at) < lastBackupEvery {
		return n.record, n.fault
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.timeMax)
	defer cancel()
	b, err := s.config.Backups.Newest(ctx)
	n.at, n.fault = time.Now(), ""
	switch {
	case err == nil:
		record := newBackupRecord(b)
		n.record = &record
	case errors.Is(err, backup.ErrNotFound):
		n.record = nil
	default:
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("the destination did not return the list within %s", n.timeMax)
		}
		s.log.Warn("could not list the backups", "error", err)
		n.fault = err.Error()
	}
	return n.record, n.fault
}

// BackupRecord is a backup, in the form of the API.
type BackupRecord struct {
	Name     string    `json:"name"`
	At       time.Time `json:"at"`     // start of the backup
	Manual   bool      `json:"manual"` // made on demand, so no retention applies to it
	Location string    `json:"location"`
	Bytes    int64     `json:"bytes"`
	Complete bool      `json:"complete"`
	Fault    string    `json:"fault,omitempty"` // why it is not complete

	// Of the manifest; absent without one.
	MadeAt  time.Time `json:"made_at,omitzero"`
	Store   string    `json:"store,omitempty"`
	Commits int64     `json:"commits,omitempty"`
	Plants  int64     `json:"plants,omitempty"`
	SHA256  string    `json:"sha256,omitempty"`
}

func newBackupRecord(b backup.Backup) BackupRecord {
	r := BackupRecord{
		Name: b.Name, At: b.At, Manual: b.Manual, Location: b.Location, Bytes: b.Bytes, Complete: b.Fault == nil,
		MadeAt: b.Manifest.MadeAt, Store: b.Manifest.Store, Commits: b.Manifest.Commits, Plants: b.Manifest.Plants,
		SHA256: b.Manifest.SHA256,
	}
	if b.Fault != nil {
		r.Fault = b.Fault.Error()
	}
	return r
}

// Setting is a setting of the server, in the form of the API.
type Setting struct {
	Name       string `json:"name"`
	Value      string `json:"value"`      // in force, in the form of a flag; secrets are hidden
	Source     string `json:"source"`     // a flag, an environment variable, the path of the file, or default
	Reloadable bool   `json:"reloadable"` // a reload changes it without a restart
}

// Settings returns the settings in force.
func (s *Service) Settings() []Setting { return s.config.Settings() }
