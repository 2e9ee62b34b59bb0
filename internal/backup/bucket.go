package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	"plantstore/internal/s3"
	"plantstore/internal/sqlite/backupfile"
)

// bucket is a destination in a bucket.
type bucket struct {
	*s3.Bucket

	at      s3.Location // the prefix of the files
	scratch string      // directory of temporary copies
}

func (b *bucket) location(name string) string {
	if name == "" {
		return b.at.String()
	}
	return b.at.Join(name).String()
}

func (b *bucket) key(name string) string { return b.at.Join(name).Key }

// name returns the name of a key of the destination.
func (b *bucket) name(key string) string {
	return strings.TrimPrefix(strings.TrimPrefix(key, b.at.Key), "/")
}

// make first copies the store to a temporary file, because the WAL grows until the end of the copy. The steps are
// "copy" in pages, and "upload" in bytes. After an error there is no backup, unless the server does not respond; then
// it or its manifest may be stored. The manifest is the zero value if nothing was copied.
func (b *bucket) make(
	ctx context.Context, db, name, timeline string, progress func(step string) backupfile.Progress,
) (m backupfile.Manifest, err error) {
	if err := b.prepare(ctx, db, name); err != nil {
		return m, err
	}
	f, m, err := backupfile.Snapshot(ctx, db, b.scratch, progress("copy"))
	if err != nil {
		return m, err
	}
	defer f.Close()
	err = b.Upload(ctx, b.key(name), f, m.Bytes, progress("upload"), func(sum string) error {
		m.SHA256, m.Timeline = sum, timeline
		text, err := m.Text()
		if err != nil {
			return err
		}
		return b.put(ctx, name+backupfile.ManifestSuffix, text)
	})
	if err != nil && m.SHA256 != "" { // the manifest may be stored
		const discardMax = 30 * time.Second // even after the end of ctx
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardMax)
		defer cancel()
		err = errors.Join(err, removeBackup(ctx, b, name))
	}
	return m, err
}

// prepare returns an error if there are no keys, if the backup or its manifest exists, or without space for the copy.
func (b *bucket) prepare(ctx context.Context, db, name string) error {
	if err := b.CheckKeys(ctx); err != nil {
		return err
	}
	files, err := b.list(ctx, name)
	if err != nil {
		return err
	}
	for _, f := range files {
		if f.name == name || f.name == name+backupfile.ManifestSuffix {
			return fmt.Errorf("%s already exists; use a new name", b.location(f.name))
		}
	}
	info, err := os.Stat(db)
	if err != nil {
		return err
	}
	return checkSpace(b.scratch, info.Size())
}

func (b *bucket) clean(
	ctx context.Context, prefix string, isOurs func(name string) bool,
) (removed []string, err error) {
	keys, err := b.AbortUploads(ctx, b.key(prefix), func(key string) bool { return isOurs(b.name(key)) })
	for _, key := range keys {
		removed = append(removed, b.name(key))
	}
	return removed, err
}

func (b *bucket) list(ctx context.Context, prefix string) (files []file, err error) {
	objects, err := b.List(ctx, b.key(prefix))
	for _, o := range objects {
		files = append(files, file{name: b.name(o.Key), bytes: o.Bytes})
	}
	return files, err
}

func (b *bucket) open(ctx context.Context, name string) (io.ReadCloser, error) {
	return b.Get(ctx, b.key(name))
}

func (b *bucket) put(ctx context.Context, name string, content []byte) error {
	return b.Put(ctx, b.key(name), content)
}

func (b *bucket) putOnce(ctx context.Context, name string, content []byte) error {
	return b.PutOnce(ctx, b.key(name), content)
}

func (b *bucket) delete(ctx context.Context, names ...string) error {
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = b.key(name)
	}
	return b.Remove(ctx, keys...)
}

// verify compares the size and the SHA-256 with the manifest. It stores no copy, so it does not check the plants; a
// restore or a drill does. The step is "download" in bytes.
func (b *bucket) verify(
	ctx context.Context, name string, m backupfile.Manifest, progress func(step string) backupfile.Progress,
) (faults []string, err error) {
	r, err := b.open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, io.TeeReader(io.LimitReader(r, m.Bytes+1), progress("download").Writer(m.Bytes)))
	if err != nil {
		return nil, err
	}
	if err := m.CheckContent(n, hex.EncodeToString(sum.Sum(nil))); err != nil {
		faults = []string{err.Error()}
	}
	return faults, nil
}

// Object is a backup in a bucket, which a command names by its URL.
type Object struct {
	to   *bucket
	name string
}

// OpenObject returns the backup at a location. It sends no request.
func OpenObject(c s3.Config, at s3.Location) (*Object, error) {
	if at.Key == "" {
		return nil, fmt.Errorf("%s is a bucket; name a backup in it, such as %s", at, at.Join("monday.db"))
	}
	opened, err := s3.Open(c, at.Bucket)
	prefix, name := path.Split(at.Key)
	at.Key = strings.TrimSuffix(prefix, "/")
	return &Object{&bucket{opened, at, ""}, name}, err
}

// String returns the URL of the backup.
func (o *Object) String() string { return o.to.location(o.name) }

// Make copies the store at db, which may be served, to the object, which must not exist, with a temporary copy in the
// directory scratch. progress returns the progress of a step: "copy" in pages, and "upload" in bytes. The manifest is
// the zero value if nothing was copied.
func (o *Object) Make(
	ctx context.Context, db, scratch string, progress func(step string) backupfile.Progress,
) (backupfile.Manifest, error) {
	o.to.scratch = scratch
	return o.to.make(ctx, db, o.name, "", progress)
}

// Manifest returns the manifest. It returns an error unless the backup has the size in its manifest. The error wraps
// fs.ErrNotExist if there is no object.
func (o *Object) Manifest(ctx context.Context) (m backupfile.Manifest, err error) {
	f, err := find(ctx, o.to, o.name)
	if err != nil {
		return m, err
	}
	return readManifest(ctx, o.to, f)
}

// Open opens the backup for reading. The caller closes the reader.
func (o *Object) Open(ctx context.Context) (io.ReadCloser, error) { return o.to.open(ctx, o.name) }

// Verify reads the whole backup, and compares its size and SHA-256 with its manifest. progress receives bytes.
func (o *Object) Verify(ctx context.Context, m backupfile.Manifest, progress backupfile.Progress) ([]string, error) {
	return o.to.verify(ctx, o.name, m, func(string) backupfile.Progress { return progress })
}
