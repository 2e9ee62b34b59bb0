package dbfile

import (
	"cmp"
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

// SQLite's write lock is not fair, and it does not show a server. So there are lock files beside the database:
//
//   - The one server of the file locks FILE-serve until it ends, and the file itself by LockFile. A restore locks
//     FILE-serve and the write ticket before it replaces the file.
//
//   - A command locks FILE-ticket, the write ticket, before it writes. The server checks it before each batch and waits
//     for the command. Without the ticket, the server would acquire SQLite's write lock again within microseconds.
//
//   - Every process that may change the store shares FILE-move while it has the store open. A move locks it, for the
//     store that it copies and for the new one. A standby locks it too, because its store has only the owner's commits.
//   - A command locks FILE-promote while it asks the standby of the file to take over. The standby writes there why it
//     cannot.
//
// They use flock(2), so the kernel releases them when the process ends.

// ticketWaitMax limits how long the server waits for one command. After that it relies on SQLite's lock, so a stopped
// command cannot stop the server.
const ticketWaitMax = 2 * time.Second

const (
	serveWaitMax = 200 * time.Millisecond // for another server to end
	checkWaitMax = 10 * time.Second       // for Served in another process, on a loaded machine

	serverPoll = 200 * time.Microsecond

	// CommandPoll is the time between two attempts of a command to lock something.
	CommandPoll = time.Millisecond
)

// LockServe locks FILE-serve for a server or a restore. It retries for a moment if a server has the lock, and for
// longer if only calls of Served share it.
func LockServe(ctx context.Context, path string) (*os.File, error) {
	f, err := openLock(path, ServeSuffix)
	if err != nil {
		return nil, err
	}
	for started := time.Now(); ; {
		locked, err := tryLock(f, syscall.LOCK_EX)
		if locked {
			return f, nil
		}
		if err != nil {
			_ = f.Close()
			return nil, err
		}
		wait := serveWaitMax
		if shared, _ := tryLock(f, syscall.LOCK_SH); shared {
			_ = flock(f, syscall.LOCK_UN) // the next attempt reports the error of a file without locks
			wait = checkWaitMax
		}
		if time.Since(started) > wait || Pause(ctx, CommandPoll) != nil {
			_ = f.Close()
			return nil, ServedError(path)
		}
	}
}

// ServedError is the error for a store with a running server.
func ServedError(path string) error {
	return fmt.Errorf("another plantstore serves %s: stop it first, or use another file with --db", path)
}

// Served reports whether a server runs on the file.
func Served(path string) bool { return isLocked(path, ServeSuffix) }

// LockMove shares FILE-move, or locks it for a move. Closing the file releases the lock. The error wraps
// store.ErrMoveRunning or store.ErrInUse if another process has it.
func LockMove(path string, move bool) (*os.File, error) {
	if move {
		return lock(path, MoveSuffix, syscall.LOCK_EX, fmt.Errorf("another process uses %s: %w", path, store.ErrInUse))
	}
	f, err := lock(path, MoveSuffix, syscall.LOCK_SH, store.ErrMoveRunning)
	switch {
	case !errors.Is(err, store.ErrMoveRunning):
		return f, err
	case Served(path): // a move runs without a server
		return nil, fmt.Errorf("the server of %s is a standby; make changes at the server that accepts plants", path)
	}
	return nil, fmt.Errorf("%s: %w: wait for its end", path, err)
}

// NoStandbyError means that no standby serves a store. A server that becomes a standby does not do so for a moment, or
// until it has restored the store.
type NoStandbyError string

func (e NoStandbyError) Error() string { return string(e) }

// RequestPromotion asks the standby that serves a store to take over from the owner. The request ends when the file is
// closed. The error is a NoStandbyError if no standby serves the store.
func RequestPromotion(path string) (*os.File, error) {
	if !Served(path) {
		return nil, NoStandbyError("no server of " + path +
			" runs, or it is not ready yet: start it with --standby, or see its log")
	}
	if !isLocked(path, MoveSuffix) {
		return nil, NoStandbyError("the server of " + path + " is no standby")
	}
	f, err := lock(path, promoteSuffix, syscall.LOCK_EX, fmt.Errorf("another command promotes the server of %s", path))
	if err != nil {
		return nil, err
	}
	if err := f.Truncate(0); err != nil { // a reason of an earlier request
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// PromotionRequested reports whether a command asks the standby of a store to take over.
func PromotionRequested(path string) bool { return isLocked(path, promoteSuffix) }

// DelayPromotion tells the command of PromotionRequested why the standby cannot take over now; nil: it can.
func DelayPromotion(path string, reason error) error {
	f, err := openLock(path, promoteSuffix)
	if err != nil {
		return err
	}
	defer f.Close()
	if err = f.Truncate(0); err == nil && reason != nil {
		text := reason.Error()
		_, err = f.WriteString(text[:min(len(text), reasonBytesMax)])
	}
	return err
}

const reasonBytesMax = 4 << 10

// PromotionDelay returns the reason that DelayPromotion wrote into f, the file of RequestPromotion, or "" without one.
func PromotionDelay(f *os.File) string {
	text := make([]byte, reasonBytesMax)
	n, _ := f.ReadAt(text, 0)
	return string(text[:n])
}

// Ticket is the write ticket of a process.
type Ticket struct {
	path                 string
	file                 *os.File
	lockedAt, yieldUntil time.Time // when a command last locked it, and how long it yields after that
}

// OpenTicket opens the write ticket of a store. The caller closes it.
func OpenTicket(path string) (*Ticket, error) {
	f, err := openLock(path, ticketSuffix)
	if err != nil {
		return nil, err
	}
	return &Ticket{path: path, file: f}, nil
}

// Close releases the ticket. Closing a nil ticket does nothing.
func (t *Ticket) Close() error {
	if t == nil {
		return nil
	}
	return t.file.Close()
}

// WaitForCommands waits until no command has locked the ticket. The server calls it.
func (t *Ticket) WaitForCommands(ctx context.Context) error {
	deadline := time.Now().Add(ticketWaitMax)
	for {
		shared, err := tryLock(t.file, syscall.LOCK_SH)
		if err != nil {
			return err
		}
		if shared {
			return flock(t.file, syscall.LOCK_UN)
		}
		if time.Now().After(deadline) {
			return nil
		}
		if err := Pause(ctx, serverPoll); err != nil {
			return err
		}
	}
}

// Lock locks the ticket for a command, after other commands have unlocked it. Between two locks, it leaves a server as
// much time as the last write took.
func (t *Ticket) Lock(ctx context.Context) error {
	if rest := time.Until(t.yieldUntil); rest > 0 && Served(t.path) {
		if err := Pause(ctx, rest); err != nil {
			return err
		}
	}
	for {
		locked, err := tryLock(t.file, syscall.LOCK_EX)
		if err != nil {
			return err
		}
		if locked {
			t.lockedAt = time.Now()
			return nil
		}
		if err := Pause(ctx, CommandPoll); err != nil {
			return err
		}
	}
}

// Unlock unlocks the ticket of a command.
func (t *Ticket) Unlock() error {
	took := time.Since(t.lockedAt)
	t.yieldUntil = time.Now().Add(max(took, CommandPoll))
	return flock(t.file, syscall.LOCK_UN)
}

// openLock opens the file with that suffix beside a store, or creates it with mode 0600.
func openLock(path, suffix string) (*os.File, error) {
	f, err := safefile.OpenRegular(path+suffix, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		safefile.GiveToOwner(f, path)
	} else if errors.Is(err, fs.ErrExist) {
		f, err = safefile.OpenRegular(path+suffix, os.O_RDWR, 0)
	}
	if errors.Is(err, safefile.ErrNotRegular) {
		return nil, fmt.Errorf("%w: remove it", err)
	}
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	if err := checkOwner(path, suffix); err != nil { // another user may have created it since CheckBeside
		_ = f.Close() // nothing was written
		return nil, err
	}
	return f, nil
}

// lock locks the file with that suffix beside a store, with LOCK_EX or LOCK_SH. The error is taken if another process
// has a conflicting lock.
func lock(path, suffix string, how int, taken error) (*os.File, error) {
	f, err := openLock(path, suffix)
	if err != nil {
		return nil, err
	}
	locked, err := tryLock(f, how)
	if locked {
		return f, nil
	}
	_ = f.Close()
	return nil, cmp.Or(err, taken)
}

// isLocked reports whether another process has locked the file with that suffix for itself alone.
func isLocked(path, suffix string) bool {
	f, err := safefile.OpenRegular(path+suffix, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	shared, err := tryLock(f, syscall.LOCK_SH)
	return !shared && err == nil
}

// tryLock locks a file with LOCK_EX or LOCK_SH. It reports false if another process has a conflicting lock.
func tryLock(f *os.File, how int) (locked bool, err error) {
	err = flock(f, how|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return true, nil
}

// flock calls flock(2), which does not wait: no call locks without LOCK_NB.
func flock(f *os.File, how int) error { return syscall.Flock(int(f.Fd()), how) }

// Pause sleeps. It returns an error that wraps store.ErrBusy if ctx ends first.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", store.ErrBusy, context.Cause(ctx))
	}
}
