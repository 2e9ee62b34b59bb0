package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"plantstore/internal/safefile"
	"plantstore/internal/store"
)

// Lock files lie beside the database, because SQLite's own locks neither say who
// serves the file or moves it nor give turns:
//
//   - FILE-serve is locked by the one server of the file as long as it runs.
//
//   - FILE-turn is locked by a command while it wants to write or writes. The
//     server, which would else take SQLite's write lock again within
//     microseconds, looks at it before each batch and lets the command go first.
//
//   - FILE-move is locked by the one command that moves the store, or fills it.
//
// The locks are flock(2)'s: the kernel drops them with the process, however it
// ends.
const (
	serveSuffix = "-serve"
	turnSuffix  = "-turn"
	moveSuffix  = "-move"
)

// turnWaitMax bounds how long the server lets one command go first. After
// that it goes on and leaves the rest to SQLite's own lock, so that a stopped
// command cannot stop the server.
const turnWaitMax = 2 * time.Second

const (
	serveWaitMax = 200 * time.Millisecond

	serverPoll  = 200 * time.Microsecond
	commandPoll = time.Millisecond
)

// lockServe takes the lock of the one server. The error says who may hold it.
// It tries for a moment, because a command that only asks whether there is a
// server holds the lock, too, just as long as that takes.
func lockServe(ctx context.Context, path string) (*os.File, error) {
	f, err := openLock(path + serveSuffix)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, serveWaitMax)
	defer cancel()
	for {
		err := flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return f, nil
		case !errors.Is(err, syscall.EWOULDBLOCK):
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		if pause(ctx, commandPoll) != nil {
			_ = f.Close()
			return nil, errServed(path)
		}
	}
}

func errServed(path string) error {
	return fmt.Errorf("another plantstore serves %s: stop it first, or give this one another file with --db", path)
}

// served reports whether a server has the file open.
func served(path string) bool {
	f, err := safefile.OpenRegular(path+serveSuffix, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(flock(f, syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

// turn is the lock that commands take to write beside a server.
type turn struct {
	file *os.File
}

func openTurn(path string) (turn, error) {
	f, err := openLock(path + turnSuffix)
	return turn{file: f}, err
}

// letOthers waits, for the server, until no command wants to write.
func (t turn) letOthers(ctx context.Context) error {
	deadline := time.Now().Add(turnWaitMax)
	for {
		err := flock(t.file, syscall.LOCK_SH|syscall.LOCK_NB)
		if err == nil {
			return flock(t.file, syscall.LOCK_UN)
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("lock %s: %w", t.file.Name(), err)
		}
		if time.Now().After(deadline) {
			return nil
		}
		if err := pause(ctx, serverPoll); err != nil {
			return err
		}
	}
}

// take waits, for a command, until it is its turn to write.
func (t turn) take(ctx context.Context) error {
	for {
		err := flock(t.file, syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("lock %s: %w", t.file.Name(), err)
		}
		if err := pause(ctx, commandPoll); err != nil {
			return err
		}
	}
}

func (t turn) give() error { return flock(t.file, syscall.LOCK_UN) }

// openLock opens a lock file, which only the owner of the store may read.
func openLock(path string) (*os.File, error) {
	f, err := safefile.OpenRegular(path, os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, safefile.ErrNotRegular) {
		return nil, fmt.Errorf("%w: remove it", err)
	}
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	return f, nil
}

// flock calls flock(2), again if a signal came between.
func flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// pause waits, or returns an error that wraps store.ErrBusy if ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", store.ErrBusy, context.Cause(ctx))
	}
}
