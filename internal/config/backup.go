package config

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net"
	"os"

	"github.com/spf13/pflag"

	"plantstore/internal/backup"
	"plantstore/internal/s3"
)

// Backup are the settings of the backups of a server, and of the S3 server of backups.
type Backup struct {
	Dir   Destination
	Every Timeout
	Keep  Count

	Endpoint     Endpoint
	Region       Text
	InstanceRole Toggle
}

// Destination is a directory or an S3 address.
type Destination struct{ Text }

// Set implements pflag.Value.
func (d *Destination) Set(text string) error {
	if backup.IsBucket(text) {
		if _, err := s3.ParseLocation(text); err != nil {
			return err
		}
	}
	return d.Text.Set(text)
}

// Endpoint is the URL of an S3 server. The zero value means the URL in the environment, else Amazon S3.
type Endpoint struct{ Text }

// Set implements pflag.Value.
func (e *Endpoint) Set(text string) error {
	if text != "" {
		if _, err := s3.ParseEndpoint(text); err != nil {
			return err
		}
	}
	return e.Text.Set(text)
}

// rows returns the rows of the table of settings.
func (b *Backup) rows() []Setting {
	return append([]Setting{
		{
			"backup-dir", &b.Dir, "", "`directory` or s3://BUCKET/PREFIX for scheduled backups; empty: no backups",
			"Use a directory on another disk than the store's, or a prefix, for this store alone. " +
				"See [backups in a bucket](files.md#backups-in-a-bucket). " +
				"It is an error with PostgreSQL: use its own tools.",
		},
		{"backup-every", &b.Every, "1d", "`time` between two scheduled backups", ""},
		{
			"backup-keep", b.Keep.between(1, 1<<30), "7", "number of scheduled `backups` to keep",
			"The server removes older ones.",
		},
	}, b.s3Rows()...)
}

// s3Rows returns the rows that backup, restore and verify have too.
func (b *Backup) s3Rows() []Setting {
	return []Setting{
		{
			"s3-endpoint", &b.Endpoint, "", "`URL` of the S3 server of backups",
			"Empty: `AWS_ENDPOINT_URL_S3`, else `AWS_ENDPOINT_URL`, else Amazon S3. " +
				"A URL with http sends the backups in the clear.",
		},
		{
			"s3-region", &b.Region, "", "`region` of the bucket of backups",
			"Empty: `AWS_REGION`, else `AWS_DEFAULT_REGION`, else us-east-1.",
		},
		{
			"s3-instance-role", &b.InstanceRole, "", "request S3 keys from the metadata service of the machine",
			"Only if neither `AWS_ACCESS_KEY_ID` nor the shared files have keys. It also uses the role of a container " +
				"(`AWS_CONTAINER_CREDENTIALS_FULL_URI`, `AWS_WEB_IDENTITY_TOKEN_FILE`).",
		},
	}
}

// BindS3 adds the flags of the S3 server to a command that reads or writes a backup.
func (s *Settings) BindS3(f *pflag.FlagSet) { BindSettings(f, s.Backup.s3Rows()) }

// S3Config returns the S3 server of the settings and of the usual variables.
func (b *Backup) S3Config(env *Environment) s3.Config {
	return s3.Config{
		Endpoint: cmp.Or(
			string(b.Endpoint.Text), env.Vars["AWS_ENDPOINT_URL_S3"], env.Vars["AWS_ENDPOINT_URL"]),
		Region:       cmp.Or(string(b.Region), env.Vars["AWS_REGION"], env.Vars["AWS_DEFAULT_REGION"]),
		CAFile:       env.Vars["AWS_CA_BUNDLE"],
		InstanceRole: bool(b.InstanceRole),
	}
}

// SendsInTheClear reports whether the endpoint of an S3 server has no TLS and may be on another machine.
func SendsInTheClear(endpoint string) bool {
	u, err := s3.ParseEndpoint(endpoint)
	if err != nil || u.Scheme != "http" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() != "localhost" && !(ip != nil && ip.IsLoopback())
}

// check returns a usage error for settings that contradict each other.
func (b *Backup) check(s *Settings) error {
	if b.Dir.Text != "" && s.DB.IsDatabase() {
		return s.Fault("backup-dir", "scheduled backups need a store in a file; back up PostgreSQL with its own tools")
	}
	return nil
}

// checkDestination returns an error if the destination of the backups cannot be used.
func (b *Backup) checkDestination(ctx context.Context, env *Environment, s *Settings) error {
	switch dir := b.Dir.String(); {
	case dir == "":
		return nil
	case backup.IsBucket(dir):
		return b.checkBucket(ctx, env, s)
	default:
		return b.checkDirectory(s)
	}
}

// checkBucket returns an error if the settings of a bucket are wrong or there are no keys. It sends no request to the
// S3 server, because the server must start while that one is away.
func (b *Backup) checkBucket(ctx context.Context, env *Environment, s *Settings) error {
	at, err := s3.ParseLocation(b.Dir.String())
	if err != nil {
		return s.Fault("backup-dir", "%w", err)
	}
	bucket, err := s3.Open(b.S3Config(env), at.Bucket)
	if err == nil && !bool(b.InstanceRole) { // which would send a request too
		err = bucket.CheckKeys(ctx)
	}
	if err != nil {
		return s.Fault("backup-dir", "%w", err)
	}
	return nil
}

// checkDirectory returns an error if the server cannot create files in the backup directory. It creates a file and
// removes it, because the mode of the directory alone does not decide.
func (b *Backup) checkDirectory(s *Settings) error {
	dir := b.Dir.String()
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s.Fault("backup-dir", "directory %q does not exist; create it or change the setting", dir)
	case err != nil:
		return s.Fault("backup-dir", "%w", err)
	case !info.IsDir():
		return s.Fault("backup-dir", "%q is not a directory; change the setting", dir)
	}
	f, err := os.CreateTemp(dir, ".plantstore*")
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(f.Name()))
	}
	if cause := (*fs.PathError)(nil); errors.As(err, &cause) {
		err = cause.Err // without the random name, so that a repeated reload has the same error
	}
	if err != nil {
		return s.Fault("backup-dir",
			"cannot create a file in %q: %w; give the server's user write access or change the setting", dir, err)
	}
	return nil
}
