package certs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"
)

const (
	pollEvery    = 5 * time.Second
	settleTime   = 2 * time.Second // for which new contents must stay the same, because a program may be writing them
	fileBytesMax = 1 << 20
)

// files is a value that is parsed from files, and parsed again when their contents change. It compares contents and
// not times, because a rename or a changed symbolic link (Kubernetes, certbot) can leave the time of the file older.
// The caller serializes the calls; current is safe for concurrent use.
type files[T any] struct {
	paths []string
	parse func(contents [][]byte) (*T, error)

	current atomic.Pointer[T] // of the last contents that parse accepted

	served  [sha256.Size]byte // sum of the contents of current
	seen    [sha256.Size]byte // sum of the contents at the last check
	pending bool              // the last check found usable contents for the first time
	refused [sha256.Size]byte // sum of the last contents that parse refused
	logged  bool              // the log has a line about the last failure
	failed  string            // the last error of reading
}

// load reads the files at once. It returns true if current changed. After an error everything is as it was.
func (f *files[T]) load() (changed bool, err error) {
	contents, sum, err := f.read()
	if err != nil || sum == f.served {
		return false, err
	}
	value, err := f.parse(contents)
	if err != nil {
		return false, err
	}
	f.served, f.logged, f.failed = sum, false, ""
	f.current.Store(value)
	return true, nil
}

// check reads the files again. It returns true if current changed, which requires that the previous check found the
// same contents. It returns an error for contents that parse refuses and for files that it cannot read, once for each
// error, and only if the next check finds the same: a program may replace one file of a pair shortly before the other.
// After an error current is unchanged.
func (f *files[T]) check() (changed bool, err error) {
	contents, sum, err := f.read()
	settled := sum == f.seen
	f.seen, f.pending = sum, false
	if err != nil {
		return false, f.confirm(sum, err)
	}
	if sum == f.served {
		f.refused, f.logged, f.failed = sum, false, ""
		return false, nil
	}
	value, err := f.parse(contents)
	if err != nil {
		return false, f.confirm(sum, err)
	}
	if !settled {
		f.pending = true
		return false, nil
	}
	f.served, f.logged, f.failed = sum, false, ""
	f.current.Store(value)
	return true, nil
}

// wait returns the time until the next check.
func (f *files[T]) wait() time.Duration {
	if f.pending {
		return settleTime
	}
	return pollEvery
}

// confirm returns err when it is found for the second time in a row, and nil otherwise.
func (f *files[T]) confirm(sum [sha256.Size]byte, err error) error {
	if sum != f.refused || err.Error() != f.failed {
		f.refused, f.failed, f.logged = sum, err.Error(), false
		return nil
	}
	if f.logged {
		return nil
	}
	f.logged = true
	return err
}

// read returns the contents of the files and their sum.
func (f *files[T]) read() (contents [][]byte, sum [sha256.Size]byte, err error) {
	hash := sha256.New()
	for _, path := range f.paths {
		content, err := readFile(path)
		if err != nil {
			return nil, sum, err
		}
		one := sha256.Sum256(content)
		hash.Write(one[:])
		contents = append(contents, content)
	}
	return contents, [sha256.Size]byte(hash.Sum(nil)), nil
}

// readFile reads a regular file, or a symbolic link to one, up to a limit. It does not wait for a FIFO.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, fileBytesMax+1))
	if err != nil {
		return nil, err
	}
	if len(content) > fileBytesMax {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, fileBytesMax)
	}
	if len(bytes.TrimSpace(content)) == 0 {
		return nil, fmt.Errorf("%s is empty", path)
	}
	return content, nil
}

// watch calls check until the context ends. check returns the time until its next call.
func watch(ctx context.Context, check func() time.Duration) {
	timer := time.NewTimer(pollEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			timer.Reset(check())
		}
	}
}
