package backupfile

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"plantstore/internal/safefile"
	"plantstore/internal/sqlite/dbfile"
	"plantstore/internal/sqlite/sqlite3"
)

// ErrExists means that Restore would overwrite a store.
var ErrExists = errors.New("a store exists already")

// Restore restores the store at path from a backup with its manifest. It verifies the whole backup before it changes
// anything at path; then the store appears complete or not at all. Restore replaces an existing store only if replace
// is set, and never a served one.
func Restore(ctx context.Context, from, path string, replace bool, progress Progress) (m Manifest, err error) {
	from = dbfile.RealPath(from)
	if m, err = BackupManifest(from); err != nil {
		return m, err
	}
	in, err := safefile.OpenRegular(from, os.O_RDONLY, 0)
	if err != nil {
		return m, err
	}
	defer in.Close()
	return RestoreFrom(ctx, in, &m, path, replace, progress, Later{})
}

// Later are the commits after a backup in a destination.
type Later struct {
	Repeat   func(*Replay) error // repeats them; nil: there are none
	Timeline string              // has the last one; empty: the backup's
	Newest   bool                // the restore asked for the newest commit
}

// RestoreFrom is Restore for a backup from r with the manifest m. Without a manifest, the size must match the header,
// and the backup must be undamaged, as Verify checks it; the returned manifest then has no time. It repeats the commits
// after a backup with a manifest before the store appears; the returned manifest then has the number of the last of
// them.
func RestoreFrom(
	ctx context.Context, r io.Reader, m *Manifest, path string, replace bool, progress Progress, later Later,
) (got Manifest, err error) {
	if path, err = dbfile.Locate(path); err != nil { // so that a link is not replaced
		return got, err
	}
	if _, err := os.Lstat(path); err == nil && !replace { // also a link to nothing, which Publish would not replace
		return got, fmt.Errorf("%s: %w", path, ErrExists)
	}
	if dbfile.Served(path) {
		return got, dbfile.ServedError(path)
	}
	var old syscall.Stat_t
	if err := syscall.Lstat(path, &old); err == nil {
		if err := cmp.Or(dbfile.CheckNamed(path), dbfile.CheckFile(path, &old)); err != nil {
			return got, err
		}
	} else if err := dbfile.RefuseNew(path); err != nil && !replace {
		return got, err // its WAL may be whole
	}
	temp, err := safefile.Create(path)
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, temp.Discard()) }()
	safefile.GiveToOwner(temp.File, path)
	if m != nil {
		got, err = *m, m.receive(ctx, r, temp, progress, later.Repeat == nil)
	} else {
		got, err = receiveAlone(ctx, r, temp, progress)
	}
	if err == nil && later.Repeat != nil {
		err = got.replay(ctx, temp.Name(), later.Repeat)
	}
	if err != nil {
		return got, err
	}
	lock, err := dbfile.LockServe(ctx, path) // so late that a failed restore creates no lock file
	if err != nil {
		return got, err
	}
	defer lock.Close()
	origin := dbfile.Origin{Timeline: cmp.Or(later.Timeline, got.Timeline), Commits: got.Commits, Newest: later.Newest}
	return got, replaceStore(ctx, temp, path, replace, origin)
}

// receive copies a backup from r into a file and compares the copy with the manifest. If check is not set, it does
// not read the plants, because replay does.
func (m *Manifest) receive(ctx context.Context, r io.Reader, temp *safefile.File, progress Progress, check bool) error {
	if err := copyBytes(temp, contextReader{ctx, r}, m.Bytes, progress); err != nil {
		return err
	}
	if !check {
		size, sum, err := sumFile(ctx, temp.Name())
		return cmp.Or(err, m.CheckContent(size, sum))
	}
	v, err := m.verify(ctx, temp.Name(), nil)
	return cmp.Or(err, v.damage("the backup"))
}

// receiveAlone copies a backup without its manifest from r into a file, checks it, and returns a manifest for it.
func receiveAlone(ctx context.Context, r io.Reader, temp *safefile.File, progress Progress) (m Manifest, err error) {
	in := bufio.NewReader(contextReader{ctx, r})
	head, err := in.Peek(headerBytes)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return m, err
	case len(head) == 0:
		return m, errors.New("the backup is empty")
	}
	size, err := backupBytes(head)
	if err != nil {
		return m, err
	}
	if err := copyBytes(temp, in, size, progress); err != nil {
		return m, err
	}
	var v Verification
	if err := cmp.Or(v.checkImmutable(ctx, temp.Name(), false, nil), v.damage("the backup")); err != nil {
		return m, err
	}
	m = Manifest{Format: manifestFormat, Store: v.Store, Commits: v.Commits, Plants: v.Plants}
	m.Bytes, m.SHA256, err = sumFile(ctx, temp.Name())
	return m, err
}

// replay repeats commits on the restored copy of the backup at path, and checks the result.
func (m *Manifest) replay(ctx context.Context, path string, commits func(*Replay) error) error {
	if err := replay(ctx, path, commits); err != nil {
		return err
	}
	var v Verification
	if err := v.checkImmutable(ctx, path, false, nil); err != nil {
		return err
	}
	m.Plants, m.Commits = v.Plants, v.Commits
	return v.damage("the restored store")
}

// copyBytes copies a backup, which must have exactly size bytes.
func copyBytes(to *safefile.File, r io.Reader, size int64, progress Progress) error {
	n, err := io.Copy(to, io.TeeReader(io.LimitReader(r, size+1), progress.Writer(size)))
	switch {
	case err != nil:
		return err
	case n < size:
		return fmt.Errorf("the backup is truncated: it has %d of %d bytes", n, size)
	case n > size:
		return fmt.Errorf("the input has more data than the backup of %d bytes", size)
	}
	return to.Sync()
}

// headerBytes is the size of the header of an SQLite database
// (https://sqlite.org/fileformat2.html#the_database_header).
const headerBytes = 100

// backupBytes returns the size of a backup with this header.
func backupBytes(header []byte) (int64, error) {
	const magic, pageSizeAt, readVersionAt, pagesAt = "SQLite format 3\x00", 16, 19, 28
	if len(header) < headerBytes || !bytes.HasPrefix(header, []byte(magic)) {
		return 0, errors.New("the input is not a backup of a plant store: it is not an SQLite database")
	}
	if header[readVersionAt] != 1 {
		return 0, errors.New("the input is a store and not a backup: it lacks the frames of the WAL; " +
			"use the output of plantstore backup")
	}
	page := int64(binary.BigEndian.Uint16(header[pageSizeAt:]))
	if page == 1 {
		page = 1 << 16
	}
	return page * int64(binary.BigEndian.Uint32(header[pagesAt:])), nil
}

// checkpointOld copies the WAL of the old store into its file, unless the file is damaged or not a database.
func checkpointOld(path string) error {
	if err := dbfile.CheckBeside(path, dbfile.SQLiteSuffixes...); err != nil {
		return err
	}
	old, err := sqlite3.Open(path)
	if err == nil {
		if _, err = old.QueryInt("SELECT count(*) FROM sqlite_schema"); err == nil { // opens the WAL
			_, _, err = old.Checkpoint(sqlite3.Truncate)
		}
		old.KeepWAL(true) // Close returns no error of a checkpoint
		err = cmp.Or(err, old.Close())
	}
	var fault *sqlite3.Error
	switch {
	case errors.As(err, &fault) && (fault.NotDatabase() || fault.Corrupt()):
		return nil
	case sqlite3.IsBusy(err):
		return fmt.Errorf("another process has %s open: %w", path, err)
	case err != nil:
		return fmt.Errorf("checkpoint the existing store: %w", err)
	}
	return nil
}

// replaceStore replaces the store at path by temp, which has an origin. SQLite would use the old WAL for the new
// store, so replaceStore first copies it into the old file and removes it.
func replaceStore(
	ctx context.Context, temp *safefile.File, path string, replace bool, origin dbfile.Origin,
) error {
	ticket, err := dbfile.OpenTicket(path)
	if err != nil {
		return err
	}
	defer ticket.Close()
	if err := ticket.Lock(ctx); err != nil {
		return err
	}
	if _, err := os.Stat(path); err == nil {
		if !replace { // a store appeared after the first check, and the WAL and the mark are its own
			return fmt.Errorf("%s: %w", path, ErrExists)
		}
		if err := checkpointOld(path); err != nil {
			return err
		}
	}
	if err := removeBeside(path); err != nil {
		return err
	}
	if err := dbfile.ReplaceOrigin(path, temp.File, origin); err != nil { // it also syncs the directory
		return err
	}
	return temp.Publish(replace)
}

// removeBeside removes the files beside a store that belong to its content.
func removeBeside(path string) error {
	for _, suffix := range append(slices.Clone(dbfile.SQLiteSuffixes), dbfile.MarkSuffix) {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
