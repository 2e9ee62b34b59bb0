// Package safefile creates, replaces and opens files in directories where other users may write. A name there may be a
// symbolic link or a FIFO that another user made: nothing here writes through the one or waits for the other.
package safefile

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// File is a temporary file that gets its name when it is complete. Its methods beside those of os.File are Publish and
// Discard, of which the caller calls one. It is not safe for concurrent use.
type File struct {
	*os.File
	path string
	done bool // published or discarded
}

// Create creates a temporary file in the directory of path, which only its owner can read. Nothing appears at path before
// Publish. It refuses a directory that is reached through a link of another user.
func Create(path string) (*File, error) {
	if err := RefuseForeignLinks(filepath.Dir(path)); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // O_EXCL, so it follows no link
	if err != nil {
		return nil, err
	}
	return &File{File: f, path: path}, nil
}

// Publish syncs and closes the file, gives it its name and syncs the directory. A file or a link that has the name is
// replaced, never followed, if replace is true; else Publish fails with an error that wraps fs.ErrExist. After an error
// nothing new is at the name, and Discard removes the temporary file. Only if the directory could not be synced, the new
// file has its name and may lose it in a power cut.
func (f *File) Publish(replace bool) error {
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	if err := f.place(replace); err != nil {
		return err
	}
	f.done = true
	return SyncDir(filepath.Dir(f.path))
}

// place gives the file its name. Without replace, that and the check that the name is free are one step. Two hard links to
// one file are the usual way; on a file system without them (exFAT) an empty file has the name for a moment.
func (f *File) place(replace bool) error {
	if replace {
		return os.Rename(f.Name(), f.path)
	}
	err := os.Link(f.Name(), f.path)
	if err == nil {
		return os.Remove(f.Name())
	}
	if errors.Is(err, fs.ErrExist) {
		return err
	}
	placeholder, err := os.OpenFile(f.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err = errors.Join(placeholder.Close(), os.Rename(f.Name(), f.path)); err != nil {
		return errors.Join(err, os.Remove(f.path))
	}
	return nil
}

// Discard closes and removes the temporary file. After Publish has succeeded it does nothing.
func (f *File) Discard() error {
	if f.done {
		return nil
	}
	f.done = true
	err := f.Close()
	if errors.Is(err, os.ErrClosed) {
		err = nil
	}
	return errors.Join(err, os.Remove(f.Name()))
}

// SyncDir syncs a directory, so that the names in it outlive a power cut.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}

// ErrNotRegular means that a name belongs to a link, a FIFO, a device, a directory or a socket where a regular file is
// expected.
var ErrNotRegular = errors.New("not a regular file")

// OpenRegular opens a regular file as os.OpenFile does. For everything else it fails at once with an error that wraps
// ErrNotRegular: it neither follows a link at the end of path nor waits for the other end of a FIFO.
func OpenRegular(path string, flag int, perm fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, flag|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, perm)
	if err != nil {
		return nil, cmp.Or(CheckRegular(path), err) // ENXIO of a FIFO and ELOOP of a link say less
	}
	info, err := f.Stat()
	if err == nil {
		err = regular(path, info)
	}
	if err == nil {
		err = syscall.SetNonblock(int(f.Fd()), false)
	}
	if err != nil {
		_ = f.Close() // the first error is the one that tells
		return nil, err
	}
	return f, nil
}

// CheckRegular returns an error that wraps ErrNotRegular if something is at path that is not a regular file. It is for files that
// another library opens, which does not know this package.
func CheckRegular(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return regular(path, info)
}

func regular(path string, info fs.FileInfo) error {
	if info.Mode().IsRegular() {
		return nil
	}
	return fmt.Errorf("%s is %s, %w", path, kind(info.Mode()), ErrNotRegular)
}

// kind names the type of a file for a message.
func kind(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	default:
		return "a device"
	}
}

// OwnedHere reports whether a file belongs to the user of this process or to root.
func OwnedHere(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && (stat.Uid == 0 || int(stat.Uid) == os.Geteuid())
}

// RefuseForeignLinks returns an error if path, or a link on the way to it, is a symbolic link that belongs to neither the
// user of this process nor root. A path that does not exist is no error.
func RefuseForeignLinks(path string) error {
	const linksMax = 40         // as the kernel's own limit
	path = filepath.Clean(path) // a relative path stays one: what is above the working directory may be closed to this user
	for range linksMax {
		link, err := firstLink(path)
		if err != nil || link == "" {
			return err
		}
		info, err := os.Lstat(link)
		if err != nil {
			return err
		}
		if !OwnedHere(info) {
			return fmt.Errorf("%s is a symbolic link that belongs to another user: name what it leads to", link)
		}
		target, err := os.Readlink(link)
		if err != nil {
			return err
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(link), target)
		}
		path = filepath.Join(target, path[len(link):])
	}
	return nil // the kernel refuses so many
}

// firstLink returns the shortest prefix of a path that is a symbolic link; "" if there is none, or if the
// path ends early.
func firstLink(path string) (string, error) {
	for end := 1; end <= len(path); end++ {
		if end < len(path) && path[end] != filepath.Separator {
			continue
		}
		info, err := os.Lstat(path[:end])
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			return "", nil // the caller's own call says so
		}
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return path[:end], nil
		}
	}
	return "", nil
}
