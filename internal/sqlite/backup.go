package sqlite

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
	"path/filepath"
	"time"

	"plantstore/internal/safefile"
	"plantstore/internal/sqlite/sqlite3"
)

// Progress is called by a backup or a restore with how many of all pages or bytes are done. It may be nil.
type Progress func(done, all int64)

func (p Progress) report(done, all int64) {
	if p != nil {
		p(done, all)
	}
}

// backupPages is how much is copied and synced at a time: so little that a
// server's own syncs do not have to wait long behind it.
const backupPages = 256

// Backup copies the store at path, which may be served meanwhile, to a new file
// and writes its manifest. Every plant that was acknowledged before the call is
// in the copy. The file appears under its name when it is complete and on
// stable storage, after its manifest.
//
// It reads one state of the store, through SQLite's own means
// (https://sqlite.org/backup.html); until it is done, a server's WAL grows.
func Backup(ctx context.Context, path, to string, progress Progress) (m Manifest, err error) {
	if _, err := os.Stat(filepath.Dir(to)); err != nil {
		return m, fmt.Errorf("the directory of the backup: %w", err)
	}
	if err := refuseExisting(to); err != nil {
		return m, err
	}
	temp, m, err := snapshot(ctx, path, to, progress)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, temp.Discard()) }()
	if m.Bytes, m.SHA256, err = sumFile(ctx, temp.Name()); err != nil {
		return m, err
	}
	return m, m.publish(temp, to)
}

// snapshot copies the store at path as it is now into a temporary file in the
// directory of beside. The caller discards or publishes the file. The manifest
// lacks the size and the sum of the file.
func snapshot(ctx context.Context, path, beside string, progress Progress) (temp *safefile.File, m Manifest, err error) {
	path = realPath(path)
	c, err := openToLook(path)
	if err != nil {
		return nil, m, err
	}
	defer func() {
		if err = errors.Join(err, c.Close()); err != nil && temp != nil {
			err = errors.Join(err, temp.Discard())
		}
	}()
	version, err := schemaVersion(c, path)
	switch {
	case err != nil:
		return nil, m, err
	case version == 0:
		return nil, m, fmt.Errorf("%s contains no plant store yet", path)
	}
	if temp, err = safefile.Create(beside); err != nil {
		return nil, m, err
	}
	err = during(ctx, c, func() error {
		if err := checkSchema(c, path, version); err != nil { // before any table is read
			return err
		}
		return m.copy(ctx, c, path, temp.Name(), progress)
	})
	if err == nil {
		err = leaveWAL(temp)
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return temp, m, errors.Join(err, removeIfThere(temp.Name()+"-journal"))
}

// StoreAt returns which store is at path, as in the manifests of its backups.
func StoreAt(ctx context.Context, path string) (_ string, err error) {
	c, err := openToLook(realPath(path))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	var s state
	err = during(ctx, c, func() error {
		s, err = readState(c)
		return err
	})
	return storeName(s.store), err
}

func refuseExisting(path string) error {
	for _, name := range []string{path, path + ManifestSuffix} {
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(err, fmt.Errorf("%s already exists; use a new file", name))
		}
	}
	return nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// copy copies what the connection sees now into the file temp.
func (m *Manifest) copy(ctx context.Context, c *sqlite3.Conn, path, temp string, progress Progress) (err error) {
	if err := c.Exec("BEGIN"); err != nil {
		return err
	}
	defer func() { _ = c.Exec("ROLLBACK") }() // nothing was written
	s, wrong, err := checkMark(c, path)
	if err := cmp.Or(err, wrong); err != nil {
		return err
	}
	*m = Manifest{Format: manifestFormat, MadeAt: time.Now().UTC(), Store: storeName(s.store), Commits: s.commits, Plants: s.plants}
	to, err := sqlite3.Open(temp)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if err := to.Exec("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF"); err != nil { // synced below
		return err
	}
	return copyPages(ctx, path, c, to, progress)
}

// leaveWAL changes the header of a database file so that SQLite reads it without a WAL
// (https://sqlite.org/fileformat2.html#file_format_version_numbers): a backup can be read where nothing can be written
// beside it. PRAGMA journal_mode = DELETE does the same, but opens a WAL and a journal, which another user may have put
// beside the file since it was created.
func leaveWAL(file *safefile.File) error {
	const writeVersionAt, rollback = 18, 1
	_, err := file.WriteAt([]byte{rollback, rollback}, writeVersionAt)
	return err
}

// copyPages copies the file in steps, and leaves a server as much time between
// two of them as each took.
func copyPages(ctx context.Context, path string, from, to *sqlite3.Conn, progress Progress) error {
	b, err := from.BackupTo(to)
	if err != nil {
		return err
	}
	for done := false; !done && err == nil && ctx.Err() == nil; {
		begun := time.Now()
		if done, err = b.Step(backupPages); err == nil {
			err = to.SyncFile()
		}
		copied, all := b.Pages()
		progress.report(int64(copied), int64(all))
		if err == nil && served(path) {
			err = pause(ctx, time.Since(begun))
		}
	}
	finished := b.Finish()
	return cmp.Or(err, ctx.Err(), finished) // that repeats an error of Step
}

// sumFile returns the size and the SHA-256 of a file.
func sumFile(ctx context.Context, path string) (int64, string, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, endingReader{ctx, f})
	return n, hex.EncodeToString(h.Sum(nil)), err
}

// endingReader is a reader that ends with a context.
type endingReader struct {
	ctx context.Context //nolint:containedctx // it lives as long as one call that has it
	r   io.Reader
}

func (r endingReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}
