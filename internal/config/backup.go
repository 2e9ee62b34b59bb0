package config

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/pflag"

	"plantstore/internal/backup"
	"plantstore/internal/s3"
)

// Backup are the settings of the backups of a server, and of the S3 server of backups.
type Backup struct {
	Dir   string // or an S3 address
	Every time.Duration
	Keep  int
	Lag   time.Duration // 0: only backups
	Sync  bool          // acknowledge a plant after its commit is copied

	RestoreMissing bool     // restore a store that does not exist
	TakeOver       []string // timelines of other servers that this one may take over

	Endpoint     string // of the S3 server; empty: the one in the environment, else Amazon S3
	VirtualHost  bool
	Region       string
	InstanceRole bool
}

func checkDestination(text string) error {
	if !backup.IsBucket(text) {
		return nil
	}
	_, err := s3.ParseLocation(text)
	return err
}

func checkEndpoint(text string) error {
	_, err := s3.ParseEndpoint(text)
	return err
}

// BindS3 adds the flags of the S3 server to a command that reads or writes a backup.
func (s *Settings) BindS3(f *pflag.FlagSet) {
	s.Bind(f, "s3-endpoint", "s3-region", "s3-virtual-host", "s3-instance-role")
}

// S3Config returns the S3 server of the settings and of the usual variables.
func (b *Backup) S3Config(env *Environment) s3.Config {
	return s3.Config{
		Endpoint:     cmp.Or(b.Endpoint, env.Vars["AWS_ENDPOINT_URL_S3"], env.Vars["AWS_ENDPOINT_URL"]),
		VirtualHost:  b.VirtualHost,
		Region:       cmp.Or(b.Region, env.Vars["AWS_REGION"], env.Vars["AWS_DEFAULT_REGION"]),
		CAFile:       env.Vars["AWS_CA_BUNDLE"],
		InstanceRole: b.InstanceRole,
	}
}

// SendsInTheClear reports whether the endpoint of an S3 server has no TLS and may be on another machine.
func SendsInTheClear(endpoint string) bool {
	u, err := s3.ParseEndpoint(endpoint)
	if err != nil || u.Scheme != "http" {
		return false
	}
	return !IsLoopback(u.Hostname())
}

// check returns a usage error for settings that contradict each other.
func (b *Backup) check(s *Settings) error {
	if b.Dir != "" && s.DB.IsDatabase() {
		return s.Fault("backup-dir",
			"scheduled backups need a store in a file; back up PostgreSQL with its tools, such as pgBackRest")
	}
	switch {
	case b.RestoreMissing && b.Dir == "":
		return s.Fault("restore-missing", "set backup-dir too, from which the store is restored")
	case len(b.TakeOver) > 0 && b.Dir == "":
		return s.Fault("take-over", "set backup-dir too, whose backups this server takes over")
	case b.Sync && b.Dir == "":
		return s.Fault("backup-sync", "set backup-dir too, to which each commit is copied")
	case b.Sync && b.Lag == 0:
		return s.Fault("backup-sync", "set backup-lag too, within which other changes are copied")
	case b.Lag != 0 && b.Lag < shortestLag:
		return s.Fault("backup-lag", "use 0 or at least %s", FormatDuration(shortestLag))
	}
	return nil
}

const shortestLag = 100 * time.Millisecond // a segment for each half of it

// checkDestination returns an error if the destination of the backups cannot be used.
func (b *Backup) checkDestination(ctx context.Context, env *Environment, s *Settings) (err error) {
	switch {
	case b.Dir == "":
		return nil
	case backup.IsBucket(b.Dir):
		err = b.checkBucket(ctx, env)
	default:
		err = checkDirectory(b.Dir)
		if backup.HasOwned(s.DB.Path, b.Dir) { // the disk is away, and the server tries again
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
func (b *Backup) checkBucket(ctx context.Context, env *Environment) error {
	at, err := s3.ParseLocation(b.Dir)
	if err != nil {
		return err
	}
	bucket, err := s3.Open(b.S3Config(env), at.Bucket)
	if err == nil && !b.InstanceRole { // which would send a request too
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
