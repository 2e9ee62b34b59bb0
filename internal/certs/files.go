package certs

import (
	"crypto/sha256"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// CheckEvery is the interval between two calls of Check.
const CheckEvery = 5 * time.Second

// files is a value that is parsed from files, and parsed again when their contents change. It uses new contents when
// two checks find the same: a program may still be writing them. It compares contents and not times, because a rename
// or a changed symbolic link (Kubernetes, certbot) can leave the time of the file older. Only one goroutine at a time
// may call its methods. Any goroutine may load current.
type files[T any] struct {
	paths   []string
	parse   func(contents [][]byte) (*T, error)
	checked func(changed bool, err error) // after each check

	current atomic.Pointer[T] // from the last contents that parse accepted

	served  [sha256.Size]byte // sum of the contents of current
	seen    finding           // by the last check
	settled finding           // the last one that two checks in a row had, or that load used
}

// finding is a result of a check: the contents, and the error of reading or parsing them.
type finding struct {
	sum   [sha256.Size]byte
	fault string // empty: none
}

// Reload reads the files at once, even if a program may still be writing them. After an error the previous value stays
// in use.
func (f *files[T]) Reload() error {
	changed, err := f.load()
	if err == nil {
		f.checked(changed, nil)
	}
	return err
}

// Check reads the files again, and uses new contents that the previous call has found too.
func (f *files[T]) Check() { f.checked(f.check()) }

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
	f.use(value, sum)
	return true, nil
}

func (f *files[T]) use(value *T, sum [sha256.Size]byte) {
	f.served, f.settled = sum, finding{sum: sum}
	f.current.Store(value)
}

// check reads the files again, and acts when two checks in a row have found the same: a program may replace one file of
// a pair shortly before the other. It then returns true if current changed, or returns an error of reading or parsing
// once. After an error current is unchanged.
func (f *files[T]) check() (changed bool, err error) {
	contents, sum, err := f.read()
	usable := err == nil && sum != f.served
	var value *T
	if usable {
		value, err = f.parse(contents)
		usable = err == nil
	}
	now := finding{sum: sum}
	if err != nil {
		now.fault = err.Error()
	}
	again := now == f.seen
	f.seen = now
	if !again || now == f.settled {
		return false, nil
	}
	f.settled = now
	if usable {
		f.use(value, sum)
	}
	return usable, err
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

// readFile reads a regular file, or a symbolic link to one. It does not wait for a FIFO.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}
