// Package safefile creates, replaces and opens files in directories that other users may write to. Another user may
// have created a symbolic link or a FIFO there: the package does not write through a link and does not wait for a FIFO.
package safefile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
)

// File is a temporary file. The caller ends it with Publish, which gives it its name, or with Discard. It is not safe
// for concurrent use.
type File struct {
	*os.File
	path string
	done bool // published or discarded
}

// Create creates a temporary file in the directory of path that only its owner can read. Publish gives it the name
// path. Create refuses a directory behind a symbolic link of another user. Temporary files have the first free number,
// so one that a killed process left is found, and replaced, without a look at the whole directory, which may have many
// files. A file of root that replaces another one gets its owner by GiveToOwner.
func Create(path string) (*File, error) {
	dir, base := filepath.Dir(path), filepath.Base(path)
	if err := RefuseForeignLinks(dir); err != nil {
		return nil, err
	}
	for n := 1; n <= temporariesMax; n++ {
		name := filepath.Join(dir, fmt.Sprintf(".%s.%d", base, n))
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600) // O_EXCL follows no link
		if errors.Is(err, fs.ErrExist) {
			if removed, _ := removeAbandoned(name); removed {
				n--
			}
			continue
		}
		if err != nil {
			return nil, createFault(dir, err)
		}
		_ = lock(f) // without locks in the file system, removeAbandoned removes nothing
		if !isAt(f, name) {
			_ = f.Close() // removeAbandoned of another process has removed it before the lock
			n--
			continue
		}
		if _, err := os.Lstat(path); err == nil {
			GiveToOwner(f, path)
		}
		return &File{File: f, path: path}, nil
	}
	return nil, fmt.Errorf("create a file in %s: it has %d temporary files for %s; remove them", dir, temporariesMax, base)
}

// temporariesMax is the number of temporary files for one path.
const temporariesMax = 1000

// isAt reports whether the open file has this name.
func isAt(f *os.File, name string) bool {
	opened, errOpened := f.Stat()
	named, errNamed := os.Lstat(name)
	return errOpened == nil && errNamed == nil && os.SameFile(opened, named)
}

// temporary matches the names of the temporary files of Create.
var temporary = regexp.MustCompile(`^\.(.+)\.[0-9]+$`)

// RemoveAbandoned removes the temporary files in a directory that no process has open. match decides by the name that
// Publish would have given a file. It returns these names of the removed files.
func RemoveAbandoned(dir string, match func(name string) bool) (removed []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		name := temporary.FindStringSubmatch(entry.Name())
		if len(name) == 0 || !match(name[1]) {
			continue
		}
		switch done, errRemove := removeAbandoned(filepath.Join(dir, entry.Name())); {
		case errRemove != nil:
			err = errors.Join(err, errRemove)
		case done:
			removed = append(removed, name[1])
		}
	}
	return removed, err
}

// removeAbandoned removes a temporary file unless a process has locked it, or it belongs to another user.
func removeAbandoned(path string) (removed bool, err error) {
	var file syscall.Stat_t
	if syscall.Lstat(path, &file) != nil || RefuseForeign(path, file.Uid) != nil {
		return false, nil
	}
	f, err := OpenRegular(path, os.O_RDWR, 0)
	if err != nil {
		return false, nil // published since, or none of Create
	}
	defer f.Close()
	if lock(f) != nil {
		return false, nil
	}
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) { // published or removed before the lock
		return err == nil, err
	}
	return false, nil
}

// lock locks a temporary file with flock(2) until it is closed, or returns an error at once. SQLite must not lock it
// with fcntl(2), which conflicts with flock on network file systems.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// createFault returns the error of a file that a directory does not accept, without the name of the temporary file.
func createFault(dir string, err error) error {
	var fault *fs.PathError
	if errors.As(err, &fault) {
		err = fault.Err
	}
	remedy := ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		remedy = "; create the directory, or use another one"
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS):
		remedy = "; use a directory that this user may write to"
	}
	return fmt.Errorf("create a file in %s: %w%s", dir, err, remedy)
}

// Publish syncs and closes the file, gives it its name and syncs the directory. If the name exists, Publish replaces
// it, a symbolic link included, or returns an error that wraps fs.ErrExist if replace is false. After an error the
// name is unchanged, and Discard removes the temporary file. The exception is ErrUnsyncedName.
func (f *File) Publish(replace bool) error {
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.place(replace); err != nil {
		return err
	}
	f.done = true
	_ = f.Close() // it is synced; Close ends the lock
	if err := SyncDir(filepath.Dir(f.path)); err != nil {
		return fmt.Errorf("%w: %w", ErrUnsyncedName, err)
	}
	return nil
}

// ErrUnsyncedName is the error for a directory that could not be synced: the file is complete and has its name, but may
// lose the name in a power cut.
var ErrUnsyncedName = errors.New("the file is complete, but a power cut may remove it")

// place gives the file its name. Without replace it checks and creates the name in one step: a hard link, or, on a file
// system without hard links (exFAT), an empty file that it then replaces.
func (f *File) place(replace bool) error {
	if replace {
		return os.Rename(f.Name(), f.path)
	}
	err := os.Link(f.Name(), f.path)
	if err == nil {
		if err = os.Remove(f.Name()); err != nil {
			return errors.Join(err, os.Remove(f.path))
		}
		return nil
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

// Discard closes and removes the temporary file. After a successful Publish it does nothing.
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

// Write publishes a file with this content.
func Write(path string, content []byte, replace bool) error {
	f, err := Create(path)
	if err != nil {
		return err
	}
	if _, err = f.Write(content); err == nil {
		err = f.Publish(replace)
	}
	return errors.Join(err, f.Discard())
}

// SyncDir syncs a directory, so that the names in it survive a power cut.
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

// ErrNotRegular is the error for a symbolic link, FIFO, device, directory or socket in place of a regular file.
var ErrNotRegular = errors.New("not a regular file")

// OpenRegular is os.OpenFile for a regular file. For any other file it returns at once with an error that wraps
// ErrNotRegular: it does not follow a symbolic link at the end of path and does not wait for the other end of a FIFO.
func OpenRegular(path string, flag int, perm fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, flag|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, perm)
	if err != nil {
		return nil, cmp.Or(CheckRegular(path), err) // clearer than ENXIO of a FIFO and ELOOP of a link
	}
	info, err := f.Stat()
	if err == nil {
		err = regular(path, info)
	}
	if err == nil {
		err = syscall.SetNonblock(int(f.Fd()), false)
	}
	if err != nil {
		_ = f.Close() // the first error is the cause
		return nil, err
	}
	return f, nil
}

// ReadSmall reads a regular file, at most one byte more than bytesMax, which shows that the file is longer.
func ReadSmall(path string, bytesMax int64) ([]byte, error) {
	f, err := OpenRegular(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, bytesMax+1))
}

// CheckRegular returns an error that wraps ErrNotRegular if path exists and is not a regular file. It is for files that
// another library opens.
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

// kind returns the type of a file, for a message.
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

// OwnedHere reports whether the owner of a file is the user of this process or root.
func OwnedHere(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && (stat.Uid == 0 || int(stat.Uid) == os.Geteuid())
}

// RefuseForeign returns an error if the file at path has an owner who could read or change it although this process
// writes it: another user may have created it in a shared directory. The owner must be the user of this process or
// root. Root also accepts the owner of the directory, and any owner if only the owner of the directory can create files
// in it, because root works on the files of services.
func RefuseForeign(path string, owner uint32) error {
	if owner == 0 || int(owner) == os.Geteuid() {
		return nil
	}
	if os.Geteuid() == 0 {
		var dir syscall.Stat_t
		if err := syscall.Stat(filepath.Dir(path), &dir); err != nil {
			return fmt.Errorf("stat the directory of %s: %w", path, err)
		}
		if owner == dir.Uid || dir.Mode&0o022 == 0 {
			return nil
		}
	}
	return fmt.Errorf("%s belongs to another user, with the uid %d", path, owner)
}

// GiveToOwner gives a new file that root has created to the owner of the file at path, which it replaces or belongs to.
// If there is none, or the new file is at path, it gets the owner of the directory: a service must be able to open the
// files that root creates for it. GiveToOwner does nothing for another user.
func GiveToOwner(f *os.File, path string) {
	var created, owner syscall.Stat_t
	if os.Geteuid() != 0 || syscall.Fstat(int(f.Fd()), &created) != nil {
		return
	}
	err := syscall.Lstat(path, &owner)
	if err != nil || owner.Ino == created.Ino && owner.Dev == created.Dev || RefuseForeign(path, owner.Uid) != nil {
		if syscall.Stat(filepath.Dir(path), &owner) != nil {
			return
		}
	}
	_ = f.Chown(int(owner.Uid), int(owner.Gid)) // without the capability, the file stays ours
}

// RefuseForeignLinks returns an error if a part of path, or of the target of a symbolic link in it, is a symbolic
// link of a user other than root and the user of this process. A path that does not exist is not an error.
func RefuseForeignLinks(path string) error {
	const linksMax = 40         // the limit of the kernel, which refuses a path with more links
	path = filepath.Clean(path) // not absolute: this user may not be allowed to search above the working directory
	for links, end := 0, 1; end <= len(path) && links <= linksMax; end++ {
		if end < len(path) && path[end] != filepath.Separator {
			continue
		}
		part := path[:end]
		info, err := os.Lstat(part)
		switch {
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
			return nil // the caller's own call returns this error
		case err != nil:
			return err
		case info.Mode()&fs.ModeSymlink == 0:
			continue
		case !OwnedHere(info):
			return fmt.Errorf("%s is a symbolic link of another user; use the path of its target", part)
		}
		target, err := os.Readlink(part)
		if err != nil {
			return err
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(part), target)
		}
		path = filepath.Join(target, path[end:])
		links, end = links+1, 0
	}
	return nil
}

// FreeBytes returns the free space of the file system of a directory, for users other than root.
func FreeBytes(dir string) (int64, error) {
	var fs syscall.Statfs_t
	err := syscall.Statfs(dir, &fs)
	return int64(fs.Bavail) * int64(fs.Bsize), err //nolint:unconvert // the types differ between systems
}
