package backup

import (
	"context"
	"io"
	"strings"

	"plantstore/internal/s3"
	"plantstore/internal/sqlite/backupfile"
)

// destination stores backups by name, each with a manifest, and segments: a directory or a bucket.
type destination interface {
	// location returns the path or the URL of a backup, and of the destination for an empty name.
	location(name string) string

	// make copies the store at db to a new backup, which appears complete, after its manifest. That has the timeline.
	make(
		ctx context.Context, db, name, timeline string, progress func(step string) backupfile.Progress,
	) (backupfile.Manifest, error)

	// clean removes the parts that killed servers have left of backups whose names begin with prefix and are ours, and
	// returns their names. No backup may be in progress.
	clean(ctx context.Context, prefix string, isOurs func(name string) bool) (removed []string, err error)

	// list returns the files whose names begin with a prefix, sorted by name.
	list(ctx context.Context, prefix string) ([]file, error)

	// manifest returns the manifest of a backup. It returns an error unless the backup is complete. The error wraps
	// fs.ErrNotExist if there is no such backup.
	manifest(ctx context.Context, name string) (backupfile.Manifest, error)

	// open opens a backup for reading.
	open(ctx context.Context, name string) (io.ReadCloser, error)

	// remove removes a backup and then its manifest, because retention would ignore a backup without its manifest. The
	// error wraps fs.ErrNotExist if there is no such backup.
	remove(ctx context.Context, name string) error

	// put stores a file, which appears complete. It replaces a file with the same name.
	put(ctx context.Context, name string, content []byte) error

	// delete removes files. A missing one is not an error.
	delete(ctx context.Context, names ...string) error

	// verify reads a whole backup and returns its damage.
	verify(ctx context.Context, name string, progress func(step string) backupfile.Progress) (faults []string, err error)
}

// file is a file or an object in a destination.
type file struct {
	name  string
	bytes int64
}

// IsBucket reports whether the address of a destination or a backup is an S3 address and not a path.
func IsBucket(address string) bool { return strings.HasPrefix(address, s3.Scheme) }

// newDestination returns the destination of a configuration. It sends no request.
func newDestination(c Config) (destination, error) {
	if !IsBucket(c.Destination) {
		return newDirectory(c.Destination), nil
	}
	at, err := s3.ParseLocation(c.Destination)
	if err != nil {
		return nil, err
	}
	opened, err := s3.Open(c.S3, at.Bucket)
	if err != nil {
		return nil, err
	}
	return &bucket{opened, at, c.Scratch}, nil
}
