package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"plantstore/internal/safefile"
	"plantstore/internal/sqlite/sqlite3"
)

// ErrExists means that Restore would overwrite a store.
var ErrExists = errors.New("a store exists already")

// Restore makes the backup from, whose manifest lies beside it, the store at
// path. Everything in the backup is held against the manifest before anything
// at path is touched; then the store is there as a whole or not at all. It
// replaces a store that is there only if it may, and never one that is served.
func Restore(ctx context.Context, from, path string, replace bool, progress Progress) (m Manifest, err error) {
	from = realPath(from)
	if err := checkNamed(from); err != nil {
		return m, err
	}
	if m, err = readManifest(from); err != nil {
		return m, err
	}
	return m, restore(ctx, path, replace, func(temp *safefile.File) error { return m.fetch(ctx, from, temp, progress) })
}

// restore makes the file that fetch writes the store at path. fetch fails if
// the file is not a whole backup.
func restore(ctx context.Context, path string, replace bool, fetch func(temp *safefile.File) error) (err error) {
	if err := safefile.RefuseForeignLinks(path); err != nil {
		return err
	}
	path = realPath(path) // a link stays one
	if err := refuseNetwork(filepath.Dir(path)); err != nil {
		return err
	}
	if _, err := os.Stat(path); err == nil && !replace {
		return fmt.Errorf("%s: %w", path, ErrExists)
	}
	if served(path) {
		return errServed(path)
	}
	temp, err := safefile.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, temp.Discard()) }()
	if err := fetch(temp); err != nil {
		return err
	}
	lock, err := lockServe(ctx, path) // not before: a restore that fails leaves no lock file
	if err != nil {
		return err
	}
	defer lock.Close()
	err = takePlace(ctx, temp, path, replace)
	if errors.Is(err, fs.ErrExist) && !replace {
		err = fmt.Errorf("%s: %w", path, ErrExists) // it appeared since
	}
	return err
}

// fetch copies a backup into a file of ours, and holds the copy against the
// manifest.
func (m *Manifest) fetch(ctx context.Context, from string, temp *safefile.File, progress Progress) error {
	if err := m.copyFile(ctx, from, temp, progress); err != nil {
		return err
	}
	v, err := m.verify(ctx, temp.Name(), nil)
	if err == nil && len(v.Faults) > 0 {
		err = fmt.Errorf("%s is damaged: %s", from, v.Faults[0])
	}
	return err
}

// copyFile copies a backup of the size that the manifest says.
func (m *Manifest) copyFile(ctx context.Context, from string, to *safefile.File, progress Progress) error {
	in, err := safefile.OpenRegular(from, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if info.Size() != m.Bytes {
		return fmt.Errorf("%s is damaged: %s", from, m.sizeFault(info.Size()))
	}
	counted := io.TeeReader(endingReader{ctx, io.LimitReader(in, m.Bytes)}, &counter{all: m.Bytes, progress: progress})
	if _, err := io.Copy(to, counted); err != nil {
		return err
	}
	return to.Sync()
}

// counter is a writer that only counts.
type counter struct {
	n, all   int64
	progress Progress
}

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	c.progress.report(c.n, c.all)
	return len(p), nil
}

// emptyWAL copies the WAL of a store that will be replaced into its file. A
// store that is damaged, or is none, goes as it is.
func emptyWAL(path string) error {
	if err := checkBeside(path, sqliteSuffixes); err != nil {
		return err
	}
	old, err := sqlite3.Open(path)
	if err == nil {
		if _, err = old.QueryInt("SELECT count(*) FROM sqlite_schema"); err == nil { // opens the WAL
			_, _, err = old.Checkpoint(sqlite3.Truncate)
		}
		old.KeepWAL(true) // Close would not tell whether it could copy it
		err = cmp.Or(err, old.Close())
	}
	var fault *sqlite3.Error
	switch {
	case errors.As(err, &fault) && (fault.NotDatabase() || fault.Corrupt()):
		return nil
	case isBusy(err):
		return fmt.Errorf("another process has %s open: %w", path, err)
	case err != nil:
		return fmt.Errorf("checkpoint the existing store: %w", err)
	}
	return nil
}

// takePlace puts temp in the place of the store at path. First the old store's
// WAL goes into its file, or SQLite would take it for the new one's.
func takePlace(ctx context.Context, temp *safefile.File, path string, replace bool) error {
	t, err := openTicket(path)
	if err != nil {
		return err
	}
	defer t.file.Close()
	if err := t.lock(ctx); err != nil {
		return err
	}
	if _, err := os.Stat(path); err == nil {
		if err := emptyWAL(path); err != nil {
			return err
		}
	}
	for _, suffix := range []string{"-wal", "-shm", "-journal", markSuffix} {
		if err := removeIfThere(path + suffix); err != nil {
			return err
		}
	}
	if err := safefile.SyncDir(filepath.Dir(path)); err != nil {
		return err
	}
	return temp.Publish(replace)
}
