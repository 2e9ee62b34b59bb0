package backup

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/sqlite"
	"plantstore/internal/sqlite/dbfile"
	"plantstore/internal/sqlite/journal"
)

// standbyConfig returns the configuration of a standby of the server with the store at a path.
func (r *copyRig) standbyConfig(db string) Config {
	c := r.config
	c.DB, c.Engine, c.Standby, c.Failover = db, nil, true, time.Hour
	return c
}

// openStandby returns an open standby.
func openStandby(ctx context.Context, c Config) (*Standby, error) {
	s, err := NewStandby(c, "")
	if err == nil {
		err = s.Open(ctx)
	}
	return s, err
}

// newStandbyRig returns a server with a backup and a later commit in its destination, and a store restored from them.
func newStandbyRig(t *testing.T) (r *copyRig, db string) {
	t.Helper()
	r = newCopyRig(t)
	r.backup()
	r.create(1)
	r.ship()
	db, _, err := r.restore(time.Time{})
	r.must(err)
	return r, db
}

// TestStandbyAfterGap opens a standby whose store is a backup after which a segment is missing: it is restored from a
// newer backup.
func TestStandbyAfterGap(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.create(1)
	r.ship()
	r.backup()
	db, _, err := r.restore(time.Time{})
	r.must(err)
	r.create(1)
	r.ship()
	lost := r.segments()
	r.must(os.Remove(filepath.Join(r.to, lost[len(lost)-1].name)))
	r.create(1)
	r.ship()
	r.acquire()
	r.must(r.makeScheduled(time.Now().Add(time.Second))) // no other one has its name
	s, err := openStandby(t.Context(), r.standbyConfig(db))
	r.must(err)
	if got, want := s.Status().Commits, r.newest().number; got != want {
		t.Errorf("the store has %d commits, want %d", got, want)
	}
	r.must(s.Close())
}

// TestStandbyWithoutFile removes the file of a standby: it gives the store up, and fences no owner before that.
func TestStandbyWithoutFile(t *testing.T) {
	t.Parallel()
	r, db := newStandbyRig(t)
	s, err := openStandby(t.Context(), r.standbyConfig(db))
	r.must(err)
	r.must(s.round(t.Context()))
	r.must(os.Remove(db))
	if _, err := s.takeOver(t.Context()); err == nil {
		t.Error("it takes over")
	}
	if got := r.contents().owner.Session; got != r.session {
		t.Error("it has fenced the owner")
	}
	if err := s.round(t.Context()); !errors.Is(err, errRestore) {
		t.Errorf("the round: %v, want %v", err, errRestore)
	}
	r.must(s.Close())
	s, err = openStandby(t.Context(), r.standbyConfig(db))
	r.must(err)
	r.must(s.round(t.Context()))
	r.must(s.Close())
}

// TestStandbyKeepsChanges opens a standby on a store with commits that the destination lacks, also through a link: the
// store is kept aside, and not while there is nothing to restore.
func TestStandbyKeepsChanges(t *testing.T) {
	t.Parallel()
	changed := func(r *copyRig, db string) {
		engine, err := sqlite.Open(t.Context(), sqlite.Config{Path: db, MustExist: true})
		r.must(err)
		r.must(engine.AppendAudit(t.Context(), audit.Event{Time: time.Now(), Action: audit.StoreRestore}))
		r.must(engine.Close())
	}
	for name, test := range map[string]struct {
		change func(r *copyRig, db string)
		stays  bool
	}{
		"a command has changed it": {change: changed},
		"somebody has removed commits": {change: func(r *copyRig, _ string) {
			all := r.segments()
			r.must(os.Remove(filepath.Join(r.to, all[len(all)-1].name)))
		}},
		"two servers have gone on": {stays: true, change: func(r *copyRig, db string) {
			changed(r, db)
			all := r.segments()
			other := all[len(all)-1].Segment
			other.Timeline = newID()
			r.must(os.WriteFile(filepath.Join(r.to, other.Name(r.names.segmentPrefix())), nil, 0o600))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, db := newStandbyRig(t)
			link := filepath.Join(t.TempDir(), filepath.Base(db))
			r.must(os.Symlink(db, link))
			c := r.standbyConfig(link)
			s, err := openStandby(t.Context(), c)
			r.must(err)
			r.create(1)
			r.ship()
			r.must(s.round(t.Context()))
			r.must(s.Close())
			test.change(r, db)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c.Log = slog.New(slog.NewTextHandler(lineFunc(func(line string) {
				if t.Log(line); strings.Contains(line, "trying again") {
					cancel()
				}
			}), nil))
			s, err = openStandby(ctx, c)
			kept, _ := filepath.Glob(db + "-set-aside-*")
			if test.stays {
				if err == nil || len(kept) > 0 || !fileExists(t, db) {
					t.Errorf("got %v, kept %v, want the store at its place", err, kept)
				}
				return
			}
			r.must(err)
			if got, want := s.Status().Commits, r.contents().lastOf(r.ownTimeline()); got != want {
				t.Errorf("the store has %d commits, want %d", got, want)
			}
			r.must(s.Close())
			if len(kept) != 1 {
				t.Errorf("kept %v, want one file", kept)
			}
		})
	}
}

// TestStandbyWithoutOwner removes the owner, and its server does not store it again: the standby says so, and takes
// over as from an owner that does not renew its ownership.
func TestStandbyWithoutOwner(t *testing.T) {
	t.Parallel()
	r, db := newStandbyRig(t)
	c := r.standbyConfig(db)
	o := r.contents().owner
	o.Failover = c.Failover
	r.must(putObject(t.Context(), r.Service.to, r.names.ownerName(), o))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c.Log = slog.New(slog.NewTextHandler(lineFunc(func(line string) {
		if t.Log(line); strings.Contains(line, errUnowned.Error()) {
			cancel()
		}
	}), nil))
	s, err := openStandby(t.Context(), c)
	r.must(err)
	r.must(s.round(t.Context()))
	r.must(os.Remove(filepath.Join(r.to, r.names.ownerName())))
	s.run(ctx)
	if err := s.Status(); !errors.Is(err.Fault, errUnowned) || strings.Contains(err.Error(), "server on ,") {
		t.Errorf("the status is %v", err)
	}
	s.renewed = time.Now().Add(-c.Failover)
	if !s.due(false) {
		t.Error("no server takes over")
	}
	_, err = s.takeOver(t.Context())
	r.must(err)
	r.must(s.Close())
}

// TestStandbyLeavesTime lets a take-over fail: the standby repeats it at once, but not without end.
func TestStandbyLeavesTime(t *testing.T) {
	t.Parallel()
	r, db := newStandbyRig(t)
	s, err := openStandby(t.Context(), r.standbyConfig(db))
	r.must(err)
	r.must(s.round(t.Context()))
	s.renewed = time.Now()
	for range attemptsMax {
		_, err = s.takeOver(t.Context())
		r.must(err)
		r.must(s.round(t.Context()))
		s.renewed = time.Now()
	}
	if s.due(false) {
		t.Error("it takes over again, and no other one can")
	}
	r.must(s.Close())
}

// TestStandbySlowDestination lets the rounds of a standby take some seconds: it takes over nevertheless. After a fault
// of the destination, the owner has its whole time again.
func TestStandbySlowDestination(t *testing.T) {
	t.Parallel()
	r, db := newStandbyRig(t)
	c := r.standbyConfig(db)
	s, err := openStandby(t.Context(), c)
	r.must(err)
	r.must(s.round(t.Context()))
	seen := time.Now().Add(-c.Failover)
	s.renewed, s.read = seen, time.Now().Add(-c.Failover/2)
	r.must(s.round(t.Context()))
	if !s.renewed.Equal(seen) {
		t.Error("a slow round counts as a sign of the owner")
	}
	r.must(os.Rename(r.to, r.to+"-away"))
	if err := s.round(t.Context()); err == nil {
		t.Error("the destination is away, and the round succeeds")
	}
	r.must(os.Rename(r.to+"-away", r.to))
	r.must(s.round(t.Context()))
	if s.renewed.Equal(seen) {
		t.Error("the owner has no time to come back")
	}
	r.must(s.Close())
}

// TestStandbyWithUnknownHistory opens a standby whose owner makes backups without the copy of commits: it pauses
// between restores.
func TestStandbyWithUnknownHistory(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.create(1)
	r.ship()
	r.backup()
	for _, s := range r.segments() {
		r.must(os.Remove(filepath.Join(r.to, s.name)))
	}
	manifest := filepath.Join(r.to, r.contents().bases[0].Name+".json")
	text, err := os.ReadFile(manifest)
	r.must(err)
	text = regexp.MustCompile(`"history": *"[0-9a-f]+",?`).ReplaceAll(text, nil)
	r.must(os.WriteFile(manifest, text, 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c, restores := r.standbyConfig(filepath.Join(t.TempDir(), filepath.Base(r.config.DB))), 0
	c.Log = slog.New(slog.NewTextHandler(lineFunc(func(line string) {
		t.Log(line)
		if strings.Contains(line, "restoring the store") {
			restores++
		}
		if restores > 3 || strings.Contains(line, "trying again") {
			cancel()
		}
	}), nil))
	s, err := NewStandby(c, "")
	r.must(err)
	if err := s.Open(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	r.must(s.Close())
	if restores != 3 { // of a file that is missing, of one that does not fit, and of that again
		t.Errorf("%d restores before the first pause, want 3", restores)
	}
}

// lineFunc is called with each line of a log.
type lineFunc func(line string)

// Write implements io.Writer.
func (f lineFunc) Write(p []byte) (int, error) {
	f(string(p))
	return len(p), nil
}

// readOnly is a destination whose keys may only read.
type readOnly struct {
	destination

	onPut func()
}

var errReadOnly = errors.New("the keys may only read")

func (d *readOnly) put(context.Context, string, []byte) error {
	d.onPut()
	return errReadOnly
}

func (d *readOnly) putOnce(ctx context.Context, name string, content []byte) error {
	return d.put(ctx, name, content)
}

// TestStandbyThatMayOnlyRead lets a standby fail to take over again and again: it says so once, and fences no owner.
func TestStandbyThatMayOnlyRead(t *testing.T) {
	t.Parallel()
	r, db := newStandbyRig(t)
	r.must(putObject(t.Context(), r.Service.to, r.names.renewalName(), renewal{Session: r.session, Released: true}))
	lines := ""
	c := r.standbyConfig(db)
	c.Log = slog.New(slog.NewTextHandler(lineFunc(func(line string) { lines += line }), nil))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	attempts := 0
	s := newStandby(c, &readOnly{r.Service.to, func() {
		if attempts++; attempts == ownerPuts+1 {
			cancel()
		}
	}}, "")
	r.must(s.bring(t.Context()))
	s.run(ctx)
	for _, text := range []string{"taking over from", "could not take over"} {
		if n := strings.Count(lines, text); n != 1 {
			t.Errorf("%d lines with %q, want 1", n, text)
		}
	}
	if err := s.Status().Fault; !errors.Is(err, errReadOnly) {
		t.Errorf("the fault of the standby is %v", err)
	}
	if got := r.contents().owner.Session; got != r.session {
		t.Error("it has fenced the owner")
	}
	r.must(s.Close())
}

// TestStandbyAnnounced starts a standby whose keys may only read: it says so before it has to take over. One whose keys
// may write leaves an object.
func TestStandbyAnnounced(t *testing.T) {
	t.Parallel()
	r, db := newStandbyRig(t)
	lines := make(chan string, 1)
	c := r.standbyConfig(db)
	c.Log = slog.New(slog.NewTextHandler(lineFunc(func(line string) { lines <- line }), nil))
	s := newStandby(c, &readOnly{r.Service.to, func() {}}, "")
	r.must(s.bring(t.Context()))
	s.Start()
	if line := <-lines; !strings.Contains(line, "so it could not take over") {
		t.Errorf("got the line %s", line)
	}
	r.must(s.Close())
	s = newStandby(c, r.Service.to, "")
	r.must(s.bring(t.Context()))
	s.announce(t.Context())
	r.must(s.live.Close())
	if !fileExists(t, filepath.Join(r.to, r.names.standbyName())) {
		t.Error("the standby has stored no object")
	}
}

// TestStandbyAsksAgain promotes a standby while it cannot write: it asks the owner when it can.
func TestStandbyAsksAgain(t *testing.T) {
	t.Parallel()
	r, db := newStandbyRig(t)
	s, err := openStandby(t.Context(), r.standbyConfig(db))
	r.must(err)
	r.must(s.round(t.Context()))
	command, err := dbfile.RequestPromotion(db)
	r.must(err)
	defer command.Close()
	s.service.to = &readOnly{r.Service.to, func() {}}
	if _, err := s.wantsPromotion(t.Context()); !errors.Is(err, errReadOnly) {
		t.Errorf("got %v, want %v", err, errReadOnly)
	}
	s.service.to = r.Service.to
	if _, err := s.wantsPromotion(t.Context()); err != nil {
		t.Error(err)
	}
	var got request
	r.must(readObject(t.Context(), r.Service.to, r.names.requestName(), &got))
	if got.Session != r.session {
		t.Errorf("it asks %q, want %q", got.Session, r.session)
	}
	r.must(s.Close())
}

// TestStandbyOfOtherName opens a standby whose file has another name than the owner's: it restores nothing.
func TestStandbyOfOtherName(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	c := r.standbyConfig(filepath.Join(t.TempDir(), "other.db"))
	err := newStandby(c, r.Service.to, "").bring(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no backup of a store with the file name other.db") {
		t.Error(err)
	}
	if fileExists(t, c.DB) {
		t.Error("it restores the store of another name")
	}
}

// TestStandbyWithOtherClock opens a standby whose clock is two hours behind the owner's.
func TestStandbyWithOtherClock(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.acquire()
	r.must(r.makeScheduled(time.Now().Add(2 * time.Hour)))
	r.create(1)
	r.ship()
	c := r.standbyConfig(filepath.Join(t.TempDir(), filepath.Base(r.config.DB)))
	s := newStandby(c, r.Service.to, "")
	r.must(s.bring(t.Context()))
	r.must(s.Close())
}

// TestStandbyAtDamage lets a standby meet a damaged segment: it names the segment, and goes on with a newer backup.
// It does so even if it is opened again in between.
func TestStandbyAtDamage(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(content []byte) []byte{
		"flipped bit": func(content []byte) []byte { content[len(content)/2] ^= 1; return content },
		"truncated":   func(content []byte) []byte { return content[:len(content)/2] },
		"empty":       func([]byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, db := newStandbyRig(t)
			s, err := openStandby(t.Context(), r.standbyConfig(db))
			r.must(err)
			r.create(1)
			r.ship()
			all := r.segments()
			file := filepath.Join(r.to, all[len(all)-1].name)
			content, err := os.ReadFile(file)
			r.must(err)
			r.must(os.WriteFile(file, damage(content), 0o600))
			r.create(1)
			r.ship()
			for range 2 {
				err := s.round(t.Context())
				if !errors.Is(err, journal.ErrDamaged) || errors.Is(err, errRestore) {
					t.Fatal(err)
				}
				for _, text := range []string{file, "POST /api/v1/backups"} {
					if !strings.Contains(err.Error(), text) {
						t.Errorf("%q lacks %q", err, text)
					}
				}
				r.must(s.Close())
				s, err = openStandby(t.Context(), r.standbyConfig(db))
				r.must(err)
			}
			r.next()
			r.backup()
			r.create(1)
			r.ship()
			if err := s.round(t.Context()); !errors.Is(err, errRestore) || !strings.Contains(err.Error(), file) {
				t.Errorf("the round: %v, want %v because of %s", err, errRestore, file)
			}
			r.must(s.Close())
			s, err = openStandby(t.Context(), r.standbyConfig(db))
			r.must(err)
			if got, want := s.Status().Commits, r.contents().lastOf(r.ownTimeline()); got != want {
				t.Errorf("the store has %d commits, want %d", got, want)
			}
			r.must(s.round(t.Context()))
			r.must(s.Close())
			if kept, _ := filepath.Glob(db + "-set-aside-*"); len(kept) > 0 {
				t.Errorf("kept %v, want no file", kept)
			}
		})
	}
}

// TestStandbyWithLateClock lets a standby whose clock is an hour late restore the store and take over: it needs no
// backup before it acknowledges plants.
func TestStandbyWithLateClock(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.acquire()
	r.must(r.makeScheduled(time.Now().Add(time.Hour)))
	r.create(1)
	r.ship()
	db := filepath.Join(t.TempDir(), filepath.Base(r.config.DB))
	s := newStandby(r.standbyConfig(db), r.Service.to, "")
	r.must(s.bring(t.Context()))
	r.must(s.round(t.Context()))
	var err error
	s.won, err = s.takeOver(t.Context())
	r.must(err)
	r.must(s.Close())
	next := &copyRig{t: t, to: r.to, random: r.random, caughtUp: s.won}
	next.serve(db)
	next.must(next.Claim(t.Context()))
	next.create(1)
	next.ship()
	if next.copier.needsBackup {
		t.Error("it needs a backup of its own")
	}
	next.must(next.engine.Close())
}
