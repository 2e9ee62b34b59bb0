package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"plantstore/internal/safefile"
)

// output is a file that a command writes for its user. It has its name when Publish returns; until then, and after
// Discard, nothing has changed there. A FIFO and a device are written directly. It is not safe for concurrent use.
type output struct {
	force bool
	file  *safefile.File // nil for a FIFO or a device
	pipe  *os.File       // the FIFO or the device
}

// createOutput opens an output at path. If something is there, it fails with an error that wraps fs.ErrExist, unless force
// is true; then Publish replaces it. A link is replaced too, never followed: it may be another user's. Only the
// names of the system for open descriptors, as /dev/stdout, stand for these. A FIFO and a device are opened if they belong
// to the user or to root; a FIFO that has no reader is waited for until ctx ends.
func createOutput(ctx context.Context, path string, force bool) (*output, error) {
	if f, ok, err := openSystem(path); ok {
		if err != nil {
			return nil, err
		}
		return &output{pipe: f}, nil
	}
	info, err := os.Lstat(path)
	target, errTarget := os.Stat(path)
	o := &output{force: force}
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case errTarget == nil && target.IsDir():
		return nil, errors.New("it is a directory: name a file in it")
	case err == nil && info.Mode()&(fs.ModeNamedPipe|fs.ModeDevice) != 0 && !safefile.OwnedHere(info):
		return nil, errForeignPipe // its user may never read it
	case err == nil && info.Mode()&(fs.ModeNamedPipe|fs.ModeDevice) != 0:
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

var errOutputExists = fmt.Errorf("%w: name another file, or replace it with --force", fs.ErrExist)

// openSystem opens what a name of the system stands for: a descriptor that the program was started with, or something in
// /dev, where nothing is created or replaced. ok is false for every other name.
func openSystem(path string) (f *os.File, ok bool, err error) {
	path = filepath.Clean(path)
	number := ""
	switch dir, name := filepath.Split(path); {
	case path == "/dev/stdout":
		number = "1"
	case path == "/dev/stderr":
		number = "2"
	case dir == "/dev/fd/" || dir == "/proc/self/fd/":
		number = name
	case dir == "/dev/":
		f, err = os.OpenFile(path, os.O_WRONLY|syscall.O_NOCTTY, 0)
		return f, true, err
	default:
		return nil, false, nil
	}
	f, err = duplicate(number)
	return f, true, err
}

// duplicate returns a file for a descriptor that the program was started with. It shares the offset, as a new one from
// opening /dev/stdout would not: what the shell writes next to a regular file would overwrite the output. The program's own
// descriptors, the store's among them, are marked as closed by exec(2).
func duplicate(number string) (*os.File, error) {
	n, err := strconv.Atoi(number)
	if err != nil {
		return nil, fmt.Errorf("%q is not the number of a descriptor", number)
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

// openPipe opens a FIFO or a device to write to it.
func openPipe(ctx context.Context, path string) (*os.File, error) {
	const readerPoll = 10 * time.Millisecond
	for {
		f, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
		switch {
		case err == nil:
			return checkPipe(f)
		case !errors.Is(err, syscall.ENXIO): // a FIFO that has no reader
			return nil, err
		}
		select {
		case <-time.After(readerPoll):
		case <-ctx.Done():
			return nil, errInterrupted
		}
	}
}

var errForeignPipe = errors.New("it is a FIFO or a device of another user: name a file")

// checkPipe returns f if it belongs to the user or to root. Another user's FIFO would give that user everything.
func checkPipe(f *os.File) (*os.File, error) {
	info, err := f.Stat()
	if err == nil && !safefile.OwnedHere(info) {
		err = errForeignPipe // it was replaced
	}
	if err == nil {
		err = syscall.SetNonblock(int(f.Fd()), false)
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	return f, nil
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	if o.file == nil {
		return o.pipe.Write(p)
	}
	return o.file.Write(p)
}

// Publish makes the output durable under its name and closes it. Discard must follow an error.
func (o *output) Publish() error {
	if o.file == nil {
		return o.pipe.Close()
	}
	err := o.file.Publish(o.force)
	if errors.Is(err, fs.ErrExist) {
		return errOutputExists // it appeared after createOutput had looked
	}
	return err
}

// Discard closes the output and removes what Publish has not published. After Publish has succeeded it does nothing.
func (o *output) Discard() error {
	if o.file != nil {
		return o.file.Discard()
	}
	if err := o.pipe.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// streamArg is the name of a file that stands for standard input or output.
const streamArg = "-"
