package main

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

// backupSettings are the settings of the backups of a server, and of the S3 server of backups.
type backupSettings struct {
	dir   destination
	every timeout
	keep  count

	endpoint     endpoint
	region       text
	instanceRole toggle
}

// destination is a directory or an S3 address.
type destination struct{ text }

// Set implements pflag.Value.
func (d *destination) Set(text string) error {
	if backup.IsBucket(text) {
		if _, err := s3.ParseLocation(text); err != nil {
			return err
		}
	}
	return d.text.Set(text)
}

// endpoint is the URL of an S3 server. The zero value is that of the environment, else Amazon S3.
type endpoint struct{ text }

// Set implements pflag.Value.
func (e *endpoint) Set(text string) error {
	if text != "" {
		if _, err := s3.ParseEndpoint(text); err != nil {
			return err
		}
	}
	return e.text.Set(text)
}

// rows returns the rows of the table of settings.
func (b *backupSettings) rows() []setting {
	return append([]setting{
		{
			"backup-dir", &b.dir, "", "1.0.0", "`directory` or s3://BUCKET/PREFIX for scheduled backups; empty: no backups",
			"Use a directory on another disk than the store's, or a prefix, for this store alone. " +
				"See [backups in a bucket](files.md#backups-in-a-bucket). " +
				"It is an error with PostgreSQL, which has its own tools.",
		},
		{"backup-every", &b.every, "1d", "1.0.0", "`time` between two scheduled backups", ""},
		{
			"backup-keep", b.keep.between(1, 1<<30), "7", "1.0.0", "number of scheduled `backups` to keep",
			"The server removes older ones.",
		},
	}, b.s3Rows()...)
}

// s3Rows returns the rows that backup, restore and verify have too.
func (b *backupSettings) s3Rows() []setting {
	return []setting{
		{
			"s3-endpoint", &b.endpoint, "", "1.0.0", "`URL` of the S3 server of backups",
			"Empty: `AWS_ENDPOINT_URL_S3`, else `AWS_ENDPOINT_URL`, else Amazon S3. " +
				"A URL with http sends the backups in the clear.",
		},
		{
			"s3-region", &b.region, "", "1.0.0", "`region` of the bucket of backups",
			"Empty: `AWS_REGION`, else `AWS_DEFAULT_REGION`, else us-east-1.",
		},
		{
			"s3-instance-role", &b.instanceRole, "", "1.0.0", "request S3 keys from the metadata service of the machine",
			"Only if neither `AWS_ACCESS_KEY_ID` nor the shared files have keys. It also uses the role of a container " +
				"(`AWS_CONTAINER_CREDENTIALS_FULL_URI`, `AWS_WEB_IDENTITY_TOKEN_FILE`).",
		},
	}
}

// bindS3 adds the flags of the S3 server to a command that reads or writes a backup.
func (s *settings) bindS3(f *pflag.FlagSet) { bindSettings(f, s.backup.s3Rows()) }

// s3Config returns the S3 server of the settings and of the usual variables.
func (b *backupSettings) s3Config(env *environment) s3.Config {
	return s3.Config{
		Endpoint: cmp.Or(
			string(b.endpoint.text), env.vars["AWS_ENDPOINT_URL_S3"], env.vars["AWS_ENDPOINT_URL"]),
		Region:       cmp.Or(string(b.region), env.vars["AWS_REGION"], env.vars["AWS_DEFAULT_REGION"]),
		CAFile:       env.vars["AWS_CA_BUNDLE"],
		InstanceRole: bool(b.instanceRole),
	}
}

// sendsInTheClear reports whether the endpoint of an S3 server has no TLS and may be on another machine.
func sendsInTheClear(endpoint string) bool {
	u, err := s3.ParseEndpoint(endpoint)
	if err != nil || u.Scheme != "http" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() != "localhost" && !(ip != nil && ip.IsLoopback())
}

// check returns a usage error for settings that contradict each other.
func (b *backupSettings) check(s *settings) error {
	if b.dir.text != "" && s.db.isDatabase() {
		return s.fault("backup-dir", "scheduled backups need a store in a file; back up PostgreSQL with its own tools")
	}
	return nil
}

// checkDestination returns an error if the destination of the backups cannot be used.
func (b *backupSettings) checkDestination(ctx context.Context, env *environment, s *settings) error {
	switch dir := b.dir.String(); {
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
func (b *backupSettings) checkBucket(ctx context.Context, env *environment, s *settings) error {
	at, err := s3.ParseLocation(b.dir.String())
	if err != nil {
		return s.fault("backup-dir", "%w", err)
	}
	bucket, err := s3.Open(b.s3Config(env), at.Bucket)
	if err == nil && !bool(b.instanceRole) { // which would send a request too
		err = bucket.CheckKeys(ctx)
	}
	if err != nil {
		return s.fault("backup-dir", "%w", err)
	}
	return nil
}

// checkDirectory returns an error if the server cannot create files in the backup directory. It creates a file and
// removes it, because the mode of the directory alone does not decide.
func (b *backupSettings) checkDirectory(s *settings) error {
	dir := b.dir.String()
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s.fault("backup-dir", "directory %q does not exist; create it or change the setting", dir)
	case err != nil:
		return s.fault("backup-dir", "%w", err)
	case !info.IsDir():
		return s.fault("backup-dir", "%q is not a directory; change the setting", dir)
	}
	f, err := os.CreateTemp(dir, ".plantstore*")
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(f.Name()))
	}
	if cause := (*fs.PathError)(nil); errors.As(err, &cause) {
		err = cause.Err // without the random name, so that a repeated reload has the same error
	}
	if err != nil {
		return s.fault("backup-dir",
			"cannot create a file in %q: %w; give the server's user write access or change the setting", dir, err)
	}
	return nil
}
