package backup

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"

	"plantstore/internal/s3"
	"plantstore/internal/sqlite/backupfile"
)

// bucket is a destination in a bucket.
type bucket struct {
	*s3.Bucket

	at      s3.Location // the prefix of the backups
	scratch string      // directory of temporary copies
}

// A marker is an object beside a backup in progress. It shows that an object without a manifest was left by a killed
// server, and is not a backup whose manifest the operator has lost.
const (
	markerSuffix = ".unfinished"
	markerText   = "The backup beside this object is in progress, or its server was killed.\n"
)

func (b *bucket) object(name string) *Object { return &Object{b.Bucket, b.at.Join(name)} }

func (b *bucket) location(name string) string {
	if name == "" {
		return b.at.String()
	}
	return b.at.Join(name).String()
}

func (b *bucket) make(
	ctx context.Context, db, name string, progress func(step string) backupfile.Progress,
) (backupfile.Manifest, error) {
	o := b.object(name)
	if err := o.prepare(ctx); err != nil {
		return backupfile.Manifest{}, err
	}
	if err := b.Put(ctx, b.markerKey(name), []byte(markerText)); err != nil {
		return backupfile.Manifest{}, err
	}
	m, err := o.make(ctx, db, b.scratch, progress)
	if err == nil {
		_ = b.Remove(ctx, b.markerKey(name)) // the backup is complete; clean removes the marker later
	}
	return m, err
}

func (b *bucket) markerKey(name string) string { return b.at.Join(name + markerSuffix).Key }

func (b *bucket) clean(
	ctx context.Context, prefix string, isOurs func(name string) bool,
) (removed []string, err error) {
	keys, err := b.AbortUploads(ctx, b.at.Join(prefix).Key, func(key string) bool { return isOurs(b.name(key)) })
	for _, key := range keys {
		removed = append(removed, b.name(key))
	}
	if err != nil {
		return removed, err
	}
	files, err := b.list(ctx, prefix)
	for _, f := range files {
		name, isMarker := strings.CutSuffix(f.name, markerSuffix)
		if !isMarker || !isOurs(name) {
			continue
		}
		found, err := b.removeUnfinished(ctx, name)
		if err != nil {
			return removed, err
		}
		if found {
			removed = append(removed, name)
		}
	}
	return removed, err
}

// removeUnfinished removes the marker of a backup, and the object of the backup unless it has a manifest. It reports
// whether it removed the object.
func (b *bucket) removeUnfinished(ctx context.Context, name string) (found bool, err error) {
	o := b.object(name)
	_, err = b.Stat(ctx, o.manifestKey())
	if errors.Is(err, fs.ErrNotExist) {
		_, err = b.Stat(ctx, o.at.Key)
		if found = err == nil; found {
			err = b.Remove(ctx, o.at.Key)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return found, b.Remove(ctx, b.markerKey(name))
}

// name returns the name of a key of the destination.
func (b *bucket) name(key string) string {
	return strings.TrimPrefix(strings.TrimPrefix(key, b.at.Key), "/")
}

func (b *bucket) list(ctx context.Context, prefix string) (files []file, err error) {
	objects, err := b.List(ctx, b.at.Join(prefix).Key)
	for _, o := range objects {
		files = append(files, file{b.name(o.Key), o.Bytes})
	}
	return files, err
}

func (b *bucket) manifest(ctx context.Context, name string) (backupfile.Manifest, error) {
	return b.object(name).Manifest(ctx)
}

func (b *bucket) open(ctx context.Context, name string) (io.ReadCloser, error) {
	return b.object(name).Open(ctx)
}

func (b *bucket) remove(ctx context.Context, name string) error {
	if _, err := b.Stat(ctx, b.at.Join(name).Key); err != nil {
		return err // S3 does not report the removal of a missing object
	}
	return b.object(name).Remove(ctx)
}

func (b *bucket) verify(
	ctx context.Context, name string, progress func(step string) backupfile.Progress,
) (faults []string, err error) {
	_, faults, err = b.object(name).Verify(ctx, progress("download"))
	return faults, err
}
