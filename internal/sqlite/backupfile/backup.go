// Package backupfile makes backups of the file of a store, restores them, and verifies stores and backups. It works
// beside a server and without one.
package backupfile

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
	"plantstore/internal/sqlite/dbfile"
	"plantstore/internal/sqlite/journal"
	"plantstore/internal/sqlite/sqlite3"
)

// Progress receives the number of finished pages, bytes or plants, and of all. It may be nil.
type Progress func(done, all int64)

func (p Progress) report(done, all int64) {
	if p != nil {
		p(done, all)
	}
}

// Writer returns a writer that reports the number of bytes that were written to it.
func (p Progress) Writer(all int64) io.Writer { return &counter{all: all, progress: p} }

type counter struct {
	n, all   int64
	progress Progress
}

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	c.progress.report(c.n, c.all)
	return len(p), nil
}

// backupPages is the number of pages between two syncs: few, so that a server's own syncs do not wait long.
const backupPages = 256

// Backup copies the store at path, which may be served, to a new file and writes its manifest, which names the
// timeline. The copy includes every plant that was acknowledged before the call. The file appears under its name after
// its manifest, complete and on stable storage. The error of a damaged store wraps a DamageError.
//
// Backup reads one snapshot of the store with SQLite's backup API (https://sqlite.org/backup.html). The WAL of a server
// grows until the end of the backup.
func Backup(ctx context.Context, path, to, timeline string, progress Progress) (m Manifest, err error) {
	if err := RefuseExisting(to, to+ManifestSuffix); err != nil {
		return m, err
	}
	temp, m, err := snapshot(ctx, path, to, progress)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, temp.Discard()) }()
	m.Timeline = timeline
	if m.Bytes, m.SHA256, err = sumFile(ctx, temp.Name()); err != nil {
		return m, err
	}
	if err := m.Write(to + ManifestSuffix); err != nil {
		return m, err
	}
	if err := temp.Publish(false); err != nil {
		if errors.Is(err, safefile.ErrUnsyncedName) {
			return m, err // it needs its manifest
		}
		return m, errors.Join(err, os.Remove(to+ManifestSuffix))
	}
	return m, nil
}

// BackupTo writes a backup of the store at path, which may be served, to w, with the same bytes as Backup. It returns
// the manifest.
//
// BackupTo first copies the store into a temporary file in tempDir, because the WAL grows until the end of the copy,
// and w may be slow. Only the owner can read the file, and its name is removed before the first byte is written.
func BackupTo(
	ctx context.Context, path string, w io.Writer, tempDir string, progress Progress,
) (m Manifest, err error) {
	f, m, err := Snapshot(ctx, path, tempDir, progress)
	if err != nil {
		return m, err
	}
	defer f.Close()
	sum := sha256.New()
	m.Bytes, err = io.Copy(io.MultiWriter(w, sum), contextReader{ctx, f})
	m.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return m, err
}

// Snapshot copies the store at path, which may be served, into a temporary file in tempDir, and returns that. Only the
// owner can read the file, and it has no name, so Close removes it. The manifest lacks the SHA-256.
func Snapshot(ctx context.Context, path, tempDir string, progress Progress) (*os.File, Manifest, error) {
	temp, m, err := snapshot(ctx, path, filepath.Join(tempDir, filepath.Base(path)), progress)
	if err != nil {
		return nil, m, err
	}
	info, err := temp.Stat()
	if err := errors.Join(err, os.Remove(temp.Name())); err != nil {
		return nil, m, errors.Join(err, temp.Close())
	}
	m.Bytes = info.Size()
	return temp.File, m, nil
}

// snapshot copies the current content of the store at path into a temporary file in the directory of beside. The caller
// discards or publishes the file. The manifest lacks the size and the SHA-256.
func snapshot(
	ctx context.Context, path, beside string, progress Progress,
) (temp *safefile.File, m Manifest, err error) {
	path = dbfile.RealPath(path)
	err = dbfile.Read(ctx, path, func(c *sqlite3.Conn) error {
		version, err := dbfile.SchemaVersion(c, path)
		switch {
		case err != nil:
			return err
		case version == 0:
			return fmt.Errorf("%s contains no plant store yet", path)
		}
		if err := dbfile.CheckSchema(c, path, version); err != nil { // before any table is read
			return err
		}
		if temp, err = safefile.Create(beside); err != nil {
			return err
		}
		m, err = copyStore(ctx, c, path, temp.Name(), progress)
		return err
	})
	if err == nil {
		err = leaveWAL(temp)
	}
	if err == nil {
		err = checkCopy(ctx, temp.Name())
	}
	if err != nil && temp != nil {
		err = errors.Join(err, temp.Discard())
	}
	return temp, m, err
}

// copyStore copies the snapshot of a connection to the store at path into the file temp.
func copyStore(
	ctx context.Context, c *sqlite3.Conn, path, temp string, progress Progress,
) (m Manifest, err error) {
	if err := c.Exec("BEGIN"); err != nil {
		return m, err
	}
	defer func() { _ = c.Exec("ROLLBACK") }() // nothing was written
	s, fault, err := dbfile.CheckMark(c, path)
	if err := cmp.Or(err, fault); err != nil {
		return m, err
	}
	m = Manifest{
		Format: manifestFormat, MadeAt: time.Now().UTC(),
		Store: s.StoreName(), Commits: s.Commits, Plants: s.Plants,
	}
	history, last, err := dbfile.HistoryOf(c)
	if err != nil {
		return m, err
	}
	if last.After(m.MadeAt) {
		m.MadeAt = last
	}
	if history != (journal.History{}) {
		m.History, m.CommittedAt = history.String(), last.UTC()
	}
	to, err := sqlite3.OpenUnlocked(temp)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if err := to.Exec("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF"); err != nil { // copyPages syncs
		return m, err
	}
	return m, copyPages(ctx, path, c, to, progress)
}

// copyPages copies the file in steps. After each step it leaves a server as much time as the step took.
func copyPages(ctx context.Context, path string, from, to *sqlite3.Conn, progress Progress) error {
	start := time.Now()
	return from.CopyTo(to, backupPages, func(copied, all int) error {
		if err := to.SyncFile(); err != nil {
			return err
		}
		progress.report(int64(copied), int64(all))
		if dbfile.Served(path) {
			if err := dbfile.Pause(ctx, time.Since(start)); err != nil {
				return err
			}
		}
		start = time.Now()
		return ctx.Err()
	})
}

// checkCopy refuses the copy of a damaged store. A backup of it would look whole, and the retention would remove the
// older ones that are.
func checkCopy(ctx context.Context, path string) error {
	var v Verification
	err := cmp.Or(v.checkImmutable(ctx, path, false, nil), v.damage("the store"))
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w; no backup was made, and the older ones stay: restore one of them", err)
	}
	return err
}

// leaveWAL changes the header of a database file so that SQLite reads it without a WAL, even in a read-only directory
// (https://sqlite.org/fileformat2.html#file_format_version_numbers). PRAGMA journal_mode = DELETE does the same, but
// opens a WAL and a journal, which another user may have created beside the file.
func leaveWAL(file *safefile.File) error {
	const writeVersionAt, rollback = 18, 1
	_, err := file.WriteAt([]byte{rollback, rollback}, writeVersionAt)
	return err
}

// StoreAt returns the identity of the store at path, as in the manifests of its backups.
func StoreAt(ctx context.Context, path string) (name string, err error) {
	err = dbfile.Read(ctx, dbfile.RealPath(path), func(c *sqlite3.Conn) error {
		s, err := dbfile.ReadState(c)
		name = s.StoreName()
		return err
	})
	return name, err
}

// HistoryAt returns the number of the last commit of the store at path, and the history after another commit; the zero
// value if that is not known.
func HistoryAt(ctx context.Context, path string, after int64) (commits int64, history journal.History, err error) {
	err = dbfile.Read(ctx, dbfile.RealPath(path), func(c *sqlite3.Conn) error {
		s, err := dbfile.ReadState(c)
		if err != nil {
			return err
		}
		if commits = s.Commits; commits == after {
			history, _, err = dbfile.HistoryOf(c)
			return err
		}
		_, err = c.Row("SELECT previous FROM plantstore_journal WHERE number = ?", func(row *sqlite3.Stmt) {
			history = journal.HistoryFrom(row.Bytes(0))
		}, after+1)
		return err
	})
	return commits, history, err
}

// RefuseExisting returns an error if one of the files exists.
func RefuseExisting(paths ...string) error {
	for _, name := range paths {
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(err, fmt.Errorf("%s already exists; use a new file", name))
		}
	}
	return nil
}

// sumFile returns the size and the SHA-256 of a file.
func sumFile(ctx context.Context, path string) (int64, string, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, contextReader{ctx, f})
	return n, hex.EncodeToString(h.Sum(nil)), err
}

// contextReader is a reader that returns an error after the end of a context.
type contextReader struct {
	ctx context.Context //nolint:containedctx // used within one call that has the context
	r   io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}
