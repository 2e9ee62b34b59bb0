package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"plantstore/internal/safefile"
	"plantstore/internal/sqlite/backupfile"
)

// directory is a destination in the file system.
type directory struct {
	path       string
	removeFile func(path string) error // os.Remove, except in tests
}

func newDirectory(path string) *directory { return &directory{path: path, removeFile: os.Remove} }

func (d *directory) location(name string) string { return filepath.Join(d.path, name) }

func (d *directory) make(
	ctx context.Context, db, name, timeline string, progress func(step string) backupfile.Progress,
) (backupfile.Manifest, error) {
	return backupfile.Backup(ctx, db, d.location(name), timeline, progress("copy"))
}

func (d *directory) clean(
	_ context.Context, prefix string, isOurs func(name string) bool,
) (removed []string, err error) {
	return safefile.RemoveAbandoned(d.path, func(name string) bool {
		return strings.HasPrefix(name, prefix) && isOurs(name)
	})
}

func (d *directory) list(_ context.Context, prefix string) (files []file, err error) {
	entries, err := os.ReadDir(d.path)
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), prefix) {
			continue
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) { // it was removed since
			continue
		}
		if err != nil {
			return nil, err
		}
		f := file{name: entry.Name(), bytes: info.Size()}
		if !info.Mode().IsRegular() {
			f.fault = safefile.CheckRegular(d.location(f.name))
		}
		files = append(files, f)
	}
	return files, err
}

func (d *directory) open(_ context.Context, name string) (io.ReadCloser, error) {
	return safefile.OpenRegular(d.location(name), os.O_RDONLY, 0)
}

func (d *directory) put(_ context.Context, name string, content []byte) error {
	return safefile.Write(d.location(name), content, true)
}

func (d *directory) putOnce(ctx context.Context, name string, content []byte) error {
	return d.put(ctx, name, content)
}

func (d *directory) delete(_ context.Context, names ...string) error {
	for _, name := range names {
		if err := d.removeFile(d.location(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (d *directory) verify(
	ctx context.Context, name string, _ backupfile.Manifest, progress func(step string) backupfile.Progress,
) ([]string, error) {
	v, err := backupfile.VerifyFile(ctx, d.location(name), progress("check"))
	if err == nil && !v.Manifest { // it was removed since the backup was found
		err = backupfile.ErrNoManifest
	}
	if v.More > 0 {
		v.Faults = append(v.Faults, fmt.Sprintf("and %d more faults", v.More))
	}
	return v.Faults, err
}
