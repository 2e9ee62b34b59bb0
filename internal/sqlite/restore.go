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

// Restore restores the store at path from a backup with its manifest. It verifies the whole
// backup before it changes anything at path; then the store appears complete or not at all.
// Restore replaces an existing store only if replace is set, and never a served one.
func Restore(ctx context.Context, from, path string, replace bool, progress Progress) (m Manifest, err error) {
	from = realPath(from)
	if err := checkNamed(from); err != nil {
		return m, err
	}
	if m, err = readManifest(from); err != nil {
		return m, err
	}
	fetch := func(temp *safefile.File) error { return m.fetch(ctx, from, temp, progress) }
	return m, restore(ctx, path, replace, fetch)
}

// restore restores the store at path from the file that fetch writes. fetch returns an error
// unless the file is a complete backup.
func restore(
	ctx context.Context, path string, replace bool, fetch func(temp *safefile.File) error,
) (err error) {
	if err := safefile.RefuseForeignLinks(path); err != nil {
		return err
	}
	path = realPath(path) // so that a link is not replaced
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
	lock, err := lockServe(ctx, path) // after fetch, so that a failed restore creates no lock file
	if err != nil {
		return err
	}
	defer lock.Close()
	err = replaceStore(ctx, temp, path, replace)
	if errors.Is(err, fs.ErrExist) && !replace {
		err = fmt.Errorf("%s: %w", path, ErrExists) // it has appeared since then
	}
	return err
}

// fetch copies a backup into temp and compares the copy with the manifest.
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

// copyFile copies a backup of the size in the manifest.
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
	limited := contextReader{ctx, io.LimitReader(in, m.Bytes)}
	counted := io.TeeReader(limited, &counter{all: m.Bytes, progress: progress})
	if _, err := io.Copy(to, counted); err != nil {
		return err
	}
	return to.Sync()
}

// counter is a writer that counts bytes.
type counter struct {
	n, all   int64
	progress Progress
}

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	c.progress.report(c.n, c.all)
	return len(p), nil
}

// checkpointOld copies the WAL of the old store into its file. It skips a damaged file and a
// file that is not a store.
func checkpointOld(path string) error {
	if err := checkBeside(path, sqliteSuffixes); err != nil {
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

// replaceStore replaces the store at path by temp. First it copies the WAL of the old store into
// its file and removes the WAL, which SQLite would use for the new store.
func replaceStore(ctx context.Context, temp *safefile.File, path string, replace bool) error {
	ticket, err := openTicket(path)
	if err != nil {
		return err
	}
	defer ticket.file.Close()
	if err := ticket.lock(ctx); err != nil {
		return err
	}
	if _, err := os.Stat(path); err == nil {
		if !replace { // the WAL and the mark belong to a store that has appeared since the first check
			return fs.ErrExist
		}
		if err := checkpointOld(path); err != nil {
			return err
		}
	}
	for _, suffix := range []string{"-wal", "-shm", "-journal", markSuffix} {
		if err := removeIfExists(path + suffix); err != nil {
			return err
		}
	}
	if err := safefile.SyncDir(filepath.Dir(path)); err != nil {
		return err
	}
	return temp.Publish(replace)
}
