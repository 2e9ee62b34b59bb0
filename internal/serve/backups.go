package serve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"plantstore/internal/backup"
	"plantstore/internal/config"
	"plantstore/internal/s3"
	"plantstore/internal/sqlite"
	"plantstore/internal/store"
)

const claimMax = 15 * time.Second // an owner must start while a bucket is away

// openBackups opens the backups of the server, if they have a destination.
func (v *instance) openBackups(ctx context.Context) (err error) {
	s := v.Settings
	file, isFile := v.engine.(*sqlite.Engine)
	if v.copied != nil {
		file, isFile = v.copied.Engine, true
	}
	if isFile && (s.Backup.Destination == "" || s.Backup.Lag == 0) {
		if err := file.StopJournal(ctx); err != nil {
			return err
		}
	}
	if s.Backup.Destination == "" {
		return nil
	}
	c := v.backupConfig()
	if backup.IsBucket(s.Backup.Destination) && config.SendsInTheClear(c.S3.Endpoint) {
		v.log.Warn("the S3 server has no TLS: others on the network can read and change the backups; use https",
			"endpoint", c.S3.Endpoint)
	}
	c.Engine, c.Record, c.Metrics = file, v.audit.Record, v.metrics
	if v.backups, err = backup.New(c); err != nil { // check has found the usage errors
		return fmt.Errorf("open the backups: %w", err)
	}
	v.onClose(v.backups.Close)
	claiming, cancel := context.WithTimeout(ctx, claimMax)
	defer cancel()
	if err := v.backups.Claim(claiming); err != nil {
		return v.refused(err)
	}
	v.backups.Renew(claiming) // before the first change
	if v.copied != nil {
		v.copied.backups = v.backups
	}
	v.owner.Store(v.backups)
	v.onStart(func(context.Context) { v.backups.Start() })
	return nil
}

// backupConfig returns the configuration of the backups, as far as the settings have it.
func (v *instance) backupConfig() backup.Config {
	c := v.Settings.Backup
	c.DB, c.S3, c.Scratch = v.Settings.DB.Path, s3.FromEnvironment(v.Env.Vars), v.Env.ScratchDir(v.Settings.DB.Path)
	c.CaughtUp, c.By, c.Log = v.caughtUp, v.By, v.log
	return c
}

// refused returns the error of a server that does not own the destination of its backups.
func (v *instance) refused(err error) error {
	if _, owned := errors.AsType[*backup.OwnedError](err); owned {
		return v.Settings.Fault("backup-dir", "%w", err) // 2, so that systemd does not start it again
	}
	return fmt.Errorf("find the owner of the backups: %w", err)
}

// fenced returns a channel that is closed when another server owns the destination of the backups; nil: there is none.
func (v *instance) fenced() <-chan struct{} {
	if v.backups == nil {
		return nil
	}
	return v.backups.Fenced()
}

// copiedEngine is the engine of a file whose inserts end when the destination of the backups has them too (sync), and
// whose server may be replaced by a standby.
type copiedEngine struct {
	*sqlite.Engine

	destination string
	sync        bool
	backups     *backup.Service
}

// copiedCommits is the number of commits that wait for the destination at the same time. With more, a commit has fewer
// plants, and the next segment begins no earlier.
const copiedCommits = 4

// Insert implements writepath.Engine.
func (e *copiedEngine) Insert(ctx context.Context, batch []store.Create) ([]store.Outcome, error) {
	outcomes, err := e.Engine.Insert(ctx, batch)
	if err != nil {
		return nil, err
	}
	if err := e.confirm(ctx); err != nil {
		return nil, fmt.Errorf("%w: copy to %s: %w", store.ErrOutcomeUnknown, e.destination, err)
	}
	return outcomes, nil
}

// confirm returns an error unless this server is still the owner, after the commits of now.
func (e *copiedEngine) confirm(ctx context.Context) error {
	if e.sync {
		if err := e.backups.Sync(ctx); err != nil {
			return err
		}
	}
	return e.backups.MayAccept()
}

// Probe implements writepath.Engine.
func (e *copiedEngine) Probe(ctx context.Context) error {
	if err := e.Engine.Probe(ctx); err != nil {
		return err
	}
	return e.confirm(ctx)
}

// Durability implements writepath.Engine.
func (e *copiedEngine) Durability() store.Durability {
	d := e.Engine.Durability()
	if e.sync {
		d.Guarantee += " and in " + e.destination
	}
	return d
}
