package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"plantstore/internal/s3"
	"plantstore/internal/safefile"
	"plantstore/internal/sqlite/backupfile"
)

// destination stores files by name: backups, each with a manifest, segments, and what timeline.go has. It is a
// directory or a bucket.
type destination interface {
	// location returns the path or the URL of a file, and of the destination for an empty name.
	location(name string) string

	// make copies the store at db to a new backup, which appears complete, after its manifest. That has the timeline.
	make(
		ctx context.Context, db, name, timeline string, progress func(step string) backupfile.Progress,
	) (backupfile.Manifest, error)

	// clean removes the parts that killed servers have left of files whose names begin with prefix and are ours, and
	// returns their names. No backup may be in progress.
	clean(ctx context.Context, prefix string, isOurs func(name string) bool) (removed []string, err error)

	// list returns the files whose names begin with a prefix, sorted by name.
	list(ctx context.Context, prefix string) ([]file, error)

	// open opens a file for reading. The error wraps fs.ErrNotExist if there is none.
	open(ctx context.Context, name string) (io.ReadCloser, error)

	// put stores a file, which appears complete. It replaces a file with the same name.
	put(ctx context.Context, name string, content []byte) error

	// putOnce is put, but a file that it has stored is not stored once more later, in the place of another one.
	putOnce(ctx context.Context, name string, content []byte) error

	// delete removes files. A missing one is not an error.
	delete(ctx context.Context, names ...string) error

	// verify reads a whole backup and returns its damage.
	verify(
		ctx context.Context, name string, m backupfile.Manifest, progress func(step string) backupfile.Progress,
	) (faults []string, err error)
}

// file is a file or an object in a destination.
type file struct {
	name  string
	bytes int64
	fault error // why it is not a regular file
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

// find returns the file with a name. The error wraps fs.ErrNotExist if there is none.
func find(ctx context.Context, to destination, name string) (file, error) {
	files, err := to.list(ctx, name)
	if err != nil {
		return file{}, err
	}
	i := slices.IndexFunc(files, func(f file) bool { return f.name == name })
	if i < 0 {
		return file{}, fmt.Errorf("%s: %w", to.location(name), fs.ErrNotExist)
	}
	return files[i], nil
}

// read returns the content of a file, at most some bytes: one that is longer is damaged.
func read(ctx context.Context, to destination, name string, bytesMax int64) (content []byte, err error) {
	r, err := to.open(ctx, name)
	if err == nil {
		defer r.Close()
		content, err = io.ReadAll(io.LimitReader(r, bytesMax))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", to.location(name), err)
	}
	return content, nil
}

// readManifest returns the manifest of a listed backup. It returns an error unless the backup is complete. The error
// wraps fs.ErrNotExist if the backup was removed since the list.
func readManifest(ctx context.Context, to destination, f file) (m backupfile.Manifest, err error) {
	if f.fault != nil {
		return m, f.fault
	}
	name := f.name + backupfile.ManifestSuffix
	text, err := read(ctx, to, name, backupfile.ManifestBytesMax)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err = find(ctx, to, f.name); err == nil {
			err = fmt.Errorf("%s: %w", to.location(name), backupfile.ErrNoManifest)
		}
	}
	if err == nil {
		m, err = backupfile.ParseManifest(to.location(name), text)
	}
	if err == nil {
		err = m.CheckSize(f.bytes)
	}
	return m, err
}

// removeBackup removes a backup and then its manifest, because retention would ignore a backup without its manifest.
func removeBackup(ctx context.Context, to destination, name string) error {
	err := to.delete(ctx, name)
	if err == nil {
		err = to.delete(ctx, name+backupfile.ManifestSuffix)
	}
	return err
}

// checkSpace returns an error unless a directory has space for a copy of a store of some bytes. A tenth stays free, so
// that the copy does not fill the disk of a store.
func checkSpace(dir string, bytes int64) error {
	free, err := safefile.FreeBytes(dir)
	if err != nil {
		return fmt.Errorf("the directory of temporary copies: %s: %w", dir, err)
	}
	if need := bytes + bytes/10; free < need {
		return fmt.Errorf("the temporary copy needs %d bytes in %s, which has %d free; "+
			"free space or name another directory with TMPDIR", need, dir, free)
	}
	return nil
}
