package serve

import (
	"context"
	"fmt"

	"plantstore/internal/backup"
	"plantstore/internal/config"
	"plantstore/internal/sqlite"
)

// openBackups opens the backups of the server, if they have a destination.
func (v *instance) openBackups(ctx context.Context) (err error) {
	s := v.Settings
	file, isFile := v.engine.(*sqlite.Engine)
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
		Every: s.Backup.Every, Keep: s.Backup.Keep, Journal: file, Lag: s.Backup.Lag,
		By: v.By, Record: v.audit.Record, Log: v.log, Metrics: v.metrics,
	})
	if err != nil { // check has found the usage errors
		return fmt.Errorf("open the backups: %w", err)
	}
	v.onStart(func(context.Context) { v.backups.Start() })
	v.onClose(v.backups.Close)
	return nil
}
