package backup

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"plantstore/internal/s3"
	"plantstore/internal/sqlite/backupfile"
)

// Object is a backup in a bucket. Its manifest is a second object, which is stored before the backup appears.
type Object struct {
	bucket *s3.Bucket
	at     s3.Location
}

// OpenObject returns the backup at a location. It sends no request.
func OpenObject(c s3.Config, at s3.Location) (*Object, error) {
	if at.Key == "" {
		return nil, fmt.Errorf("%s is a bucket; name a backup in it, such as %s", at, at.Join("monday.db"))
	}
	bucket, err := s3.Open(c, at.Bucket)
	return &Object{bucket, at}, err
}

// String returns the URL of the backup.
func (o *Object) String() string { return o.at.String() }

func (o *Object) manifestKey() string { return o.at.Key + backupfile.ManifestSuffix }

// Make copies the store at db, which may be served, to the object, which must not exist; its manifest has the timeline.
// It first copies the store to a temporary file in the directory scratch, because the WAL grows until the end of the
// copy. progress returns the progress of a step: "copy" in pages, and "upload" in bytes. After an error there is no
// object, unless the server does not respond; then the object or its manifest may be stored. The manifest is the zero
// value if nothing was copied.
func (o *Object) Make(
	ctx context.Context, db, timeline, scratch string, progress func(step string) backupfile.Progress,
) (m backupfile.Manifest, err error) {
	if err := o.prepare(ctx); err != nil {
		return m, err
	}
	info, err := os.Stat(db)
	if err == nil {
		err = checkSpace(scratch, info.Size())
	}
	if err != nil {
		return m, err
	}
	f, m, err := backupfile.Snapshot(ctx, db, scratch, progress("copy"))
	if err != nil {
		return m, err
	}
	defer f.Close()
	err = o.bucket.Upload(ctx, o.at.Key, f, m.Bytes, progress("upload"), func(sum string) error {
		m.SHA256, m.Timeline = sum, timeline
		text, err := m.Text()
		if err != nil {
			return err
		}
		return o.bucket.Put(ctx, o.manifestKey(), text)
	})
	if err != nil && m.SHA256 != "" { // the manifest may be stored
		err = errors.Join(err, o.discard(ctx))
	}
	return m, err
}

// prepare returns an error if there are no keys, or if the backup or its manifest exists.
func (o *Object) prepare(ctx context.Context) error {
	if err := o.bucket.CheckKeys(ctx); err != nil {
		return err
	}
	objects, err := o.bucket.List(ctx, o.at.Key) // not HEAD, whose response contains no cause
	if err != nil {
		return err
	}
	for _, found := range objects {
		if found.Key == o.at.Key || found.Key == o.manifestKey() {
			return fmt.Errorf("%s already exists; use a new name", s3.Location{Bucket: o.at.Bucket, Key: found.Key})
		}
	}
	return nil
}

// discard removes the manifest of an upload that failed, even after the end of ctx.
func (o *Object) discard(ctx context.Context) error {
	const discardMax = 30 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardMax)
	defer cancel()
	return o.Remove(ctx)
}

// Remove removes the backup and then its manifest, because retention would ignore a backup without its manifest.
func (o *Object) Remove(ctx context.Context) error {
	err := o.bucket.Remove(ctx, o.at.Key)
	if err == nil {
		err = o.bucket.Remove(ctx, o.manifestKey())
	}
	return err
}

// Manifest returns the manifest. It returns an error unless the backup has the size in its manifest. The error wraps
// fs.ErrNotExist if there is no object.
func (o *Object) Manifest(ctx context.Context) (m backupfile.Manifest, err error) {
	name := o.at.String() + backupfile.ManifestSuffix
	r, err := o.bucket.Get(ctx, o.manifestKey()) // before HEAD, whose response contains no cause
	if errors.Is(err, fs.ErrNotExist) {
		_, err = o.bucket.Stat(ctx, o.at.Key)
		return m, cmp.Or(err, fmt.Errorf("%s: %w", name, backupfile.ErrNoManifest))
	}
	if err != nil {
		return m, err
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, backupfile.ManifestBytesMax))
	if err != nil {
		return m, err
	}
	if m, err = backupfile.ParseManifest(name, text); err != nil {
		return m, err
	}
	stored, err := o.bucket.Stat(ctx, o.at.Key)
	if err != nil {
		return m, err
	}
	return m, m.CheckSize(stored.Bytes)
}

// Open opens the backup for reading. The caller closes the reader.
func (o *Object) Open(ctx context.Context) (io.ReadCloser, error) {
	return o.bucket.Get(ctx, o.at.Key)
}

// Verify reads the whole backup and compares its size and SHA-256 with the manifest. It stores no copy, so it does not
// check the plants; a restore or a drill does. progress receives bytes.
func (o *Object) Verify(
	ctx context.Context, progress backupfile.Progress,
) (m backupfile.Manifest, faults []string, err error) {
	if m, err = o.Manifest(ctx); err != nil {
		return m, nil, err
	}
	r, err := o.Open(ctx)
	if err != nil {
		return m, nil, err
	}
	defer r.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, io.TeeReader(io.LimitReader(r, m.Bytes+1), progress.Writer(m.Bytes)))
	if err != nil {
		return m, nil, err
	}
	if err := m.CheckContent(n, hex.EncodeToString(sum.Sum(nil))); err != nil {
		faults = []string{err.Error()}
	}
	return m, faults, nil
}

// checkSpace returns an error unless a directory has space for a copy of a store of some bytes. A tenth stays free, so
// that the copy does not fill the disk of a store.
func checkSpace(dir string, bytes int64) error {
	free, err := freeBytes(dir)
	if err != nil {
		return fmt.Errorf("the directory of temporary copies: %s: %w", dir, err)
	}
	if need := bytes + bytes/10; free < need {
		return fmt.Errorf("the temporary copy needs %d bytes in %s, which has %d free; "+
			"free space or name another directory with TMPDIR", need, dir, free)
	}
	return nil
}

// freeBytes returns the free space of the file system of a directory.
func freeBytes(dir string) (int64, error) {
	var fs syscall.Statfs_t
	err := syscall.Statfs(dir, &fs)
	return int64(fs.Bavail) * int64(fs.Bsize), err //nolint:unconvert // the types differ between systems
}
