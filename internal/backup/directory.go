package backup

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"plantstore/internal/safefile"
	"plantstore/internal/sqlite"
)

// directory is a destination in the file system.
type directory struct {
	path       string
	removeFile func(path string) error // os.Remove, except in tests
}

func newDirectory(path string) *directory { return &directory{path: path, removeFile: os.Remove} }

// location returns the path of a backup.
func (d *directory) location(name string) string { return filepath.Join(d.path, name) }

// make copies the store at db to a new backup, which appears when it is complete and on stable storage.
func (d *directory) make(ctx context.Context, db, name string, progress sqlite.Progress) (sqlite.Manifest, error) {
	return sqlite.Backup(ctx, db, d.location(name), progress)
}

// file is a file in a destination.
type file struct {
	name  string
	bytes int64
}

// list returns the files whose names begin with a prefix, sorted by name.
func (d *directory) list(prefix string) (files []file, err error) {
	entries, err := os.ReadDir(d.path)
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), prefix) {
			continue
		}
		if info, err := entry.Info(); err == nil { // else it was removed since
			files = append(files, file{entry.Name(), info.Size()})
		}
	}
	return files, err
}

// manifest returns the manifest of a backup. It returns an error unless the backup is complete. The error wraps
// fs.ErrNotExist if there is no such backup.
func (d *directory) manifest(name string) (sqlite.Manifest, error) {
	return sqlite.BackupManifest(d.location(name))
}

// open opens a backup for reading.
func (d *directory) open(name string) (io.ReadCloser, error) {
	return safefile.OpenRegular(d.location(name), os.O_RDONLY, 0)
}

// remove removes a backup and then its manifest, because retention would ignore a backup without its manifest. A
// missing manifest is not an error.
func (d *directory) remove(name string) error {
	err := d.removeFile(d.location(name))
	if err == nil {
		err = d.removeFile(d.location(name) + sqlite.ManifestSuffix)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return err
}

// verify reads a whole backup and compares it with its manifest. progress receives numbers of plants.
func (d *directory) verify(
	ctx context.Context, name string, progress func(plants int64),
) (sqlite.Verification, error) {
	return sqlite.VerifyFile(ctx, d.location(name), progress)
}
