// Package sqlite is the engine of a store in one SQLite file. One connection of the server writes the file, in WAL mode
// with synchronous=FULL, so that a completed commit is on stable storage
// (https://sqlite.org/pragma.html#pragma_synchronous).
//
// Commands may use the file while the server runs; dbfile/locks.go describes the write ticket. The engine runs the
// checkpoints itself, see checkpoint.go.
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
	"plantstore/internal/sqlite/dbfile"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// Config configures an Engine.
type Config struct {
	Path      string                // required
	Server    bool                  // this process is the one server of the file, and runs the checkpoints
	MustExist bool                  // create neither the file nor its tables
	ReadOnly  bool                  // for the methods that only read; implies MustExist
	Migrate   bool                  // migrate an older schema to the newest one, instead of refusing it
	Move      bool                  // lock every other process out that may change the store, and accept a moved one
	By        audit.Origin          // for the audit log's entry about a migration
	MayWrite  func() error          // why the process must not change the store, see store.ErrNotOwner; nil: it may
	Log       *slog.Logger          // nil: no log
	Metrics   prometheus.Registerer // nil: no metrics
}

// Engine keeps a store in one SQLite file. It implements writepath.Engine, admin.Engine, webhook.Outbox and
// move.Source.
type Engine struct {
	store.Operations

	path   string
	server bool
	places []*place // one for each file that a writing engine has open; set by Open
	log    *slog.Logger

	moveLock  *os.File       // nil if the engine is read-only
	serveLock *os.File       // nil in a command
	ticket    *dbfile.Ticket // nil if the engine is read-only

	writeMu  sync.Mutex    // guards writer, its statements and order
	writer   *sqlite3.Conn // the only connection that writes; nil if the engine is read-only
	stmts    writeStmts
	broken   error // refuses every write if it is set
	mayWrite func() error
	order    []int32        // scratch of Insert
	digests  store.Digester // scratch of Insert
	current  transaction
	recorder recorder
	wal      *os.File // the WAL, for syncWAL

	mark         *dbfile.Mark
	markWarnedAt time.Time // last warning about a failed write of the mark; guarded by writeMu

	damageMu       sync.Mutex
	damageLoggedAt time.Time // when logDamage last logged; guarded by damageMu

	readMu sync.Mutex    // guards reader
	reader *sqlite3.Conn // for all short reads

	checkpoints checkpointer
}

// Open opens the store in a file, or creates it unless c.MustExist is set. When it returns, the content of the file is
// on stable storage, unless c.ReadOnly is set. The caller closes the engine. The error wraps store.ErrBroken if the
// disk failed or the store is damaged.
//
// Open migrates a store of an older schema if c.Migrate is set, and refuses it otherwise.
func Open(ctx context.Context, c Config) (_ *Engine, err error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.MustExist = c.MustExist || c.ReadOnly
	if err := prepareFile(ctx, &c); err != nil {
		return nil, diskFault(err)
	}
	e := &Engine{
		path: c.Path, server: c.Server, log: c.Log, recorder: recorder{bytesMax: journalBytesMax}, mayWrite: c.MayWrite,
	}
	e.Operations = e.operations()
	defer func() {
		if err != nil {
			_ = e.release() // err is the cause
			err = diskFault(err)
		}
	}()
	if c.ReadOnly {
		return e, e.openReader(ctx, c)
	}
	if err := e.openWriter(ctx, c); err != nil { // first, so that no lock file is created beside another file
		return nil, err
	}
	if e.moveLock, err = dbfile.LockMove(c.Path, c.Move); err != nil {
		return nil, err
	}
	for _, step := range []func() error{
		func() error { return e.placeBeside(dbfile.MoveSuffix) },
		func() error { return e.lockServe(ctx) },
		func() (err error) { e.ticket, err = dbfile.OpenTicket(c.Path); return err },
		e.connect,
		func() error { return e.migrate(ctx, c) },
		func() error { return e.checkMoved(c) },
		func() error { return e.stmts.prepare(e.writer) },
		e.makeDurable,
		func() error { return e.openMark(ctx) },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	if c.Metrics != nil {
		e.checkpoints.duration = e.measure(c.Metrics)
	}
	return e, e.startCheckpoints()
}

// prepareFile is findFile, and creates a missing file. Only its owner may read it, because it contains every plant.
func prepareFile(ctx context.Context, c *Config) error {
	if found, err := findFile(c); found || err != nil {
		return err
	}
	return createFile(ctx, c.Path)
}

// findFile checks the directory and the files beside the store, and reports whether the file exists. The error also
// tells that it does not exist and must not be created.
func findFile(c *Config) (found bool, err error) {
	if c.Path, err = dbfile.Locate(c.Path); err != nil {
		return false, err
	}
	if err := dbfile.CheckBeside(c.Path); err != nil {
		return false, err
	}
	switch err := dbfile.CheckNamed(c.Path); {
	case !errors.Is(err, fs.ErrNotExist):
		return err == nil, err
	case c.MustExist:
		return false, dbfile.NoStore(c.Path)
	}
	return false, dbfile.RefuseNew(c.Path)
}

// createFile creates an empty file, unless it exists. It locks the write ticket, because a restore in progress removes
// the WAL at this path, which the new file has before its first write.
func createFile(ctx context.Context, path string) error {
	if err := safefile.CheckRegular(path); err != nil { // before a lock file is created beside it
		return fmt.Errorf("create the store: %w", err)
	}
	if ticket, err := dbfile.OpenTicket(path); err == nil { // otherwise, a later step returns a clearer error
		defer ticket.Close()
		if err := ticket.Lock(ctx); err != nil {
			return err
		}
	}
	f, err := safefile.OpenRegular(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return dbfile.CheckNamed(path) // another process has created it
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("create the store: %w; use a directory that this user may write to", err)
	case err != nil:
		return fmt.Errorf("create the store: %w", err)
	}
	safefile.GiveToOwner(f, path)
	return f.Close()
}

// openWriter opens the writing connection. It refuses another file before it changes anything.
func (e *Engine) openWriter(ctx context.Context, c Config) (err error) {
	if e.writer, err = sqlite3.OpenBuffered(e.path); err != nil {
		return dbfile.OpenFault(e.path, err)
	}
	if e.writer.ReadOnly() {
		return dbfile.NotWritable(e.path, nil)
	}
	if err := e.placeDatabase(); err != nil {
		return err
	}
	e.writer.BusyTimeout(dbfile.BusyMilliseconds)
	e.writer.KeepWAL(true) // a damaged WAL may be the only copy of its plants
	err = e.writer.During(ctx, func() error {
		_, err := c.acceptWritable(e.writer)
		return err
	})
	e.writer.KeepWAL(err != nil && dbfile.HasWAL(e.path))
	return err
}

// openReader opens the reading connection of a read-only engine.
func (e *Engine) openReader(ctx context.Context, c Config) (err error) {
	e.broken = errReadOnly
	if e.reader, err = dbfile.OpenForReading(e.path); err != nil {
		return err
	}
	return e.reader.During(ctx, func() error {
		_, err := c.accept(e.reader)
		return err
	})
}

// acceptWritable is accept for a connection that will write.
func (c *Config) acceptWritable(conn *sqlite3.Conn) (version int, err error) {
	if version, err = c.accept(conn); err != nil {
		return 0, err
	}
	if err := dbfile.CheckHeader(conn); err != nil {
		return 0, fmt.Errorf("%s is damaged: %w; restore a backup", c.Path, err)
	}
	return version, nil
}

// accept returns the schema of a store, 0 for an empty file. It returns an error if the file is not a store, if the
// Config does not allow its schema, if the schema was changed, or if commits are lost. It changes nothing.
func (c *Config) accept(conn *sqlite3.Conn) (version int, err error) {
	version, err = dbfile.SchemaVersion(conn, c.Path)
	if err == nil {
		err = c.acceptVersion(version)
	}
	if err == nil && version == 0 {
		err = dbfile.RefuseNew(c.Path)
	}
	if err != nil || version == 0 {
		return version, err
	}
	if err := dbfile.CheckSchema(conn, c.Path, version); err != nil { // before any table is read
		return version, err
	}
	_, fault, err := dbfile.CheckMark(conn, c.Path)
	if err == nil && fault != nil {
		err = fmt.Errorf("%w: %w", store.ErrBroken, fault)
	}
	return version, err
}

// lockServe locks FILE-serve. The writer has already opened the file.
func (e *Engine) lockServe(ctx context.Context) (err error) {
	if !e.server {
		return nil
	}
	if e.serveLock, err = dbfile.LockServe(ctx, e.path); err != nil {
		return err
	}
	descriptor, err := e.writer.Descriptor()
	if err == nil {
		err = dbfile.LockFile(ctx, e.path, descriptor)
	}
	if err == nil {
		err = e.placeBeside(dbfile.ServeSuffix)
	}
	if err != nil {
		return err
	}
	dbfile.WarnModes(e.path, e.log)
	return e.checkNotReplaced()
}

// connect prepares the file for writes and opens the reading connection.
func (e *Engine) connect() (err error) {
	if err := e.writer.Exec("PRAGMA page_size = 4096"); err != nil { // only affects a new file
		return dbfile.OpenFault(e.path, err)
	}
	mode, err := e.writer.QueryText("PRAGMA journal_mode = WAL")
	if err != nil {
		return dbfile.OpenFault(e.path, err)
	}
	if mode != "wal" {
		return fmt.Errorf("%s cannot use WAL mode (SQLite returned %q): put the store on a local disk", e.path, mode)
	}
	// Zeros overwrite the content of erased plants, also where it is in commits that leave the journal.
	const writerSettings = connectionSettings + "PRAGMA cache_size = -16384; PRAGMA secure_delete = ON;"
	if err := e.writer.Exec(writerSettings); err != nil {
		return err
	}
	e.writer.BusyTimeout(0) // from now on begin waits, with a context
	e.writer.TrackWAL()

	if e.reader, err = sqlite3.Open(e.path); err != nil {
		return dbfile.OpenFault(e.path, err)
	}
	e.reader.BusyTimeout(dbfile.BusyMilliseconds)
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

// makeDurable syncs the data that an earlier process may have left in the page cache: a replay must not be acknowledged
// for a row that a power cut can remove. The checkpoint syncs and copies the WAL; if a reader blocks it, the WAL is
// synced. makeDurable also syncs the directory, because SQLite ignores an error of that sync.
func (e *Engine) makeDurable() error {
	if !e.server && dbfile.Served(e.path) {
		return nil // the server did this when it started
	}
	_, _, err := e.writer.Checkpoint(sqlite3.Truncate)
	if sqlite3.IsBusy(err) {
		err = e.syncWAL()
	}
	if err != nil {
		return fmt.Errorf("checkpoint %s: %w", e.path, classify(err))
	}
	// The checkpoint synced the file only if the WAL had frames. A file that was just copied here may still be in the page
	// cache only.
	if err := e.writer.SyncFile(); err != nil {
		return fmt.Errorf("sync %s: %w", e.path, classify(err))
	}
	return safefile.SyncDir(filepath.Dir(e.path))
}

// openMark opens the mark and writes the current commit. A command locks the write ticket for this, so that it does not
// write the commit of a file that a restore has just replaced.
func (e *Engine) openMark(ctx context.Context) error {
	s, err := dbfile.ReadState(e.writer)
	if err != nil {
		return err
	}
	if e.mark, err = dbfile.OpenMark(e.path, s); err != nil {
		return err
	}
	if err := e.placeBeside(dbfile.MarkSuffix); err != nil {
		return err
	}
	if !e.server {
		if dbfile.Served(e.path) {
			return nil // the server writes it
		}
		if err := e.lockTicket(ctx); err != nil {
			return err
		}
		defer e.unlockTicket()
	}
	if err := e.mark.Write(s.Commits); err != nil {
		return err
	}
	return e.mark.Sync()
}

// Close copies the WAL into the file and closes it. If the engine is broken, Close leaves the files as they are, and
// the next process recovers them.
func (e *Engine) Close() error {
	e.writeMu.Lock()
	defer e.writeMu.Unlock()
	warn := func(err error) {
		e.log.Warn("could not checkpoint the WAL; nothing is lost, and the next start does it", "error", err)
	}
	e.checkpoints.stop()
	if last := e.checkpoints.pass; last != nil { // no batch has used its result
		if err := e.recordBroken(classify(last.err)); errors.Is(err, store.ErrBroken) {
			warn(err)
		}
	}
	if e.broken == nil {
		if err := e.recordBroken(e.checkKept(true)); err != nil { // SQLite could remove the WAL of another store
			e.log.Warn("the files of the store stay as they are", "error", err)
		}
	}
	if e.broken != nil && e.writer != nil {
		return nil
	}
	e.readMu.Lock()
	defer e.readMu.Unlock()
	if e.server {
		// Closing the connection does the same, but returns no error.
		if _, _, err := e.writer.Checkpoint(sqlite3.Truncate); err != nil && !sqlite3.IsBusy(err) {
			e.writer.KeepWAL(true)
			warn(err)
		}
	}
	return e.release()
}

// release closes all connections and files, and releases the locks last.
func (e *Engine) release() error {
	e.stmts.close()
	errs := []error{e.mark.Close()}
	for _, conn := range []*sqlite3.Conn{e.checkpoints.conn, e.reader, e.writer} {
		if conn != nil {
			errs = append(errs, conn.Close())
		}
	}
	if e.wal != nil {
		errs = append(errs, e.wal.Close())
	}
	errs = append(errs, e.ticket.Close())
	for _, lock := range []*os.File{e.serveLock, e.moveLock} {
		if lock != nil {
			errs = append(errs, lock.Close())
		}
	}
	return errors.Join(errs...)
}

// Durability implements writepath. SQLite syncs the WAL with every commit.
func (e *Engine) Durability() store.Durability {
	return store.Durability{Guarantee: "on stable storage of this machine"}
}

// Version returns the version of SQLite, as in 3.51.3.
func Version() string {
	v := sqlite3.Version()
	return fmt.Sprintf("%d.%d.%d", v/1_000_000, v/1000%1000, v%1000)
}
