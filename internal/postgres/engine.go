// Package postgres is the engine that keeps a store in PostgreSQL, for more than
// one server: any number of them, on any number of machines, use one database at
// the same time. It keeps to the SQL that distributed databases which speak
// PostgreSQL's protocol accept.
//
// A transaction is durable when its COMMIT was answered, if the database is set
// up to keep its word; see durability.go. Whenever that answer is missing, the
// outcome is unknown, and the engine finds it out by doing the same again,
// which never stores anything twice.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/store"
)

// Config tells which database to use, and how.
type Config struct {
	// URL is an address that ParseURL accepts; what it leaves out comes from
	// libpq's environment variables and files.
	URL string

	MustExist bool // do not make the tables
	ReadOnly  bool // only Get, List and Tokens are called; implies MustExist
	Migrate   bool // bring a store of an older schema to the newest one; a new store always has that
	Server    bool // look from time to time at what the database's acknowledgements are worth

	// RequireSyncStandby acknowledges nothing unless the database waits for a
	// synchronous standby.
	RequireSyncStandby bool

	Log *slog.Logger

	Metrics prometheus.Registerer // where the engine registers its metrics; nil: nowhere
}

// Engine implements store.Engine, move.Source and move.Destination on a PostgreSQL database.
type Engine struct {
	pool           *pgxpool.Pool
	log            *slog.Logger
	requireStandby bool
	schema         int // the version of the store's; the newest unless the engine only reads

	stop    context.CancelFunc // ends watch
	watched chan struct{}      // closed when watch has ended; nil if it was not begun

	estimated atomic.Int64 // how many plants the planner expects, as last looked at; -1: unknown

	pinning   sync.Mutex
	namespace string // the PostgreSQL schema of the tables, empty until the first connection has found it; guarded by pinning

	mu           sync.Mutex
	worth        store.Durability // guarded by mu
	ownMoveState string           // what this engine held the store with, so that it may write itself; guarded by mu
}

// CommitsMax is how many batches are worth inserting at the same time.
const CommitsMax = 3

// refusedAuth is in the driver's error for a server that asks for the password
// in a way that require_auth does not allow; there is no type for it. A test
// pins it to the driver that the program is built with.
const refusedAuth = "require_auth check failed"

const (
	connectTime = 5 * time.Second // for one host, unless the URL says otherwise
	connsMax    = 8               // unless the URL says otherwise
	pingTime    = 3 * time.Second // for a connection that was not used for a second to show that it is alive
)

// Open connects to a database, and makes the tables of a store if there are none
// and they may be made. Several may do so at once. The caller closes the engine.
//
// The schema of a store that exists is changed only if c.Migrate is set. Without
// it, Open refuses a store of an older schema, or reads it if c.ReadOnly is set.
func Open(ctx context.Context, c Config) (*Engine, error) {
	c.MustExist = c.MustExist || c.ReadOnly
	u, err := ParseURL(c.URL)
	if err != nil {
		return nil, err
	}
	config, err := u.resolve()
	if err != nil {
		return nil, err
	}
	if exposed := exposure(hostsOf(&config.ConnConfig.Config)); exposed != "" && c.Server {
		c.Log.Warn("the connection to the database is not protected: set sslmode=verify-full", "hosts", exposed)
	}
	e := &Engine{log: c.Log, requireStandby: c.RequireSyncStandby}
	config.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		return errors.Join(commitDurably(ctx, c), e.pin(ctx, c))
	}
	if e.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, err
	}
	e.estimated.Store(-1)
	if err := e.begin(ctx, c); err != nil {
		e.pool.Close()
		err = fmt.Errorf("open the database %s: %w", place(config.ConnConfig), driverError{err})
		if strings.Contains(err.Error(), refusedAuth) {
			err = fmt.Errorf("%w; let the server ask for the password by SCRAM, or set require_auth in the URL to what it may ask for", err)
		}
		return nil, err
	}
	if c.Metrics != nil {
		e.measure(c.Metrics)
	}
	return e, nil
}

func (e *Engine) begin(ctx context.Context, c Config) error {
	if c.Server { // before it creates tables
		if err := e.look(ctx); err != nil {
			return err
		}
		if e.requireStandby && !e.worth.Standby {
			return errNoStandby
		}
	}
	if err := e.migrate(ctx, c); err != nil {
		return err
	}
	if c.Server || c.Migrate {
		if err := e.replaceOlder(ctx); err != nil {
			return err
		}
	}
	if !c.Server {
		return nil
	}
	if err := e.checkReplay(ctx); err != nil {
		return err
	}
	ctx, e.stop = context.WithCancel(context.WithoutCancel(ctx))
	e.watched = make(chan struct{})
	go e.watch(ctx) // ends when Close is called, which waits for it
	return nil
}

// place names a database without its user and password.
func place(c *pgx.ConnConfig) string {
	return fmt.Sprintf("%s on %s port %d", c.Database, c.Host, c.Port)
}

// commitDurably sees to it that a COMMIT of a connection is answered when it is
// on stable storage, and on that of a synchronous standby if there is one,
// whatever the database has for others
// (https://www.postgresql.org/docs/current/runtime-config-wal.html#GUC-SYNCHRONOUS-COMMIT).
func commitDurably(ctx context.Context, c *pgx.Conn) error {
	var level string
	if err := c.QueryRow(ctx, "SHOW synchronous_commit").Scan(&level); err != nil {
		return err
	}
	_ = warning(c) // what comes with a connection, as of an old collation, is about no transaction
	if level == "on" || level == "remote_apply" {
		return nil
	}
	_, err := c.Exec(ctx, "SET synchronous_commit = 'on'")
	return err
}

// warned is the key of a connection's own data under which its last warning is.
const warned = "plantstore.warned"

// noteWarning keeps a warning for who waits for an answer on that connection.
// One that comes with a COMMIT says that the wait for a synchronous standby was
// cancelled: the COMMIT is answered all the same, but is on one machine only.
func noteWarning(c *pgconn.PgConn, n *pgconn.Notice) {
	if n.SeverityUnlocalized == "WARNING" {
		c.CustomData()[warned] = n.Message
	}
}

// errWarned means that a transaction was answered with a warning, so that what
// its answer is worth is unknown.
var errWarned = errors.New("the database answered a transaction with a warning")

// warning returns an error if the connection has received a warning since the
// last call.
func warning(c *pgx.Conn) error {
	data := c.PgConn().CustomData()
	message, ok := data[warned].(string)
	delete(data, warned)
	if !ok {
		return nil
	}
	return fmt.Errorf("%w: %s", errWarned, message)
}

// Close implements store.Engine.
func (e *Engine) Close() error {
	if e.watched != nil {
		e.stop()
		<-e.watched
	}
	e.pool.Close()
	return nil
}
