package terminal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"plantstore/internal/safefile"
)

// Output is a file that a command writes for the user. Publish gives it its name; before Publish and after Discard
// the name is unchanged. A FIFO or a device gets each write directly. An output is not safe for concurrent use.
type Output struct {
	force bool
	file  *safefile.File // nil for a FIFO or a device
	pipe  *os.File       // the FIFO or the device
}

// CreateOutput opens an output at path. If path exists, it returns an error that wraps fs.ErrExist, or, with force,
// Publish replaces it. Publish also replaces a symbolic link and does not follow it, because it may be another user's.
// A name of an open descriptor, such as /dev/stdout, is that descriptor. CreateOutput opens a FIFO or a device only if
// its owner is the user or root, and waits for the reader of a FIFO until ctx ends. The files of /dev belong to the
// system: it opens one whoever its owner is, because a container may not know root, and creates or replaces none.
func CreateOutput(ctx context.Context, path string, force bool) (*Output, error) {
	number, isDescriptor := descriptorIn(path)
	info, err := os.Lstat(path)
	isPipe := err == nil && info.Mode()&(fs.ModeNamedPipe|fs.ModeDevice) != 0
	target, errTarget := os.Stat(path)
	o := &Output{force: force}
	switch {
	case isDescriptor:
		o.pipe, err = duplicate(number)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case errTarget == nil && target.IsDir():
		return nil, errors.New("it is a directory; name a file in it")
	case filepath.Dir(path) == "/dev":
		o.pipe, err = wait(ctx, func() (*os.File, error) {
			return os.OpenFile(path, os.O_WRONLY|syscall.O_NOCTTY, 0)
		})
	case isPipe && !safefile.OwnedHere(info):
		return nil, errForeignPipe // do not open it: its owner may never read from it
	case isPipe:
		o.pipe, err = openPipe(ctx, path)
	case err == nil && !force:
		return nil, errOutputExists
	default:
		o.file, err = safefile.Create(path)
	}
	if err != nil {
		return nil, err
	}
	return o, nil
}

var errOutputExists = fmt.Errorf("%w; name another file, or replace it with --force", fs.ErrExist)

// descriptorIn returns the number in a path that names a descriptor of the program.
func descriptorIn(path string) (number string, ok bool) {
	switch path = filepath.Clean(path); path {
	case "/dev/stdout":
		return "1", true
	case "/dev/stderr":
		return "2", true
	}
	dir, name := filepath.Split(path)
	return name, dir == "/dev/fd/" || dir == "/proc/self/fd/"
}

// duplicate returns a duplicate of a descriptor that the program inherited. A duplicate shares the offset; a file
// from opening /dev/stdout would not, and the next write of the shell to a regular file would overwrite the output.
// duplicate refuses the descriptors that the program opened itself, such as the store's: they have the close-on-exec
// flag.
func duplicate(number string) (*os.File, error) {
	n, err := strconv.Atoi(number)
	if err != nil {
		return nil, fmt.Errorf("%q is not a descriptor number", number)
	}
	flags, err := unix.FcntlInt(uintptr(n), unix.F_GETFD, 0)
	if err == nil && flags&unix.FD_CLOEXEC != 0 {
		err = syscall.EBADF
	}
	if err == nil {
		n, err = unix.FcntlInt(uintptr(n), unix.F_DUPFD_CLOEXEC, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("descriptor %s: %w", number, err)
	}
	return os.NewFile(uintptr(n), "/dev/fd/"+number), nil
}

// openPipe opens a FIFO or a device for writing. It returns an error unless its owner is the user or root: another
// owner of a FIFO could read the output.
func openPipe(ctx context.Context, path string) (*os.File, error) {
	f, err := wait(ctx, func() (*os.File, error) {
		return os.OpenFile(path, os.O_WRONLY|syscall.O_NOFOLLOW|syscall.O_NOCTTY, 0)
	})
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !safefile.OwnedHere(info) {
		err = errForeignPipe // replaced after the check of CreateOutput
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	return f, nil
}

var errForeignPipe = errors.New("it is a FIFO or a device of another user; name a file")

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	if o.file == nil {
		return o.pipe.Write(p)
	}
	return o.file.Write(p)
}

// Publish makes the output durable under its name and closes it. After an error the caller must call Discard.
func (o *Output) Publish() error {
	if o.file == nil {
		return o.pipe.Close()
	}
	err := o.file.Publish(o.force)
	if errors.Is(err, fs.ErrExist) {
		return errOutputExists // created after the check of CreateOutput
	}
	return err
}

// Discard closes the output and removes an unpublished file. After a successful Publish it does nothing.
func (o *Output) Discard() error {
	if o.file != nil {
		return o.file.Discard()
	}
	if err := o.pipe.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// StreamName is the file name for standard input or output.
const StreamName = "-"
