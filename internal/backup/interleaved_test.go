package backup

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/audit"
	"plantstore/internal/plant"
	"plantstore/internal/sqlite"
	"plantstore/internal/sqlite/backupfile"
	"plantstore/internal/sqlite/dbfile"
	"plantstore/internal/sqlite/journal"
	"plantstore/internal/store"
)

// server is a server of a schedule.
type server struct {
	*Service

	name   string
	w      *world
	db     string
	engine *sqlite.Engine

	caughtUp string // Config.CaughtUp
	commits  int64
	history  journal.History
	plants   []string // that are not acknowledged
	created  int

	phase   string
	dead    bool
	changed bool // by the last operation
	calls   chan *call
	ended   chan struct{}
	pending *call
	seen    uint64 // what the server has seen

	ids int

	owns   bool   // Claim has returned
	former string // session that the server has released

	standby *Standby // that follows an owner
	synced  int64    // bytes of the standby's WAL that are on stable storage
	disk    string   // the store after a power cut; empty: there was none
	alone   bool     // no other server runs any more, so the operations do not wait
	allowed bool     // the operator starts the server with --take-over
	watches bool     // a standby without --failover

	// For the controls: the owner as the server has stored it, as it was before the last segment was stored, whether the
	// server has begun a timeline, and its lists before it has stored the owner.
	ownerPut, ownerSeen []byte
	began               bool
	lists               map[string][]file
	claiming            bool
}

// call is an operation that waits.
type call struct {
	name    string
	changes bool
	put     *late // nil: it is not a put
	once    bool  // the put is not repeated
	pause   bool  // the switch to another server is no preemption
	last    bool  // it waits for the ends of the other servers
	choice  bool  // whether time passes
	passed  bool
	do      func() (string, error)
	result  string
	err     error
	done    chan struct{}
}

// next waits for the next operation of the server, or its end.
func (s *server) next() {
	s.pending = nil
	select {
	case s.pending = <-s.calls:
	case <-s.ended:
	}
}

func (s *server) goOn() {
	close(s.pending.done)
	s.next()
}

// note adds to what the server has seen.
func (s *server) note(text ...string) {
	h := fnv.New64a()
	fmt.Fprint(h, s.seen, text)
	s.seen = h.Sum64()
}

// open opens the store of the server.
func (s *server) open() {
	var err error
	log := slog.New(slog.DiscardHandler)
	s.engine, err = sqlite.Open(context.Background(), sqlite.Config{
		Path: s.db, Server: true, MayWrite: s.mayWrite, Log: log,
	})
	s.w.must(err)
	s.Service, err = New(s.configuration())
	s.w.must(err)
	s.connect()
}

func (s *server) configuration() Config {
	c := Config{
		DB: s.db, Destination: s.w.dir, Scratch: s.w.dir, Every: time.Hour, Keep: 1,
		Engine: s.engine, Lag: time.Second, Sync: true, CaughtUp: s.caughtUp, Failover: s.w.scenario.failover,
		Record: func(audit.Event) {}, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
	}
	switch {
	case c.Failover == 0:
		c.TakeOver = []string{s.w.timeline}
	case s.watches:
		c.Failover = 0
	case s.allowed:
		_, all := s.w.read()
		current, err := all.current()
		s.w.must(err)
		c.TakeOver = []string{current}
	}
	return c
}

func (s *server) connect() {
	s.to, s.archive = &port{s}, newArchive(&port{s}, s.names, s.archive.store)
}

// resumed makes the server the one that runs at the start of the schedule.
func (s *server) resumed() {
	s.open()
	s.session, s.own = s.w.session, &ownership{timeline: timeline{ID: s.w.timeline, Commits: 1}, begun: true}
	s.copier.setCopied(s.w.timeline, s.commits, s.history)
	s.renewed.Store(new(time.Now()))
	s.w.claimed, s.owns = s, true
	s.ownerPut = s.w.explorer.start[s.names.ownerName()].content
}

// shut ends the process of the server.
func (s *server) shut() {
	if s.engine != nil {
		s.w.must(s.engine.Close())
	}
	if s.standby != nil {
		s.w.must(s.standby.Close())
	}
	s.engine, s.standby, s.owns, s.dead, s.caughtUp = nil, nil, false, false, ""
	s.db, s.disk = cmp.Or(s.disk, s.db), ""
	s.began, s.claiming, s.lists = false, false, map[string][]file{}
}

// cutPower remembers the store as it is after a power cut: without the commits of a standby and without the mark, which
// are not synced.
func (s *server) cutPower() {
	dir := filepath.Dir(s.db)
	files, err := os.ReadDir(dir)
	s.w.must(err)
	disk, err := os.MkdirTemp(s.w.dir, s.name)
	s.w.must(err)
	s.disk = filepath.Join(disk, filepath.Base(s.db))
	for _, f := range files {
		content, err := os.ReadFile(filepath.Join(dir, f.Name()))
		s.w.must(err)
		switch {
		case strings.HasSuffix(f.Name(), dbfile.MarkSuffix):
			content = nil
		case strings.HasSuffix(f.Name(), "-wal") && s.standby != nil:
			content = content[:min(int64(len(content)), s.synced)]
		}
		s.w.must(os.WriteFile(filepath.Join(disk, f.Name()), content, 0o600))
	}
	o, err := dbfile.ReadOrigin(s.db)
	s.w.must(err)
	if o != (dbfile.Origin{}) {
		s.w.must(dbfile.WriteOrigin(s.disk, o)) // with the inode of the copy
	}
}

// start starts the server, and reports whether it may create plants.
func (s *server) start() bool {
	s.shut()
	s.phase = "claim"
	o, err := dbfile.ReadOrigin(s.db)
	s.w.must(err)
	if !o.Holder && o.Newest {
		s.Service, err = newService(s.configuration())
		s.w.must(err)
		s.connect()
		if s.caughtUp, _, err = s.catchUp(context.Background(), o); err != nil {
			s.w.trace = append(s.w.trace, fmt.Sprintf("%-4s is refused: %v", s.name, err))
			return false
		}
	}
	return s.claimOwn()
}

// claimOwn opens the store and claims the destination, and reports whether the server may create plants.
func (s *server) claimOwn() bool {
	s.open()
	s.plants = nil
	commits, history, err := s.engine.StartJournal(context.Background())
	s.w.must(err)
	s.commits, s.history = commits, history
	if err := s.Claim(context.Background()); err != nil || s.own == nil {
		s.w.trace = append(s.w.trace, fmt.Sprintf("%-4s is refused: %v", s.name, err))
		return false
	}
	s.w.claimed, s.owns = s, true
	s.w.trace = append(s.w.trace, s.name+" is the owner")
	s.checkStore()
	s.renew(0)
	return true
}

// commit creates a plant, if the server accepts it.
func (s *server) commit() {
	if s.mayWrite() != nil {
		return
	}
	s.created++
	name := fmt.Sprint(s.name, s.created)
	id := fnv.New32()
	fmt.Fprint(id, name)
	_, err := s.engine.Insert(context.Background(), []store.Create{{
		Plant: plant.NewPlant{ID: int64(id.Sum32()), Plant: plant.Plant{Name: name}}, At: time.Now(),
	}})
	s.w.must(err)
	commits, history, err := s.engine.StartJournal(context.Background())
	s.w.must(err)
	s.w.chain[history] = made{name, s.history}
	s.commits, s.history = commits, history
	s.plants = append(s.plants, name)
}

// create creates plants, and tries to acknowledge them.
func (s *server) create(n int) {
	if !s.alive() {
		return
	}
	for range n {
		s.commit()
	}
	for range 2 {
		s.round()
	}
}

func (s *server) alive() bool { return s.engine != nil && !s.dead && s.own != nil && s.Fault() == nil }

// round copies commits, and acknowledges them.
func (s *server) round() {
	if !s.alive() || len(s.plants) == 0 {
		return
	}
	s.phase, s.ownerSeen, s.claiming = "round", nil, false
	owner := s.w.claimed
	s.note(fmt.Sprint(owner == s))
	err := s.copier.round(context.Background())
	if err != nil || s.dead || s.copier.needsBackup || s.MayAccept() != nil {
		return
	}
	for _, name := range s.plants {
		s.w.acked = append(s.w.acked, ack{s, name})
	}
	s.w.trace = append(s.w.trace, fmt.Sprintf("%-4s acknowledges %v", s.name, s.plants))
	s.plants = nil
	if owner != s {
		s.w.violated("%s acknowledges a plant in a round that began after the start of %s", s.name, owner.name)
	}
	s.w.check()
}

// merge merges segments.
func (s *server) merge() {
	if s.alive() {
		s.phase = "merge"
		_ = s.mergeOld(context.Background(), time.Now().Add(3*time.Hour))
	}
}

// backup makes a backup.
func (s *server) backup() {
	if s.alive() {
		s.phase = "backup"
		s.acquire()
		at := time.Now().Add(time.Duration(slices.Index(s.w.servers, s)) * time.Second) // the names must differ
		_ = s.makeScheduled(at)
	}
}

// retain makes a backup and removes older ones. Plants are created meanwhile.
func (s *server) retain() {
	s.backup()
	if s.create(1); s.alive() {
		s.phase = "retain"
		s.removeOld()
	}
}

// stop ends the server, which copies what is left even if it is fenced.
func (s *server) stop() {
	if s.engine != nil && !s.dead && s.copier != nil {
		s.phase = "stop"
		_ = s.copier.round(context.Background())
		s.release()
	}
}

// perform waits until the explorer lets an operation happen.
func (s *server) perform(name string, changes bool, do func() (string, error)) error {
	if s.w.free || s.alone {
		_, err := do()
		return err
	}
	if s.dead {
		return errCrashed
	}
	return s.wait(&call{name: name, changes: changes, do: do})
}

func (s *server) wait(c *call) error {
	c.done = make(chan struct{})
	s.calls <- c
	<-c.done
	return c.err
}

// port is the destination as a server sees it.
type port struct{ *server }

func (p *port) location(name string) string { return "memory/" + name }

func (p *port) make(
	ctx context.Context, db, name, timeline string, _ func(string) backupfile.Progress,
) (m backupfile.Manifest, err error) {
	path := filepath.Join(p.w.dir, p.server.name+"-"+name)
	if m, err = backupfile.Backup(ctx, db, path, timeline, nil); err != nil {
		return m, err
	}
	content, err := os.ReadFile(path)
	manifest, errManifest := m.Text()
	p.w.must(errors.Join(err, errManifest, os.Remove(path), os.Remove(path+backupfile.ManifestSuffix)))
	return m, p.perform("make "+name, true, func() (string, error) {
		if _, exists := p.w.objects[name]; exists {
			return "", fs.ErrExist
		}
		p.w.objects[name], p.w.objects[name+backupfile.ManifestSuffix] = &object{content}, &object{manifest}
		return fmt.Sprint(m.Timeline, m.Commits), nil
	})
}

func (p *port) clean(context.Context, string, func(string) bool) ([]string, error) { return nil, nil }

func (p *port) list(_ context.Context, prefix string) (files []file, err error) {
	err = p.perform("list "+prefix, false, func() (string, error) {
		var text []string
		byPlain := func(a, b string) int { return strings.Compare(p.w.plain(a), p.w.plain(b)) } // else chance decides
		for _, name := range slices.SortedFunc(maps.Keys(p.w.objects), byPlain) {
			if strings.HasPrefix(name, prefix) {
				files = append(files, file{name: name, bytes: int64(len(p.w.objects[name].content))})
				text = append(text, name)
			}
		}
		p.controlList(prefix, &files)
		return strings.Join(text, " "), nil
	})
	return files, err
}

func (p *port) open(_ context.Context, name string) (io.ReadCloser, error) {
	var content []byte
	do := func() (string, error) {
		o, ok := p.w.objects[name]
		if !ok {
			return "", fs.ErrNotExist
		}
		content = p.controlOpen(name, o.content)
		if len(content) < 4096 && !strings.HasSuffix(name, ".zst") && !strings.HasSuffix(name, backupfile.ManifestSuffix) {
			return string(content), nil
		}
		return "", nil
	}
	if p.phase == "merge" && strings.HasSuffix(name, ".zst") { // several at once
		_, err := do()
		return io.NopCloser(bytes.NewReader(content)), err
	}
	err := p.perform("open "+name, false, do)
	return io.NopCloser(bytes.NewReader(content)), err
}

func (p *port) put(_ context.Context, name string, content []byte) error {
	return p.store(name, content, false)
}

func (p *port) putOnce(_ context.Context, name string, content []byte) error {
	return p.store(name, content, true)
}

func (p *port) store(name string, content []byte, once bool) error {
	content = slices.Clone(content)
	if o := p.w.objects[p.w.names.ownerName()]; o != nil {
		p.ownerSeen = o.content
	}
	for _, id := range ids.FindAllString(name+text(content), -1) {
		if _, known := p.w.alias[id]; !known {
			p.ids++
			p.w.alias[id] = fmt.Sprintf("%s.%d", p.server.name, p.ids)
		}
	}
	c := &call{name: "put " + name, changes: true, put: &late{name, content}, once: once, do: func() (string, error) {
		p.w.objects[name] = &object{content}
		p.controlPut(name, content)
		return text(content), nil
	}}
	switch {
	case p.w.free, p.alone:
		_, err := c.do()
		return err
	case p.dead:
		return errCrashed
	}
	return p.wait(c)
}

// text returns the content of an object with JSON.
func text(content []byte) string {
	if bytes.HasPrefix(content, []byte("{")) {
		return string(content)
	}
	return ""
}

func (p *port) delete(_ context.Context, names ...string) error {
	for _, name := range names {
		if err := p.perform("delete "+name, true, func() (string, error) {
			delete(p.w.objects, name)
			return "", nil
		}); err != nil {
			return err
		}
	}
	return nil
}

func (p *port) verify(
	context.Context, string, backupfile.Manifest, func(string) backupfile.Progress,
) ([]string, error) {
	return nil, errors.ErrUnsupported
}

// controlPut, controlOpen and controlList seed the faults of the controls.
func (p *port) controlPut(name string, content []byte) {
	switch {
	case name == p.w.names.ownerName():
		p.ownerPut, p.claiming = content, true
	case strings.HasSuffix(name, timelineEnd):
		p.began = true
	case p.w.control == renewsOwner && name == p.w.names.renewalName():
		p.w.objects[p.w.names.ownerName()] = &object{p.ownerPut}
	}
}

func (p *port) controlOpen(name string, content []byte) []byte {
	if name != p.w.names.ownerName() {
		return content
	}
	switch c := p.w.control; {
	case c == ownerUnread && p.phase == "round", c == beginUnread && p.phase == "claim" && p.began:
		return p.ownerPut
	case c == ownerReadEarly && p.phase == "round" && p.ownerSeen != nil:
		return p.ownerSeen
	}
	return content
}

func (p *port) controlList(prefix string, files *[]file) {
	switch {
	case p.w.free:
	case !p.claiming:
		if p.lists != nil {
			p.lists[prefix] = slices.Clone(*files)
		}
	case p.w.control == listedEarly:
		*files = slices.Clone(p.lists[prefix])
	case p.w.control == segmentSkipped:
		number := func(f file) int64 { s, _ := journal.ParseName(prefix, f.name); return s.Last }
		last := slices.MaxFunc(*files, func(a, b file) int { return cmp.Compare(number(a), number(b)) })
		*files = slices.DeleteFunc(*files, func(f file) bool { return f == last && number(f) > 0 })
	case p.w.control == divergedUnseen:
		*files = slices.DeleteFunc(*files, func(f file) bool {
			s, ok := journal.ParseName(prefix, f.name)
			return ok && s.Timeline != p.w.timeline
		})
	}
}
