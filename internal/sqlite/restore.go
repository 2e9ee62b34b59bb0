package sqlite

import (
	"cmp"
	"context"
	"encoding/json"
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
var ErrExists = errors.New("there is a store already")

// Restore makes the backup from, whose manifest lies beside it, the store at
// path. Everything in the backup is held against the manifest before anything
// at path is touched; then the store is there as a whole or not at all. It
// replaces a store that is there only if it may, and never one that is served.
func Restore(ctx context.Context, from, path string, replace bool, progress Progress) (Manifest, error) {
	if _, err := os.Stat(from); err != nil {
		return Manifest{}, err
	}
	m, err := readManifest(from)
	if err != nil {
		return m, err
	}
	path = realPath(path) // a link stays one
	if err := refuseNetwork(filepath.Dir(path)); err != nil {
		return m, err
	}
	if _, err := os.Stat(path); err == nil && !replace {
		return m, fmt.Errorf("%s: %w", path, ErrExists)
	}
	lock, err := lockServe(ctx, path)
	if err != nil {
		return m, err
	}
	defer lock.Close()
	temp, err := tempBeside(path)
	if err != nil {
		return m, err
	}
	err = m.fetch(ctx, from, temp, progress)
	if err == nil {
		err = m.takePlace(ctx, temp, path)
	}
	return m, errors.Join(err, removeIfThere(temp))
}

// readManifest reads the manifest of a backup.
func readManifest(backup string) (m Manifest, err error) {
	const bytesMax = 1 << 20
	f, err := os.Open(backup + ManifestSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return m, fmt.Errorf("the backup's manifest %s is missing: without it nothing tells whether the backup is whole", backup+ManifestSuffix)
	}
	if err != nil {
		return m, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, bytesMax))
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("%s is no manifest of a backup: %w", f.Name(), err)
	}
	if m.Format != manifestFormat {
		return m, fmt.Errorf("%s has format %d and this plantstore knows only %d: use the plantstore that made the backup", f.Name(), m.Format, manifestFormat)
	}
	return m, nil
}

// fetch copies a backup into a file of ours, and holds the copy against the
// manifest.
func (m *Manifest) fetch(ctx context.Context, from, temp string, progress Progress) error {
	if err := m.copyFile(ctx, from, temp, progress); err != nil {
		return err
	}
	size, sum, err := sumFile(ctx, temp)
	if err != nil {
		return err
	}
	if size != m.Bytes || sum != m.SHA256 {
		return fmt.Errorf("%s is damaged: it is not the file that its manifest describes (%d bytes with SHA-256 %s, want %d with %s)", from, size, sum, m.Bytes, m.SHA256)
	}
	v, err := Verify(ctx, temp, nil)
	switch {
	case err != nil:
		return err
	case len(v.Faults) > 0:
		return fmt.Errorf("%s is damaged: %s", from, v.Faults[0])
	case v.Plants != m.Plants || v.Commits != m.Commits || v.Store != m.Store:
		return fmt.Errorf("%s is not what its manifest says: it has %d plants up to commit %d, want %d up to %d", from, v.Plants, v.Commits, m.Plants, m.Commits)
	}
	return nil
}

func (m *Manifest) copyFile(ctx context.Context, from, to string, progress Progress) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	counted := io.TeeReader(endingReader{ctx, in}, &counter{all: m.Bytes, progress: progress})
	_, err = io.Copy(out, counted)
	return errors.Join(err, out.Sync(), out.Close())
}

// counter is a writer that only counts.
type counter struct {
	n, all   int64
	progress Progress
}

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	c.progress(c.n, c.all)
	return len(p), nil
}

// emptyWAL copies the WAL of a store that will be replaced into its file. A
// store that is damaged, or is none, goes as it is.
func emptyWAL(path string) error {
	if err := checkFiles(path, sqliteSuffixes); err != nil {
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
		return fmt.Errorf("another process holds %s open: %w", path, err)
	case err != nil:
		return fmt.Errorf("empty the WAL of the store that is there: %w", err)
	}
	return nil
}

// takePlace puts temp in the place of the store at path. First the old store's
// WAL goes into its file, or SQLite would take it for the new one's.
func (m *Manifest) takePlace(ctx context.Context, temp, path string) error {
	t, err := openTurn(path)
	if err != nil {
		return err
	}
	defer t.file.Close()
	if err := t.take(ctx); err != nil {
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
	dir := filepath.Dir(path)
	if err := safefile.SyncDir(dir); err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	return safefile.SyncDir(dir)
}
