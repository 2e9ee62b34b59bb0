package dbfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"plantstore/internal/safefile"
)

// FILE-origin states which commits in a destination of backups a store has the content of, and whether this file may
// add to them. It is beside the store and not in it, so that no backup and no copy of the file has it. A copy with all
// files beside it has another inode.

// Origin is the content of FILE-origin.
type Origin struct {
	Timeline string `json:"timeline"` // timeline of the commits in the destination
	Commits  int64  `json:"commits"`  // number of the commit that a restore ended with; unused for a holder
	Newest   bool   `json:"newest"`   // the restore asked for the newest commit
	Entry    int64  `json:"entry"`    // number of the commit with the entry about the restore in the audit log; 0: none
	Holder   bool   `json:"holder"`   // the store continues the timeline
	Replaces string `json:"replaces"` // the timeline that a store continued which was restored in its place; empty: none

	Destination string `json:"destination"` // only for a holder
	Device      uint64 `json:"device"`      // device of the destination's directory; 0: a bucket

	Inode uint64 `json:"inode"` // inode of the store's file
}

const originBytesMax = 4 << 10

// ReadOrigin returns the origin of the store at path; the zero value if it has none, or if the file is another one.
func ReadOrigin(path string) (o Origin, err error) {
	text, err := safefile.ReadSmall(path+originSuffix, originBytesMax)
	if errors.Is(err, fs.ErrNotExist) {
		return Origin{}, nil
	}
	if err != nil {
		return o, err
	}
	if err := json.Unmarshal(text, &o); err != nil {
		return o, fmt.Errorf("%s is damaged: %w; remove it", path+originSuffix, err)
	}
	var file syscall.Stat_t
	if err := syscall.Stat(path, &file); err != nil || file.Ino != o.Inode {
		return Origin{}, nil //nolint:nilerr // without the file, it is not the origin of any
	}
	return o, nil
}

// WriteOrigin replaces the origin of the store at path.
func WriteOrigin(path string, o Origin) error {
	var file syscall.Stat_t
	if err := syscall.Stat(path, &file); err != nil {
		return fmt.Errorf("stat %s: %w", path, err)
	}
	o.Inode = file.Ino
	return o.write(path)
}

// ReplaceOrigin replaces the origin of the store at path with that of a file that will have its name.
func ReplaceOrigin(path string, next *os.File, o Origin) error {
	old, err := ReadOrigin(path)
	if err != nil {
		return err
	}
	o.Replaces = old.Replaces
	if old.Holder {
		o.Replaces = old.Timeline
	}
	info, err := next.Stat()
	if err != nil {
		return err
	}
	o.Inode = info.Sys().(*syscall.Stat_t).Ino
	return o.write(path)
}

func (o Origin) write(path string) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	f, err := safefile.Create(path + originSuffix)
	if err != nil {
		return err
	}
	safefile.GiveToOwner(f.File, path)
	if _, err = f.Write(append(text, '\n')); err == nil {
		err = f.Publish(true)
	}
	return errors.Join(err, f.Discard())
}
