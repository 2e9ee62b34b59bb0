// Package backup makes the backups of the store of a server, on a schedule and on demand, and lists, checks, returns
// and removes them.
package backup

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/audit"
	"plantstore/internal/s3"
	"plantstore/internal/safefile"
	"plantstore/internal/sqlite"
	"plantstore/internal/sqlite/backupfile"
	"plantstore/internal/sqlite/dbfile"
)

// The errors of the operations. All others come from the destination.
var (
	ErrNotFound = errors.New("no backup has this name")
	ErrNoJob    = errors.New("no job has this id")
	ErrRunning  = errors.New("another one runs; try again when it has ended")
	ErrClosed   = errors.New("the server is shutting down")
)

// Config configures a Service.
type Config struct {
	DB          string         // path of the store, which the process serves
	Destination string         // a directory, or s3://BUCKET/PREFIX
	S3          s3.Config      // server of the bucket
	Scratch     string         // directory for temporary copies and drills; needs the size of the store
	Every       time.Duration  // between two scheduled backups
	Keep        int            // number of scheduled backups to keep
	Engine      *sqlite.Engine // the store's; unused if Lag is 0
	Sync        bool           // Sync is used; needs Lag
	Lag         time.Duration  // time within which the destination gets each commit; 0: only backups are made

	TakeOver       []string // timelines of other servers that this one may take over
	RestoreMissing bool     // a store that was just restored may take over any
	CaughtUp       string   // result of CatchUp for this store, or of a Standby

	Standby  bool          // follow the owner, and wait for one
	Failover time.Duration // a standby takes over from an owner that has not renewed its ownership for it; 0: it does not

	By      audit.Origin      // for entries about scheduled backups in the audit log
	Record  func(audit.Event) // appends to the audit log
	Log     *slog.Logger
	Metrics prometheus.Registerer
}

// Service makes the backups of one store and works on them. It runs at most one backup, and at most one verification or
// drill, at a time. The methods are safe for concurrent use.
type Service struct {
	config  Config
	to      destination
	names   series
	path    string // path of the store, without links
	session string // identifies this process as the owner of the destination
	host    string
	scratch string // directory of a drill
	dry     bool   // claim changes nothing

	ctx     context.Context //nolint:containedctx // for the jobs, which outlive the requests that start them
	cancel  context.CancelFunc
	running sync.WaitGroup // the schedule and the jobs

	making   chan struct{} // holds an element while a backup runs
	checking chan struct{} // holds an element while a verification or a drill runs

	mu            sync.Mutex // guards the fields below
	closed        bool
	lastManual    time.Time // time in the name of the newest manual backup of this process
	jobs          []*Job    // oldest first; at most jobsMax
	nextJob       int64
	next          time.Time       // when the next scheduled backup is due
	scheduleFault error           // why the last scheduled backup failed; nil: it did not
	needed        int64           // number after the last commit that no segment leads to
	made          int64           // number after the last commit of the backups that this process made
	reserved      map[string]bool // names of the backups that reserve has reserved
	listed        map[string]bool // names of the last list that no removal by this server concerns
	changes       int64           // how often listed has changed
	merging       merging
	refusedAt     time.Time // when the keys could last not remove a backup; zero: they may, as far as it is known

	claiming chan struct{} // holds an element while ensureOwner runs
	own      *ownership    // nil: none yet; guarded by mu
	former   *ownership    // what this server owned as far as it knows, if own is nil; guarded by mu
	fault    error         // why this server is not the owner any more; guarded by mu
	fencing  chan struct{} // closed when fault is set

	renewed   atomic.Pointer[time.Time] // when the last successful renewal began; nil: none has
	requested chan struct{}             // closed when a standby has asked for the destination
	asked     bool                      // requested is closed; used by renew

	endRenewal context.CancelFunc // ends renew; nil: it does not run
	renewing   sync.WaitGroup     // renew
	released   bool               // used by Close, and after it

	archive *Archive
	recent  recent
	copier  *copier       // nil: only backups are made
	wake    chan struct{} // holds a value when needed was set

	uploadsRefused bool // the keys may not abort uploads; used by the holder of making

	ignored map[string]bool // files with a logged warning, at most ignoredMax; used by the schedule only

	last             prometheus.Gauge // start of the newest scheduled backup
	notRemoved       prometheus.Counter
	failed, vanished atomic.Int64 // which Numbers returns too
}

// New returns a service for a destination. Start starts its schedule; the caller ends it with Close. New reads the
// identity of the store, and uses neither the directory nor the network.
func New(c Config) (*Service, error) {
	s, err := newService(c)
	if err != nil {
		return nil, err
	}
	if c.Lag > 0 {
		if _, _, err := c.Engine.StartJournal(s.ctx); err != nil { // before the first backup
			return nil, err
		}
		if s.copier, err = newCopier(s, c.Metrics); err != nil {
			return nil, err
		}
	}
	s.measure(c.Metrics)
	return s, nil
}

func newService(c Config) (*Service, error) {
	to, err := newDestination(c)
	if err != nil {
		return nil, err
	}
	return newServiceOf(c, to)
}

func newServiceOf(c Config, to destination) (*Service, error) {
	store, err := backupfile.StoreAt(context.Background(), c.DB)
	if err != nil {
		return nil, err
	}
	db, err := filepath.Abs(c.DB)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(db)) // servers of several stores may share c.Scratch
	s := &Service{
		config: c, to: to, names: seriesOf(c.DB), path: dbfile.RealPath(c.DB),
		session: newID(), host: hostname(),
		claiming: make(chan struct{}, 1), fencing: make(chan struct{}), requested: make(chan struct{}),
		archive: newArchive(to, seriesOf(c.DB), store),
		scratch: filepath.Join(c.Scratch, fmt.Sprintf(".plantstore-scratch-%x", sum[:8])),
		ignored: map[string]bool{}, reserved: map[string]bool{}, nextJob: 1,
		making: make(chan struct{}, 1), checking: make(chan struct{}, 1), wake: make(chan struct{}, 1),
		last: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "plantstore_backup_last_success_timestamp_seconds",
			Help: "Time of the newest scheduled backup, also of one before the start of the server; 0 without one.",
		}),
		notRemoved: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plantstore_backups_not_removed_total",
			Help: "Attempts to remove old backups or merged segments that failed.",
		}),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// Start starts the schedule and the copy of the commits. A backup is due at once if the destination has none.
func (s *Service) Start() {
	s.running.Go(s.schedule)
	if s.copier != nil {
		s.running.Go(s.copier.run)
		s.running.Go(s.mergeSegments)
	}
	if s.config.Failover > 0 {
		ctx, cancel := context.WithCancel(context.Background())
		s.endRenewal = cancel
		s.renewing.Go(func() { s.renew(ctx) })
	}
}

// Close ends the schedule and the jobs, and waits for them. A backup that it ends leaves no file. With Config.Failover
// it releases the destination for a standby.
func (s *Service) Close() {
	s.mu.Lock()
	s.closed = true // no job starts after this
	s.mu.Unlock()
	s.cancel()
	s.running.Wait()
	if s.endRenewal != nil { // only now: a standby must wait until the last commits are copied
		s.endRenewal()
		s.renewing.Wait()
	}
	s.release()
}

// Backup is a backup of the store, or a file whose name looks like one.
type Backup struct {
	Name     string
	At       time.Time // start of the backup, from its name; to the second
	Manual   bool      // made on demand, so no retention applies to it
	Location string    // path or URL
	Bytes    int64     // size of the file

	Manifest backupfile.Manifest // the zero value if it could not be read
	Fault    error               // why this is not a complete backup of the store; nil if it is one
}

// List returns the backups of the store in the destination, newest first, and the files with the name of one, such as
// incomplete backups. It compares their sizes with their manifests; Verify compares the contents.
func (s *Service) List(ctx context.Context) ([]Backup, error) {
	files, err := s.files(ctx)
	if err != nil {
		return nil, err
	}
	all := []Backup{}
	for _, b := range files {
		s.archive.inspect(ctx, &b)
		if !errors.Is(b.Fault, fs.ErrNotExist) { // else it was removed since the list
			all = append(all, b)
		}
	}
	return all, ctx.Err() // which is the fault of backups whose manifests were not read
}

// Newest returns the newest complete backup of the store, and ErrNotFound without one. It returns any other error if it
// could not read whether a newer one is complete.
func (s *Service) Newest(ctx context.Context) (Backup, error) {
	files, err := s.files(ctx)
	if err != nil {
		return Backup{}, err
	}
	for _, b := range files {
		s.archive.inspect(ctx, &b)
		var manifest backupfile.ManifestError
		switch {
		case b.Fault == nil:
			return b, ctx.Err()
		case errors.As(b.Fault, &manifest), errors.Is(b.Fault, safefile.ErrNotRegular), errors.Is(b.Fault, fs.ErrNotExist),
			errors.Is(b.Fault, errOtherStore), errors.Is(b.Fault, errFuture):
		default:
			return Backup{}, b.Fault
		}
	}
	return Backup{}, ErrNotFound
}

// files returns the files of the destination with the name of a backup, newest first, without their manifests. It
// reports backups of the last list that have vanished.
func (s *Service) files(ctx context.Context) (all []Backup, err error) {
	s.mu.Lock()
	changes := s.changes
	s.mu.Unlock()
	kept := s.archive.kept(s.config.Keep)
	if all, err = s.archive.files(ctx); err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for i, b := range all {
		names[b.Name] = true
		all[i].Fault = cmp.Or(b.Fault, checkTime(b))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if changes != s.changes { // what is missing may be removed by this server, or newer than the list
		return all, nil
	}
	for name := range s.listed {
		if kept[name] && !names[name] {
			s.vanished.Add(1)
			s.config.Log.Warn("a backup has vanished: nobody has removed it through this server", "file", s.to.location(name))
		}
	}
	s.listed = names
	s.changes++
	return all, nil
}

// Find returns the complete backup with a name. The error wraps ErrNotFound if the destination has no such file.
func (s *Service) Find(ctx context.Context, name string) (b Backup, err error) {
	b, ok := s.names.named(name)
	if !ok {
		return b, ErrNotFound
	}
	f, err := find(ctx, s.to, name)
	if err == nil {
		b.Location, b.Bytes = s.to.location(name), f.bytes
		err = checkTime(b)
	}
	if err == nil {
		b.Manifest, err = readManifest(ctx, s.to, f) // not a known one, which may be damaged since
	}
	if err == nil && b.Manifest.Store != s.archive.store {
		err = errOtherStore
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrNotFound
	}
	return b, err
}

// Open opens a complete backup for reading, and records the download in the audit log. The caller closes the reader,
// which returns Backup.Bytes bytes. The error wraps ErrNotFound if there is no such backup.
func (s *Service) Open(ctx context.Context, name string, by audit.Origin) (Backup, io.ReadCloser, error) {
	b, err := s.Find(ctx, name)
	if err != nil {
		return b, nil, err
	}
	r, err := s.to.open(ctx, name)
	if err != nil {
		return b, nil, err
	}
	s.record(audit.BackupDownload, by, s.details(name, b.Manifest)...)
	return b, r, nil
}

// Delete removes a backup of the store, complete or not, with its manifest. It refuses a backup of another store, and
// with ErrRunning a backup that a job uses. The error wraps ErrNotFound if there is no such backup.
func (s *Service) Delete(ctx context.Context, name string, by audit.Origin) error {
	release, err := s.reserve(name)
	if err != nil {
		return err
	}
	defer release()
	b, err := s.Find(ctx, name)
	if errors.Is(err, ErrNotFound) || errors.Is(err, errOtherStore) {
		return err
	}
	if err = removeBackup(ctx, s.to, name); err == nil {
		s.record(audit.BackupDelete, by, s.details(name, b.Manifest)...)
	}
	return err
}

// The faults of files that are not backups of the store.
var (
	errOtherStore = errors.New("it is a backup of another store; use a --backup-dir for each store")
	errFuture     = errors.New("its name has a time in the future")
)

// clockSkew is how far the clock may have been set back without notice.
const clockSkew = time.Minute

// checkTime returns an error if the time in the name of a backup is in the future.
func checkTime(b Backup) error {
	if time.Until(b.At) > clockSkew {
		return errFuture
	}
	return nil
}

// record appends an event to the audit log.
func (s *Service) record(action audit.Action, by audit.Origin, details ...audit.Detail) {
	s.config.Record(audit.Event{Time: time.Now(), Action: action, Origin: by, Details: details})
}

// details returns the details of a backup for the audit log.
func (s *Service) details(name string, m backupfile.Manifest) []audit.Detail {
	return []audit.Detail{
		s.fileDetail(name),
		{Key: "plants", Value: strconv.FormatInt(m.Plants, 10)},
		{Key: "commits", Value: strconv.FormatInt(m.Commits, 10)},
		{Key: "sha256", Value: m.SHA256},
	}
}

// fileDetail returns the detail of the location of a backup.
func (s *Service) fileDetail(name string) audit.Detail {
	file := s.to.location(name)
	if absolute, err := filepath.Abs(file); err == nil && !IsBucket(file) {
		file = absolute
	}
	return audit.Detail{Key: "file", Value: file}
}
