// Package sqlite is the embedded engine: one file, written by one connection
// of the server, in WAL mode with synchronous=FULL, so that a commit that
// returned is on stable storage (https://sqlite.org/pragma.html#pragma_synchronous).
//
// Commands may work on the file while the server runs; locks.go says how they
// get their turn. Checkpoints are the engine's own business, see checkpoint.go.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/safefile"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// Config is what an Engine is made of.
type Config struct {
	Path      string
	Server    bool                  // this process serves the file: it is the only one, and does the checkpoints
	MustExist bool                  // do not create the store, neither the file nor its tables
	ReadOnly  bool                  // only Get, List and Tokens are called: change nothing; implies MustExist
	Migrate   bool                  // bring a store of an older schema to the newest one; a new store always has that
	WALMax    int64                 // the WAL stays below this as long as nobody else holds a read open; 0: WALBytesDefault
	Log       *slog.Logger          // nil: no log
	Metrics   prometheus.Registerer // of a server; nil: no metrics
}

// Engine implements store.Engine, move.Source and move.Destination on one SQLite file.
type Engine struct {
	path   string
	server bool
	log    *slog.Logger
	schema int // the version of the store's; the newest unless the engine only reads

	serveLock *os.File // held by a server; nil in a command
	ticket    writeTicket

	writeMu sync.Mutex    // guards writer, its statements and order
	writer  *sqlite3.Conn // the one connection that writes; nil if the engine only reads
	stmts   writeStmts
	broken  error          // why nothing may be written any more
	order   []int32        // scratch of Insert
	digests store.Digester // scratch of Insert
	added   added          // by the transaction that runs
	wal     *os.File       // the WAL, for syncWAL

	ownMoveState store.MoveState // the state that this engine set, under which it may write; guarded by writeMu
	capturedTo   int64           // the last followed.number that Captured returned; only the mover uses it

	store    int64     // state.store
	markFile *os.File  // FILE-mark
	markedAt time.Time // when a failure to write it was last logged; guarded by writeMu

	ticketLockedAt, yieldUntil time.Time // a command's last turn; guarded by writeMu

	readMu sync.Mutex // guards reader
	reader *sqlite3.Conn

	checkpoints checkpointer
}

// versionMin is the first SQLite without a defect that could corrupt a WAL
// when two connections write and checkpoint at once
// (https://sqlite.org/wal.html, "The WAL-reset bug").
const versionMin = 3_051_003

func checkVersion(version int) error {
	if version < versionMin {
		return fmt.Errorf("SQLite %s can corrupt a store: at least %s is required", versionText(version), versionText(versionMin))
	}
	return nil
}

// Open opens the store in a file, and creates it if it is not there and may be
// created. When it returns, everything in the file is on stable storage, unless
// c.ReadOnly is set. The caller closes the engine. The error wraps
// store.ErrBroken if the disk failed or the store is damaged.
//
// The schema of a store that exists is changed only if c.Migrate is set. Without
// it, Open refuses a store of an older schema, or reads it if c.ReadOnly is set.
func Open(ctx context.Context, c Config) (_ *Engine, err error) {
	if err := checkVersion(sqlite3.Version()); err != nil {
		return nil, err
	}
	if c.Path == "" {
		return nil, errors.New("sqlite.Config has no Path")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if err := c.checkWALBytes(); err != nil {
		return nil, err
	}
	c.MustExist = c.MustExist || c.ReadOnly
	if err := prepareFile(&c); err != nil {
		return nil, err
	}
	e := &Engine{path: c.Path, server: c.Server, log: c.Log, schema: len(migrations)}
	defer func() {
		if err != nil {
			_ = e.release() // the first error is the one that tells
			err = diskFault(err)
		}
	}()
	if c.ReadOnly {
		if err := e.openReader(ctx, c); err != nil {
			return nil, err
		}
		return e, nil
	}
	if err := e.openWriter(ctx, c); err != nil { // before a lock file is left beside what is no store
		return nil, err
	}
	if c.Server {
		if e.serveLock, err = lockServe(ctx, c.Path); err != nil {
			return nil, err
		}
		warnModes(c.Path, c.Log)
	}
	if e.ticket, err = openTicket(c.Path); err != nil {
		return nil, err
	}
	if err := e.connect(); err != nil {
		return nil, err
	}
	if err := e.migrate(ctx, c); err != nil {
		return nil, err
	}
	if err := e.stmts.prepare(e.writer); err != nil {
		return nil, err
	}
	if err := e.makeDurable(); err != nil {
		return nil, err
	}
	if err := e.openMark(); err != nil {
		return nil, err
	}
	if c.Metrics != nil {
		e.checkpoints.took = e.measure(c.Metrics)
	}
	return e, e.startCheckpoints(c.WALMax)
}

// realPath follows the links in a path, as SQLite does: all that lies beside
// the file, the WAL, the mark and the locks, lies beside the real one. Of a file
// that does not exist it follows those to the directory.
func realPath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return path
}

// prepareFile checks the place of the file, and creates the file if it may be
// created: for its owner only, because who can read it can read every plant.
func prepareFile(c *Config) error {
	if err := safefile.RefuseForeignLinks(c.Path); err != nil {
		return err
	}
	c.Path = realPath(c.Path)
	dir := filepath.Dir(c.Path)
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return fmt.Errorf("the directory of the store: %w", err)
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", dir)
	}
	if err := refuseNetwork(dir); err != nil {
		return err
	}
	if err := checkBeside(c.Path, besideSuffixes); err != nil {
		return err
	}
	switch err := checkNamed(c.Path); {
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case c.MustExist:
		return noStore(c.Path)
	}
	f, err := safefile.OpenRegular(c.Path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("create the store: %w", err)
	}
	return f.Close()
}

func noStore(path string) error {
	return fmt.Errorf("%w at %s: name one with --db, or create one with plantstore serve", store.ErrNoStore, path)
}

// busyMilliseconds is how long a reading connection waits for the short locks
// of recovery. Writing waits in begin, with a context.
const busyMilliseconds = 2000

// openWriter opens the writing connection, and refuses what is no store of
// ours before anything is changed in it.
func (e *Engine) openWriter(ctx context.Context, c Config) (err error) {
	if e.writer, err = sqlite3.OpenBuffered(e.path); err != nil {
		return openFault(e.path, err)
	}
	if e.writer.ReadOnly() {
		return notWritable(e.path, nil)
	}
	e.writer.BusyTimeout(busyMilliseconds)
	e.writer.KeepWAL(true) // whatever is wrong with it, it may be all that there is
	_, err = c.accept(ctx, e.writer)
	e.writer.KeepWAL(err != nil && hasWAL(e.path))
	return err
}

// openReader opens the reading connection of an engine that only reads.
func (e *Engine) openReader(ctx context.Context, c Config) (err error) {
	e.broken = errReadOnly
	if e.reader, err = openToLook(e.path); err != nil {
		return err
	}
	e.schema, err = c.accept(ctx, e.reader)
	return err
}

// accept returns the version of a store's schema, 0 for an empty file. It
// returns an error if the file is no store of ours, is one that the Config does
// not allow, has another schema than its version's, or has lost commits. It
// changes nothing.
func (c Config) accept(ctx context.Context, conn *sqlite3.Conn) (version int, err error) {
	err = during(ctx, conn, func() error {
		version, err = c.acceptFile(conn)
		return err
	})
	if err != nil && ctx.Err() != nil {
		err = ctx.Err() // SQLite tells of an interruption in several ways
	}
	return version, err
}

func (c Config) acceptFile(conn *sqlite3.Conn) (version int, err error) {
	version, err = schemaVersion(conn, c.Path)
	if err == nil {
		err = c.acceptVersion(version)
	}
	if err != nil || version == 0 {
		return version, err
	}
	if err := checkSchema(conn, c.Path, version); err != nil { // before any table is read
		return version, err
	}
	_, wrong, err := checkMark(conn, c.Path)
	if err == nil && wrong != nil {
		err = fmt.Errorf("%w: %w", store.ErrBroken, wrong)
	}
	return version, err
}

// connect makes the file ready to be written to, and opens the reading connection.
func (e *Engine) connect() (err error) {
	if err := e.writer.Exec("PRAGMA page_size = 4096"); err != nil { // counts only for a new file
		return openFault(e.path, err)
	}
	mode, err := e.writer.QueryText("PRAGMA journal_mode = WAL")
	if err != nil {
		return openFault(e.path, err)
	}
	if mode != "wal" {
		return fmt.Errorf("%s cannot use WAL mode (SQLite returned %q): put the store on a local disk", e.path, mode)
	}
	if err := e.writer.Exec(connectionSettings + "PRAGMA cache_size = -32768;"); err != nil {
		return err
	}
	e.writer.BusyTimeout(0) // from here on begin waits, with a context
	e.writer.TrackWAL()

	if e.reader, err = sqlite3.Open(e.path); err != nil {
		return openFault(e.path, err)
	}
	e.reader.BusyTimeout(busyMilliseconds)
	if err := e.reader.Exec(connectionSettings + "PRAGMA query_only = ON;"); err != nil {
		return err
	}
	return e.openWAL()
}

// fullfsync is for macOS, where fsync alone leaves data in the drive's cache.
const connectionSettings = `
	PRAGMA synchronous = FULL;
	PRAGMA fullfsync = ON;
	PRAGMA checkpoint_fullfsync = ON;
	PRAGMA wal_autocheckpoint = 0;
	PRAGMA cell_size_check = ON;
	PRAGMA trusted_schema = OFF;
`

// makeDurable puts what an earlier process may have left in the page cache
// alone on stable storage: a plant must not be acknowledged as already there
// from a row that a power cut could still take away. The checkpoint syncs and
// copies the WAL; if somebody who reads keeps it from that, the WAL is synced.
// The directory is synced here because SQLite ignores an error of that.
func (e *Engine) makeDurable() error {
	if !e.server && served(e.path) {
		return nil // the server did it when it started, and sees to it since
	}
	_, _, err := e.writer.Checkpoint(sqlite3.Truncate)
	if isBusy(err) {
		err = e.syncWAL()
	}
	if err != nil {
		return fmt.Errorf("checkpoint %s: %w", e.path, classify(err))
	}
	// The checkpoint synced the file only if the WAL had something for it; a
	// file that was copied here a moment ago is in the page cache alone.
	if err := e.writer.SyncFile(); err != nil {
		return fmt.Errorf("sync %s: %w", e.path, classify(err))
	}
	return safefile.SyncDir(filepath.Dir(e.path))
}

// Close copies the WAL into the file and lets go of it. A broken engine it
// leaves as it is: what the disk has is for the next process to find out.
func (e *Engine) Close() error {
	e.checkpoints.stop()
	e.writeMu.Lock()
	defer e.writeMu.Unlock()
	if e.broken != nil && e.writer != nil {
		return nil
	}
	e.readMu.Lock()
	defer e.readMu.Unlock()
	if e.server {
		// Closing would do this, too, but would not tell when it fails.
		if _, _, err := e.writer.Checkpoint(sqlite3.Truncate); err != nil && !isBusy(err) {
			e.writer.KeepWAL(true)
			e.log.Warn("could not checkpoint the WAL; nothing is lost, and the next start does it", "error", err)
		}
	}
	return e.release()
}

// release closes whatever is open, in an order that leaves the locks for last.
func (e *Engine) release() error {
	e.stmts.close()
	errs := []error{e.closeMark()}
	for _, conn := range []*sqlite3.Conn{e.checkpoints.conn, e.reader, e.writer} {
		if conn != nil {
			errs = append(errs, conn.Close())
		}
	}
	for _, f := range []*os.File{e.wal, e.ticket.file, e.serveLock} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

func isBusy(err error) bool {
	var fault *sqlite3.Error
	return errors.As(err, &fault) && fault.Busy()
}

// Durability implements store.Engine. SQLite syncs the WAL with every commit.
func (e *Engine) Durability() store.Durability {
	return store.Durability{Guarantee: "on stable storage of this machine"}
}

// Version returns the version of SQLite, as in 3.51.3.
func Version() string { return versionText(sqlite3.Version()) }

func versionText(v int) string {
	return fmt.Sprintf("%d.%d.%d", v/1_000_000, v/1000%1000, v%1000)
}
