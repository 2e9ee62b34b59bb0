package backup

import (
	"context"
	"io"
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

func (b *bucket) object(name string) *Object { return &Object{b.Bucket, b.at.Join(name)} }

func (b *bucket) location(name string) string {
	if name == "" {
		return b.at.String()
	}
	return b.at.Join(name).String()
}

func (b *bucket) make(
	ctx context.Context, db, name, timeline string, progress func(step string) backupfile.Progress,
) (backupfile.Manifest, error) {
	return b.object(name).Make(ctx, db, timeline, b.scratch, progress)
}

func (b *bucket) clean(
	ctx context.Context, prefix string, isOurs func(name string) bool,
) (removed []string, err error) {
	keys, err := b.AbortUploads(ctx, b.at.Join(prefix).Key, func(key string) bool { return isOurs(b.name(key)) })
	for _, key := range keys {
		removed = append(removed, b.name(key))
	}
	return removed, err
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

func (b *bucket) put(ctx context.Context, name string, content []byte) error {
	return b.Put(ctx, b.at.Join(name).Key, content)
}

func (b *bucket) delete(ctx context.Context, names ...string) error {
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = b.at.Join(name).Key
	}
	return b.Remove(ctx, keys...)
}

func (b *bucket) verify(
	ctx context.Context, name string, progress func(step string) backupfile.Progress,
) (faults []string, err error) {
	_, faults, err = b.object(name).Verify(ctx, progress("download"))
	return faults, err
}
