package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// openings reports the files of a directory that processes open. Only root can read the descriptors of the program,
// which keeps its memory from other processes of the user.
type openings struct {
	fd    int // from inotify(7)
	names []string
}

func watchOpenings(dir string) (*openings, error) {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil, err
	}
	_, err = unix.InotifyAddWatch(fd, dir, unix.IN_OPEN)
	return &openings{fd: fd}, err
}

// forget forgets the files that were opened until now.
func (o *openings) forget() error {
	err := o.read()
	o.names = nil
	return err
}

// has reports whether a file was opened whose name has a suffix.
func (o *openings) has(suffix string) (bool, error) {
	err := o.read()
	for _, name := range o.names {
		if strings.HasSuffix(name, suffix) {
			return true, err
		}
	}
	return false, err
}

func (o *openings) read() error {
	const nameMax = unix.NAME_MAX + 1
	buf := make([]byte, 64*(unix.SizeofInotifyEvent+nameMax))
	for {
		n, err := unix.Read(o.fd, buf)
		if errors.Is(err, unix.EAGAIN) {
			return nil
		}
		if err != nil {
			return err
		}
		for events := buf[:n]; len(events) > 0; {
			const lengthAt = unix.SizeofInotifyEvent - 4 // the last member before the name
			end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(events[lengthAt:]))
			name, _, _ := bytes.Cut(events[unix.SizeofInotifyEvent:end], []byte{0})
			o.names = append(o.names, string(name))
			events = events[end:]
		}
	}
}

func (o *openings) close() error { return unix.Close(o.fd) }
