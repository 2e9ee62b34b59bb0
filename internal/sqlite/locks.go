package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"plantstore/internal/safefile"
	"plantstore/internal/store"
)

// SQLite's write lock is not fair, and it shows neither a server nor a move. Lock files beside
// the database add this:
//
//   - The one server of the file locks FILE-serve until it ends. A restore locks it, too,
//     and the write ticket, before it replaces the file.
//
//   - A command locks FILE-ticket, the write ticket, before it writes. The server checks
//     it before each batch and waits for the command: without it, the server would lock
//     SQLite's write lock again within microseconds.
//
//   - The command that moves or fills the store locks FILE-move.
//
// The locks are those of flock(2): the kernel releases them when the process ends.
const (
	serveSuffix  = "-serve"
	ticketSuffix = "-ticket"
	moveSuffix   = "-move"
)

// ticketWaitMax bounds the time that the server waits for one command. After that it
// relies on SQLite's lock, so that a stopped command cannot stop the server.
const ticketWaitMax = 2 * time.Second

const (
	serveWaitMax = 200 * time.Millisecond // for a server that ends
	checkWaitMax = 10 * time.Second       // for served of another process, which a loaded machine may stop in between

	serverPoll  = 200 * time.Microsecond
	commandPoll = time.Millisecond
)

// lockServe locks FILE-serve for a server. It retries for a moment if another server has
// the lock, and for longer while only served has it, which shares it.
func lockServe(ctx context.Context, path string) (*os.File, error) {
	f, err := openLock(path, serveSuffix)
	if err != nil {
		return nil, err
	}
	for started := time.Now(); ; {
		err := flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return f, nil
		case !errors.Is(err, syscall.EWOULDBLOCK):
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		wait := serveWaitMax
		if flock(f, syscall.LOCK_SH|syscall.LOCK_NB) == nil {
			_ = flock(f, syscall.LOCK_UN) // the next attempt reports the error of a file without locks
			wait = checkWaitMax
		}
		if time.Since(started) > wait || pause(ctx, commandPoll) != nil {
			_ = f.Close()
			return nil, errServed(path)
		}
	}
}

// lockServe locks FILE-serve for the engine of a server, whose writer has the file open.
func (e *Engine) lockServe(ctx context.Context) (err error) {
	if e.serveLock, err = lockServe(ctx, e.path); err != nil {
		return err
	}
	return e.checkNotReplaced()
}

// checkNotReplaced returns an error if a restore has replaced the file since the writer has
// opened it: the commits of the writer would be in a removed file. The caller has a lock
// under which no restore replaces the file.
func (e *Engine) checkNotReplaced() error {
	switch moved, err := e.writer.Moved(); {
	case err != nil:
		return err
	case moved:
		return fmt.Errorf("%s was replaced or removed after plantstore had opened it; start plantstore again", e.path)
	}
	return nil
}

func errServed(path string) error {
	return fmt.Errorf("another plantstore serves %s: stop it first, or use another file with --db", path)
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

// writeTicket is the lock of a command that writes beside a server.
type writeTicket struct {
	file *os.File
}

func openTicket(path string) (writeTicket, error) {
	f, err := openLock(path, ticketSuffix)
	return writeTicket{file: f}, err
}

// waitForCommands waits until no command has locked the ticket. The server calls it.
func (t writeTicket) waitForCommands(ctx context.Context) error {
	deadline := time.Now().Add(ticketWaitMax)
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

// lock locks the ticket for a command. It waits until no other command has it locked.
func (t writeTicket) lock(ctx context.Context) error {
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

func (t writeTicket) unlock() error { return flock(t.file, syscall.LOCK_UN) }

// openLock opens the file with that suffix beside a store, or creates it with mode 0600.
func openLock(path, suffix string) (*os.File, error) {
	f, err := safefile.OpenRegular(path+suffix, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = createLock(path, suffix)
	}
	if errors.Is(err, safefile.ErrNotRegular) {
		return nil, fmt.Errorf("%w: remove it", err)
	}
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	return f, nil
}

// createLock creates the file with the owner of the store: after a command of root, the server must be able to open it.
func createLock(path, suffix string) (*os.File, error) {
	f, err := safefile.OpenRegular(path+suffix, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) { // another process was first
		return safefile.OpenRegular(path+suffix, os.O_RDWR, 0)
	}
	if err != nil || os.Geteuid() != 0 {
		return f, err
	}
	if info, err := os.Stat(path); err == nil { // restore locks before the store exists
		owner := info.Sys().(*syscall.Stat_t)
		_ = f.Chown(int(owner.Uid), int(owner.Gid)) // without the capability, the file stays ours
	}
	return f, nil
}

// flock calls flock(2) again after EINTR.
func flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// pause sleeps. It returns an error that wraps store.ErrBusy if ctx ends first.
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
