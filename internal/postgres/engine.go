// Package postgres is the engine that keeps a store in PostgreSQL. Any number of servers, on any number of machines,
// can use one database at the same time. The engine uses only SQL that distributed databases with PostgreSQL's protocol
// accept.
//
// A transaction is durable when the server has answered its COMMIT, if the settings of the database are safe (see
// durability.go). Without that answer, the outcome is unknown. The engine then repeats the statement, which never
// stores a plant twice.
package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/audit"
	"plantstore/internal/store"
)

// Config is the input of Open and Migrate.
type Config struct {
	// URL is an address that ParseURL accepts. libpq's environment variables and files complete it.
	URL string

	MustExist bool         // do not create the tables
	ReadOnly  bool         // the caller changes nothing, so the store may have been moved
	Migrate   bool         // migrate an older schema to the newest one, instead of refusing it
	By        audit.Origin // recorded in the audit log with a migration
	Server    bool         // read the durability settings of the database every minute

	// RequireSyncStandby makes Insert return an error unless the database waits for a synchronous standby.
	RequireSyncStandby bool

	Log     *slog.Logger          // nil: no log
	Metrics prometheus.Registerer // nil: no metrics
	Traced  bool                  // add spans to those in the contexts of calls

	move  bool // the caller is OpenSource or OpenDestination
	check bool // the caller is Check
}

// Engine keeps a store in a PostgreSQL database. It implements writepath.Engine, admin.Engine and webhook.Outbox.
type Engine struct {
	store.Operations

	pool           *pgxpool.Pool
	db             querier // the pool for transactions of one statement
	log            *slog.Logger
	requireStandby bool
	urlPath        string // search_path of the URL; empty: the default of the session
	found          int    // the schema of the store before Open; 0: there was none

	stop     context.CancelFunc // ends watch; nil if it was not started
	watching sync.WaitGroup     // for watch

	estimated atomic.Int64 // the planner's estimate of the number of plants; -1: unknown

	webhooks webhookState

	citus     atomic.Bool  // the database has Citus
	copyPause atomic.Int64 // see createOnCitus

	namespaceMu sync.Mutex
	namespace   string // the PostgreSQL schema of the tables, empty before the first connection; guarded by namespaceMu
	// transactionSQL of the schema; guarded by namespaceMu
	transactionSQL string

	durability atomic.Pointer[store.Durability]
}

// CommitsMax is the number of concurrent Inserts above which throughput does not increase.
const CommitsMax = 3

// refusedAuth is part of the driver's error for an authentication method that require_auth does not allow. The error
// has no type, so a test checks the driver's text.
const refusedAuth = "require_auth check failed"

const (
	connectTime = 5 * time.Second // for one host, unless the URL sets connect_timeout
	connsMax    = 8               // unless the URL sets pool_max_conns
	pingTime    = 3 * time.Second // for the check of a connection that was idle for a second
)

// Open connects to a database. Unless c.MustExist is set, it creates the tables of a new store. Several processes may
// do so at the same time. The caller closes the engine.
//
// Open migrates a store of an older schema if c.Migrate is set, and refuses it otherwise.
func Open(ctx context.Context, c Config) (*Engine, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	u, err := ParseURL(c.URL)
	if err != nil {
		return nil, err
	}
	config, err := u.resolve()
	if err != nil {
		return nil, err
	}
	if exposed := exposure(remoteHosts(&config.ConnConfig.Config)); exposed != "" && c.Server {
		c.Log.Warn("the connection to the database is not protected: set sslmode=verify-full", "hosts", exposed)
	}
	e := &Engine{log: c.Log, requireStandby: c.RequireSyncStandby}
	e.Operations = e.operations()
	e.durability.Store(&store.Durability{})
	parameters := config.ConnConfig.RuntimeParams
	e.urlPath = parameters["search_path"]
	delete(parameters, "search_path") // a pooler would refuse it, or drop it without a word
	maps.Copy(parameters, startupSettings)
	if c.Traced {
		config.ConnConfig.Tracer = tracer{}
	}
	config.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		c.TypeMap().RegisterType(&pgtype.Type{
			Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
		})
		return e.prepareSession(ctx, c)
	}
	if e.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, err
	}
	e.db = single{e, e.pool}
	e.estimated.Store(-1)
	if err := e.start(ctx, c); err != nil {
		e.pool.Close()
		err = fmt.Errorf("open the database %s: %w", describe(config.ConnConfig), driverError{err})
		if strings.Contains(err.Error(), refusedAuth) {
			err = fmt.Errorf("%w; configure SCRAM authentication on the server, "+
				"or set require_auth in the URL to the methods that you allow", err)
		}
		if hasCode(err, codeDuplicateStatement) || hasCode(err, codeNoStatement) {
			err = fmt.Errorf("%w; behind a pooler in transaction mode, add default_query_exec_mode=exec to the URL", err)
		}
		return nil, err
	}
	if c.Metrics != nil {
		e.measure(c.Metrics)
	}
	return e, nil
}

// Check returns the error that Open would return for a server. It changes nothing.
func Check(ctx context.Context, c Config) error {
	c.Server, c.Migrate, c.check = true, true, true
	e, err := Open(ctx, c)
	if err != nil {
		return err
	}
	return e.Close()
}

// start checks the database, migrates the store, and starts watch.
func (e *Engine) start(ctx context.Context, c Config) error {
	if err := e.pool.Ping(ctx); err != nil { // the first connection finds the schema, which every transaction names
		return err
	}
	if c.Server { // before it creates tables
		if err := e.readSettings(ctx); err != nil {
			return err
		}
		if e.requireStandby && !e.Durability().Standby {
			return errNoStandby
		}
	}
	if err := e.migrate(ctx, c); err != nil {
		return err
	}
	if c.ReadOnly {
		return nil
	}
	if err := e.checkPrimaryKey(ctx); err != nil {
		return err
	}
	if !c.Server {
		return nil
	}
	if err := e.checkReplayRight(ctx); err != nil || c.check {
		return err
	}
	ctx, e.stop = context.WithCancel(context.WithoutCancel(ctx))
	e.watching.Go(func() { e.watch(ctx) }) // ends when Close is called, which waits for it
	return nil
}

// describe returns the database and its host, without user and password.
func describe(c *pgx.ConnConfig) string {
	return fmt.Sprintf("%s on %s port %d", c.Database, c.Host, c.Port)
}

// Close ends the engine. No other call may run during Close or after it.
func (e *Engine) Close() error {
	if e.stop != nil {
		e.stop()
	}
	e.watching.Wait()
	e.pool.Close()
	return nil
}
