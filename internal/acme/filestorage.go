package acme

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"plantstore/internal/safefile"
)

// FileStorage is a Storage in the files of a directory that only its owner can read. It is for processes of one
// machine.
type FileStorage struct{ dir string }

// valueBytesMax bounds the size of a file: a private key with its certificate chain is much smaller.
const valueBytesMax = 2 << 20

// NewFileStorage returns a Storage in a directory. It creates the directory with mode 0700, and refuses one of another
// user and one that other users can read or write.
func NewFileStorage(dir string) (*FileStorage, error) {
	if err := safefile.RefuseForeignLinks(dir); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, fmt.Errorf("%s is not a directory: remove it", dir)
	case !safefile.OwnedHere(info):
		return nil, fmt.Errorf("%s belongs to another user: remove it, or run as its owner", dir)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("other users have access to %s, which has private keys: run chmod 700 %[1]s", dir)
	}
	return &FileStorage{dir}, nil
}

// Load implements Storage.
func (s *FileStorage) Load(_ context.Context, key string) ([]byte, error) {
	value, err := safefile.ReadSmall(s.path(key), valueBytesMax)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case len(value) > valueBytesMax:
		return nil, fmt.Errorf("%s is larger than %d bytes", s.path(key), valueBytesMax)
	}
	return value, err
}

// Save implements Storage.
func (s *FileStorage) Save(_ context.Context, key string, value []byte) error {
	return safefile.Write(s.path(key), value, true)
}

// Delete implements Storage.
func (s *FileStorage) Delete(_ context.Context, key string) error {
	if err := os.Remove(s.path(key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// TryLock implements Storage with flock(2) on the file lock, which the kernel releases with the process.
func (s *FileStorage) TryLock(context.Context) (unlock func(), locked bool, err error) {
	f, err := safefile.OpenRegular(s.path("lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, false, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = nil
		}
		return nil, false, err
	}
	return func() { _ = f.Close() }, true, nil // which releases the lock
}

func (s *FileStorage) path(key string) string { return filepath.Join(s.dir, key) }
