package config

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"plantstore/internal/backup"
	"plantstore/internal/s3"
)

func checkDestination(text string) error {
	if !backup.IsBucket(text) {
		return nil
	}
	_, err := s3.ParseLocation(text)
	return err
}

// SendsInTheClear reports whether the endpoint of an S3 server has no TLS and may be on another machine.
func SendsInTheClear(endpoint string) bool {
	u, err := s3.ParseEndpoint(endpoint)
	if err != nil || u.Scheme != "http" {
		return false
	}
	return !IsLoopback(u.Hostname())
}

// checkBackup returns a usage error for settings that contradict each other.
func (s *Settings) checkBackup() error {
	b := &s.Backup
	if b.Destination != "" && s.DB.IsDatabase() {
		return s.Fault("backup-dir",
			"scheduled backups need a store in a file; back up PostgreSQL with its tools, such as pgBackRest")
	}
	switch {
	case b.RestoreMissing && b.Destination == "":
		return s.Fault("restore-missing", "set backup-dir too, from which the store is restored")
	case len(b.TakeOver) > 0 && b.Destination == "":
		return s.Fault("take-over", "set backup-dir too, whose backups this server takes over")
	case b.Sync && b.Destination == "":
		return s.Fault("backup-sync", "set backup-dir too, to which each commit is copied")
	case b.Sync && b.Lag == 0:
		return s.Fault("backup-sync", "set backup-lag too, within which other changes are copied")
	case b.Standby && s.DB.IsDatabase():
		return s.Fault("standby", "it needs a store in a file; PostgreSQL has standbys of its own")
	case b.Failover != 0 && s.DB.IsDatabase():
		return s.Fault("failover", "it needs a store in a file; servers on PostgreSQL need no failover")
	case b.Standby && (b.Destination == "" || b.Lag == 0):
		return s.Fault("standby", "set backup-dir and backup-lag too: a standby follows the commits there")
	case b.Failover != 0 && (b.Destination == "" || b.Lag == 0):
		return s.Fault("failover", "set backup-dir and backup-lag too: a standby follows the commits there")
	case b.Failover != 0 && b.Failover < shortestFailover:
		return s.Fault("failover", "use 0 or at least %s", FormatDuration(shortestFailover))
	case b.Lag != 0 && b.Lag < shortestLag:
		return s.Fault("backup-lag", "use 0 or at least %s", FormatDuration(shortestLag))
	}
	return nil
}

const (
	shortestLag      = 100 * time.Millisecond // a segment for each half of it
	shortestFailover = time.Second
)

// CheckDestination returns a usage error if the destination of the backups cannot be used.
func (s *Settings) CheckDestination(ctx context.Context, env *Environment) (err error) {
	switch to := s.Backup.Destination; {
	case to == "":
		return nil
	case backup.IsBucket(to):
		err = checkBucket(ctx, env, to)
	default:
		err = checkDirectory(to)
		if backup.HasOwned(s.DB.Path, to) { // the disk is away, and the server tries again
			err = nil
		}
	}
	if err != nil {
		return s.Fault("backup-dir", "%w", err)
	}
	return nil
}

// checkBucket returns an error if the settings of a bucket are wrong or there are no keys. It sends no request to the
// S3 server, because the server must start while that one is away.
func checkBucket(ctx context.Context, env *Environment, address string) error {
	at, err := s3.ParseLocation(address)
	if err != nil {
		return err
	}
	c := s3.FromEnvironment(env.Vars)
	bucket, err := s3.Open(c, at.Bucket)
	if err == nil && !c.InstanceRole { // which would send a request too
		err = bucket.CheckKeys(ctx)
	}
	return err
}

// checkDirectory returns an error if the server cannot create files in the backup directory. It creates a file and
// removes it, because the mode of the directory alone does not decide.
func checkDirectory(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("directory %q does not exist; create it or change the setting", dir)
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%q is not a directory; change the setting", dir)
	}
	f, err := os.CreateTemp(dir, ".plantstore*")
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(f.Name()))
	}
	if err != nil {
		return fmt.Errorf("cannot create a file in %q: %w; give the server's user write access or change the setting",
			dir, err)
	}
	return nil
}
