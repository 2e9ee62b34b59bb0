package serve

import (
	"context"
	"fmt"
	"time"

	"plantstore/internal/backup"
	"plantstore/internal/config"
	"plantstore/internal/sqlite"
	"plantstore/internal/store"
)

// openBackups opens the backups of the server, if they have a destination.
func (v *instance) openBackups(ctx context.Context) (err error) {
	s := v.Settings
	file, isFile := v.engine.(*sqlite.Engine)
	if v.copied != nil {
		file, isFile = v.copied.Engine, true
	}
	if isFile && (s.Backup.Dir == "" || s.Backup.Lag == 0) {
		if err := file.StopJournal(ctx); err != nil {
			return err
		}
	}
	if s.Backup.Dir == "" {
		return nil
	}
	bucket := s.Backup.S3Config(v.Env)
	if backup.IsBucket(s.Backup.Dir) && config.SendsInTheClear(bucket.Endpoint) {
		v.log.Warn("the S3 server has no TLS: others on the network can read and change the backups; use https",
			"endpoint", bucket.Endpoint)
	}
	v.backups, err = backup.New(backup.Config{
		DB: s.DB.Path, Destination: s.Backup.Dir, S3: bucket, Scratch: v.Env.ScratchDir(s.DB.Path),
		Every: s.Backup.Every, Keep: s.Backup.Keep, Engine: file, Lag: s.Backup.Lag, Sync: s.Backup.Sync,
		By: v.By, Record: v.audit.Record, Log: v.log, Metrics: v.metrics,
	})
	if err != nil { // check has found the usage errors
		return fmt.Errorf("open the backups: %w", err)
	}
	const listTimeMax = 5 * time.Second // the server must start while a bucket is away
	listed, cancel := context.WithTimeout(ctx, listTimeMax)
	defer cancel()
	if err := v.backups.CheckStore(listed); err != nil {
		return s.Fault("backup-dir", "%w; to restore a store that was lost, move %s and the files beside it away, "+
			"and use --restore-missing", err, s.DB.Path)
	}
	if v.copied != nil {
		v.copied.backups = v.backups
	}
	v.onStart(func(context.Context) { v.backups.Start() })
	v.onClose(v.backups.Close)
	return nil
}

// copiedEngine is the engine of a file whose inserts end when the destination of the backups has them too.
type copiedEngine struct {
	*sqlite.Engine

	destination string
	backups     *backup.Service
}

// copiedCommits is the number of commits that wait for the destination at the same time.
const copiedCommits = 8

// Insert implements writepath.Engine.
func (e *copiedEngine) Insert(ctx context.Context, batch []store.Create) ([]store.Outcome, error) {
	outcomes, err := e.Engine.Insert(ctx, batch)
	if err != nil {
		return nil, err
	}
	if err := e.backups.Sync(ctx); err != nil {
		return nil, fmt.Errorf("%w: copy to %s: %w", store.ErrOutcomeUnknown, e.destination, err)
	}
	return outcomes, nil
}

// Probe implements writepath.Engine.
func (e *copiedEngine) Probe(ctx context.Context) error {
	if err := e.Engine.Probe(ctx); err != nil {
		return err
	}
	return e.backups.Sync(ctx)
}

// Durability implements writepath.Engine.
func (e *copiedEngine) Durability() store.Durability {
	d := e.Engine.Durability()
	d.Guarantee += " and in " + e.destination
	return d
}
