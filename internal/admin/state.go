package admin

import (
	"context"
	"errors"
	"time"

	"plantstore/internal/store"
)

// State is the state of a server and its store, in the form of the API.
type State struct {
	Version   string    `json:"version"`
	StartedAt time.Time `json:"started_at"`
	DB        string    `json:"db"`     // without its password
	Ready     bool      `json:"ready"`  // the store accepts plants
	Reason    string    `json:"reason"` // why it does not; empty if it does

	Guarantee string    `json:"guarantee"` // where an acknowledged plant is stored
	Standby   bool      `json:"standby"`   // an acknowledged plant is stored on more than one machine
	Warnings  []Warning `json:"warnings"`  // the most urgent first

	Follower bool `json:"-"` // a standby, which accepts no plants

	Gauges

	Backups      bool          `json:"backups"`                 // the server makes backups
	LastBackup   *BackupRecord `json:"last_backup,omitempty"`   // the newest complete one of the last complete list
	BackupsError string        `json:"backups_error,omitempty"` // why the server could not read which backup is the last
}

// State returns the state of the server.
func (s *Service) State(ctx context.Context) State { return s.state(ctx, lastBackupEvery) }

// state returns the state of the server with a list of the backups that is not older than listAgeMax.
func (s *Service) state(ctx context.Context, listAgeMax time.Duration) State {
	o := observed{State: State{
		Version: s.config.Version, StartedAt: s.started, DB: s.config.DB, Backups: s.config.Backups != nil,
		Gauges: s.Gauges(),
	}, durability: s.engine.Durability()}
	o.Guarantee, o.Standby = o.durability.Guarantee, o.durability.Standby
	if s.config.WritePath != nil {
		o.unready = s.config.WritePath.Ready()
		if o.Ready = o.unready == nil; !o.Ready {
			o.Reason, o.Follower = o.unready.Error(), errors.Is(o.unready, store.ErrStandby)
		}
	}
	o.LastBackup, o.BackupsError = s.lastBackup(ctx, listAgeMax)
	o.Warnings = s.find(&o)
	return o.State
}

// Gauges are sizes and numbers of a server and its store; nil: unknown.
type Gauges struct {
	Plants        *int64 `json:"plants,omitempty"` // an estimate on PostgreSQL
	QueuePlants   int64  `json:"queue_plants"`     // plants that wait for the next commit
	StoreBytes    *int64 `json:"store_bytes,omitempty"`
	WALBytes      *int64 `json:"wal_bytes,omitempty"`       // nil on PostgreSQL
	WALMaxBytes   *int64 `json:"-"`                         // a larger WAL means that a reader blocks the checkpoint
	DiskFreeBytes *int64 `json:"disk_free_bytes,omitempty"` // nil on PostgreSQL

	Connections         map[string]int64 `json:"connections"`          // open connections by listener
	CredentialsExpiring int64            `json:"credentials_expiring"` // valid credentials that expire within 7 days
}

// Gauges returns the numbers of now, without a read of the store.
func (s *Service) Gauges() Gauges {
	g := Gauges{Connections: map[string]int64{}}
	if s.config.WritePath != nil {
		n := s.config.WritePath.Numbers()
		g.Plants, g.QueuePlants, g.CredentialsExpiring = known(n.Plants), n.Queue, n.CredentialsExpiring
	}
	if sizes := s.engine.Sizes(); sizes != nil {
		g.StoreBytes, g.WALBytes, g.WALMaxBytes = &sizes.File, &sizes.WAL, &sizes.WALMax
		g.DiskFreeBytes = known(sizes.DiskFree)
	}
	if s.config.Open != nil {
		g.Connections = s.config.Open()
	}
	return g
}

// known returns n, nil if it is negative.
func known(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

// Setting is a setting of the server, in the form of the API.
type Setting struct {
	Name       string `json:"name"`
	Value      string `json:"value"`      // in force, in the form of a flag; secrets are hidden
	Source     string `json:"source"`     // a flag, an environment variable, the path of the file, or default
	Reloadable bool   `json:"reloadable"` // a reload changes it without a restart
	Group      string `json:"group"`      // title of the settings for the same task
	Usage      string `json:"usage"`      // what it is, in one line
}

// SettingList is the list of the settings, in the form of the API.
type SettingList struct {
	Settings []Setting `json:"settings"`
}

// Settings returns the settings in force.
func (s *Service) Settings() []Setting { return s.config.Settings() }
