// Package sqlite is the engine of a store in one SQLite file. One connection of the server
// writes the file, in WAL mode with synchronous=FULL, so that a completed commit is on stable
// storage (https://sqlite.org/pragma.html#pragma_synchronous).
//
// Commands may use the file while the server runs; locks.go describes the write ticket. The
// engine runs the checkpoints itself, see checkpoint.go.
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

	"plantstore/internal/audit"
	"plantstore/internal/safefile"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// Config configures an Engine.
type Config struct {
	Path      string                // required
	Server    bool                  // this process is the one server of the file, and runs the checkpoints
	MustExist bool                  // create neither the file nor its tables
	ReadOnly  bool                  // change nothing, so that only Get, List and Tokens work; implies MustExist
	Migrate   bool                  // migrate an older schema to the newest one, instead of refusing it
	By        audit.Origin          // of the audit log's entry of a migration
	WALMax    int64                 // bytes of the WAL unless another process reads; 0: WALBytesDefault
	Log       *slog.Logger          // nil: no log
	Metrics   prometheus.Registerer // of a server; nil: no metrics
}

// Engine keeps a store in one SQLite file. It implements writepath.Engine, admin.Engine, webhook.Outbox, move.Source
// and move.Destination.
type Engine struct {
	path   string
	server bool
	log    *slog.Logger

	serveLock *os.File // nil in a command
	ticket    writeTicket

	writeMu sync.Mutex    // guards writer, its statements and order
	writer  *sqlite3.Conn // the only connection that writes; nil if the engine is read-only
	stmts   writeStmts
	broken  error          // refuses every write if it is set
	order   []int32        // scratch of Insert
	digests store.Digester // scratch of Insert
	added   added          // by the current transaction
	wal     *os.File       // the WAL, for syncWAL

	ownMoveState store.MoveState // set by this engine, under which it may write; guarded by writeMu
	capturedTo   int64           // last followed.number that Captured returned; only a move uses it

	store        int64     // state.store
	markFile     *os.File  // FILE-mark
	markWarnedAt time.Time // last warning about a failed write of it; guarded by writeMu

	ticketLockedAt, yieldUntil time.Time // of the last write of a command; guarded by writeMu

	events chan struct{} // has a value after a batch that wrote events

	readMu sync.Mutex // guards reader and scan
	reader *sqlite3.Conn
	scan   *sqlite3.Stmt // of reader, for Scan; nil before the first one

	checkpoints checkpointer
}

// versionMin is the first version of SQLite without a defect that can corrupt the WAL when
// two connections write and checkpoint concurrently (https://sqlite.org/wal.html, "The
// WAL-reset bug").
const versionMin = 3_051_003

func checkVersion(version int) error {
	if version < versionMin {
		return fmt.Errorf("SQLite %s can corrupt a store: at least %s is required",
			versionText(version), versionText(versionMin))
	}
	return nil
}

// Open opens the store in a file, or creates it unless c.MustExist is set. When it returns,
// the content of the file is on stable storage, unless c.ReadOnly is set. The caller closes
// the engine. The error wraps store.ErrBroken if the disk failed or the store is damaged.
//
// Open migrates a store of an older schema if c.Migrate is set, and refuses it otherwise.
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
	if err := prepareFile(ctx, &c); err != nil {
		return nil, err
	}
	e := &Engine{path: c.Path, server: c.Server, log: c.Log, events: make(chan struct{}, 1)}
	defer func() {
		if err != nil {
			_ = e.release() // err has the cause
			err = diskFault(err)
		}
	}()
	if c.ReadOnly {
		if err := e.openReader(ctx, c); err != nil {
			return nil, err
		}
		return e, nil
	}
	if err := e.openWriter(ctx, c); err != nil { // first, so that no lock file is created beside another file
		return nil, err
	}
	if c.Server {
		if err := e.lockServe(ctx); err != nil {
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
	if err := e.openMark(ctx); err != nil {
		return nil, err
	}
	if c.Metrics != nil {
		e.checkpoints.duration = e.measure(c.Metrics, c.WALMax)
	}
	return e, e.startCheckpoints(c.WALMax)
}

// realPath resolves the symbolic links in a path, as SQLite does: the WAL, the commit mark
// and the lock files are beside the real file. If the file does not exist, it resolves the
// links of the directory.
func realPath(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return path
}

// prepareFile checks the directory and the files beside the store, and creates the file
// unless c.MustExist is set. Only its owner may read it, because it contains every plant.
func prepareFile(ctx context.Context, c *Config) error {
	if err := safefile.RefuseForeignLinks(c.Path); err != nil {
		return err
	}
	c.Path = realPath(c.Path)
	dir := filepath.Dir(c.Path)
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return fmt.Errorf("the directory of the store: %w; create it, or use another path", err)
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
	if err := refuseNew(c.Path); err != nil {
		return err
	}
	return createFile(ctx, c.Path)
}

// createFile creates an empty file, unless it exists. It locks the write ticket: a restore, which
// has it locked, removes a WAL without a file, and this file gets a WAL before its first write.
func createFile(ctx context.Context, path string) error {
	if err := safefile.CheckRegular(path); err != nil { // before a lock file is created beside it
		return fmt.Errorf("create the store: %w", err)
	}
	if ticket, err := openTicket(path); err == nil { // Open returns its error, unless the next call has a clearer one
		defer ticket.file.Close()
		if err := ticket.lock(ctx); err != nil {
			return err
		}
	}
	f, err := safefile.OpenRegular(path, os.O_RDWR|os.O_CREATE, 0o600)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("create the store: %w; use a directory that this user may write to", err)
	case err != nil:
		return fmt.Errorf("create the store: %w", err)
	}
	return f.Close()
}

func noStore(path string) error {
	return fmt.Errorf("%w at %s: name one with --db, or create one with plantstore serve", store.ErrNoStore, path)
}

// busyMilliseconds is the time that a reading connection waits for the short locks of
// recovery. A writing connection waits in begin, with a context.
const busyMilliseconds = 2000

// openWriter opens the writing connection. It refuses another file before it changes
// anything.
func (e *Engine) openWriter(ctx context.Context, c Config) (err error) {
	if e.writer, err = sqlite3.OpenBuffered(e.path); err != nil {
		return openFault(e.path, err)
	}
	if e.writer.ReadOnly() {
		return notWritable(e.path, nil)
	}
	e.writer.BusyTimeout(busyMilliseconds)
	e.writer.KeepWAL(true) // a damaged WAL may be the only copy of its plants
	if _, err = c.accept(ctx, e.writer); err == nil {
		if err = checkHeader(e.writer); err != nil {
			err = fmt.Errorf("%s is damaged: %w; restore a backup", e.path, err)
		}
	}
	e.writer.KeepWAL(err != nil && hasWAL(e.path))
	return err
}

// openReader opens the reading connection of a read-only engine.
func (e *Engine) openReader(ctx context.Context, c Config) (err error) {
	e.broken = errReadOnly
	if e.reader, err = openForReading(e.path); err != nil {
		return err
	}
	_, err = c.accept(ctx, e.reader)
	return err
}

// accept returns the version of a store's schema, 0 for an empty file. It returns an error
// if the file is not a store, is not allowed by the Config, has a changed schema, or has lost
// commits. It changes nothing.
func (c Config) accept(ctx context.Context, conn *sqlite3.Conn) (version int, err error) {
	err = during(ctx, conn, func() error {
		version, err = c.acceptFile(conn)
		return err
	})
	if err != nil && ctx.Err() != nil {
		err = ctx.Err() // SQLite has several errors for an interruption
	}
	return version, err
}

func (c Config) acceptFile(conn *sqlite3.Conn) (version int, err error) {
	version, err = schemaVersion(conn, c.Path)
	if err == nil {
		err = c.acceptVersion(version)
	}
	if err == nil && version == 0 {
		err = refuseNew(c.Path)
	}
	if err != nil || version == 0 {
		return version, err
	}
	if err := checkSchema(conn, c.Path, version); err != nil { // before any table is read
		return version, err
	}
	_, fault, err := checkMark(conn, c.Path)
	if err == nil && fault != nil {
		err = fmt.Errorf("%w: %w", store.ErrBroken, fault)
	}
	return version, err
}

// connect prepares the file for writes and opens the reading connection.
func (e *Engine) connect() (err error) {
	if err := e.writer.Exec("PRAGMA page_size = 4096"); err != nil { // has an effect only on a new file
		return openFault(e.path, err)
	}
	mode, err := e.writer.QueryText("PRAGMA journal_mode = WAL")
	if err != nil {
		return openFault(e.path, err)
	}
	if mode != "wal" {
		return fmt.Errorf("%s cannot use WAL mode (SQLite returned %q): put the store on a local disk", e.path, mode)
	}
	if err := e.writer.Exec(connectionSettings + "PRAGMA cache_size = -16384;"); err != nil {
		return err
	}
	e.writer.BusyTimeout(0) // from now on begin waits, with a context
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

// fullfsync is for macOS, where fsync leaves data in the cache of the drive.
const connectionSettings = `
	PRAGMA synchronous = FULL;
	PRAGMA fullfsync = ON;
	PRAGMA checkpoint_fullfsync = ON;
	PRAGMA wal_autocheckpoint = 0;
	PRAGMA cell_size_check = ON;
	PRAGMA trusted_schema = OFF;
`

// makeDurable syncs the data that an earlier process may have left in the page cache: a
// replay must not be acknowledged for a row that a power cut can remove. The checkpoint
// syncs and copies the WAL; if a reader blocks it, the WAL is synced. makeDurable also syncs
// the directory, because SQLite ignores an error of that sync.
func (e *Engine) makeDurable() error {
	if !e.server && served(e.path) {
		return nil // the server has synced it at its start
	}
	_, _, err := e.writer.Checkpoint(sqlite3.Truncate)
	if isBusy(err) {
		err = e.syncWAL()
	}
	if err != nil {
		return fmt.Errorf("checkpoint %s: %w", e.path, classify(err))
	}
	// The checkpoint has synced the file only if the WAL had frames. A file that was just
	// copied here is in the page cache only.
	if err := e.writer.SyncFile(); err != nil {
		return fmt.Errorf("sync %s: %w", e.path, classify(err))
	}
	return safefile.SyncDir(filepath.Dir(e.path))
}

// Close copies the WAL into the file and closes it. It leaves a broken engine unchanged, for
// recovery by the next process.
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
		// Closing the connection does the same, but returns no error.
		if _, _, err := e.writer.Checkpoint(sqlite3.Truncate); err != nil && !isBusy(err) {
			e.writer.KeepWAL(true)
			e.log.Warn("could not checkpoint the WAL; nothing is lost, and the next start does it", "error", err)
		}
	}
	return e.release()
}

// release closes all connections and files, the locks last.
func (e *Engine) release() error {
	e.stmts.close()
	e.scan.Close()
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

// Durability implements writepath.Engine. SQLite syncs the WAL with every commit.
func (e *Engine) Durability() store.Durability {
	return store.Durability{Guarantee: "on stable storage of this machine"}
}

// Version returns the version of SQLite, as in 3.51.3.
func Version() string { return versionText(sqlite3.Version()) }

func versionText(v int) string {
	return fmt.Sprintf("%d.%d.%d", v/1_000_000, v/1000%1000, v%1000)
}
