package main

import (
	"context"
	"time"

	"plantstore/internal/backup"
)

// openBackups opens the backups of the server, if they have a destination.
func (v *instance) openBackups(context.Context) (err error) {
	s := v.Settings
	if s.backup.dir.text == "" {
		return nil
	}
	bucket := s.backup.s3Config(v.Env)
	if backup.IsBucket(s.backup.dir.String()) && sendsInTheClear(bucket.Endpoint) {
		v.log.Warn("the S3 server has no TLS: others on the network can read and change the backups; use https",
			"endpoint", bucket.Endpoint)
	}
	v.backups, err = backup.New(backup.Config{
		DB: s.db.path, Destination: s.backup.dir.String(), S3: bucket, Scratch: v.Env.scratchDir(s.db.path),
		Every: time.Duration(s.backup.every), Keep: s.backup.keep.n,
		By: v.By, Record: v.audit.Record, Log: v.log, Metrics: v.metrics,
	})
	if err != nil {
		return s.fault("backup-dir", "%w", err)
	}
	v.onStart(func(context.Context) { v.backups.Start() })
	v.onClose(v.backups.Close)
	return nil
}
