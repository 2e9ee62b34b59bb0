package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"plantstore/internal/sqlite/backupfile"
	"plantstore/internal/sqlite/dbfile"
	"plantstore/internal/sqlite/journal"
)

// These tests run servers with one destination in every order of their operations on it, up to a number of preemptions
// and faults. The code is the real one, with real stores. Only the destination is in memory: each operation waits until
// the explorer lets it happen, as a whole. A state in which the servers have seen the same, and the destination has the
// same, is explored once.

// bounds limit the schedules.
type bounds struct {
	preemptions int    // switches to another server before one has ended
	faults      int    // crashes, lost responses, and objects that are confirmed and not stored
	coarse      bool   // switches only before a change or a look at the owner
	late        string // the faults are puts of this object that happen later, or twice; empty: other faults
}

// scenario is some servers, and what they do.
type scenario struct {
	name    string
	servers []program
	earlier bool // an operator asked for an earlier state: the commits after it are left out

	failover time.Duration // Config.Failover
	promote  bool          // an operator asks the standby to take over
	cuts     string        // the faults are power cuts of "standbys", or of "all" servers; empty: other faults
}

type program struct {
	name string
	from string // the store: owner, newest, behind, earlier, copy, clone
	run  func(s *server)
}

// running is a server that runs at the start, and creates plants.
func running(s *server) {
	s.resumed()
	s.create(1)
	s.create(2)
	s.stop()
}

// starting creates plants after a start, which is repeated once.
func starting(s *server) {
	for range 2 {
		if s.start() {
			break
		}
	}
	s.create(1)
	s.create(1)
	s.stop()
}

func scenarios() []scenario {
	retaining := func(s *server) {
		s.resumed()
		s.create(1)
		s.merge()
		s.create(1)
		s.retain()
		s.stop()
	}
	merging := func(s *server) {
		if s.start() {
			s.create(1)
			s.merge()
			s.create(1)
			s.stop()
		}
	}
	undoing := func(s *server) {
		if s.start() {
			s.create(1)
			s.backup()
			s.create(1)
			s.stop()
		}
	}
	removing := func(s *server) { _ = (&port{s}).delete(context.Background(), s.w.names.ownerName()) }
	restarting := func(s *server) {
		starting(s)
		if s.start() {
			s.create(1)
			s.stop()
		}
	}
	newest := program{"new", "newest", starting}
	one, two := program{"one", "newest", starting}, program{"two", "newest", starting}
	return []scenario{
		{name: "take-over", servers: []program{{"old", "owner", running}, newest}},
		{name: "restart", servers: []program{{"old", "owner", restarting}, newest}},
		{name: "both", servers: []program{one, two}},
		{name: "three", servers: []program{{"old", "owner", running}, one, two}},
		{name: "merge", servers: []program{{"old", "owner", retaining}, {"new", "newest", merging}}},
		{name: "earlier", earlier: true, servers: []program{{"old", "owner", retaining}, {"new", "earlier", undoing}}},
		{name: "copy", servers: []program{{"old", "owner", running}, {"new", "copy", starting}}},
		{name: "clone", servers: []program{{"old", "owner", running}, {"new", "clone", starting}}},
		{name: "removed", servers: []program{{"old", "owner", running}, newest, {"rule", "", removing}}},
	}
}

// TestInterleavings explores the schedules of each scenario.
func TestInterleavings(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			all := []bounds{{1, 0, false, ""}, {2, 0, true, ""}, {1, 1, true, ""}}
			if len(s.servers) > 2 {
				all = all[:1]
			}
			if testing.Short() {
				if s.name != "take-over" && s.name != "clone" {
					t.Skip("part of the long form")
				}
				all = []bounds{{1, 0, true, ""}}
			}
			exploreAll(t, s, all)
		})
	}
}

func exploreAll(t *testing.T, s scenario, all []bounds) {
	t.Helper()
	for _, b := range all {
		e := explorer{scenario: s, bounds: b}
		if v := e.explore(t); v != "" {
			t.Error(v)
		}
		t.Logf("%s", e.String())
	}
}

// The controls are faults of a protocol that each explorer must find.
const (
	ownerUnread    = "the owner is not read after a segment is stored"
	ownerReadEarly = "the owner is read before a segment is stored"
	beginUnread    = "the owner is not read after a timeline has begun"
	listedEarly    = "the destination is listed before the owner is stored"
	divergedUnseen = "the segments of servers that took over at the same time are not listed"
	mergedUnread   = "segments are removed before the merged one is read back"

	segmentSkipped = "a standby does not repeat the last segment after the owner is stored"
	renewsOwner    = "the owner stores its session again to show that it lives"
	ownerRepeated  = "a request that stores the owner is sent again"
)

// TestInterleavingsFindFaults shows that the explorer finds faults of the protocol.
func TestInterleavingsFindFaults(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("part of the long form")
	}
	for _, seeded := range []struct{ control, scenario string }{
		{ownerUnread, "take-over"},
		{ownerReadEarly, "take-over"},
		{beginUnread, "restart"},
		{listedEarly, "take-over"},
		{divergedUnseen, "both"},
		{mergedUnread, "merge"},
		{mergedUnread, "keep"},
		{ownerUnread, "standby"},
		{listedEarly, "standby"},
		{segmentSkipped, "standby"},
		{renewsOwner, "standby"},
		{ownerRepeated, "late"},
	} {
		control := seeded.control
		t.Run(seeded.scenario+"/"+control, func(t *testing.T) {
			t.Parallel()
			all := append(scenarios(), standbyScenarios()...)
			i := slices.IndexFunc(all, func(s scenario) bool { return s.name == seeded.scenario })
			e := explorer{scenario: all[i], control: control, bounds: bounds{preemptions: 2, coarse: true}}
			switch control {
			case mergedUnread:
				e.bounds = bounds{faults: 1}
			case ownerRepeated:
				e.bounds = bounds{faults: 1, coarse: true, late: ownerEnd}
			}
			v := e.explore(t)
			if v == "" {
				t.Errorf("not found: %s", e.String())
			}
			t.Logf("found in schedule %d: %s", e.schedules, v)
		})
	}
}

// explorer explores the schedules of a scenario, depth first. Each one repeats the choices of the one before up to the
// last choice that has another one.
type explorer struct {
	scenario scenario
	bounds   bounds
	control  string // the fault that is seeded; empty: none

	// At the start of each schedule:
	start    map[string]*object // in the destination
	stores   map[string]origin  // by their names in a program
	session  string             // the owner's
	timeline string             // the owner's
	store    string             // identity

	dir     string
	chain   map[journal.History]made // by the history after the commit
	decoded map[string]decoded       // segments by name, because they never change
	visited map[uint64]bool          // hashes of states

	schedules int
	depth     int // operations of the longest schedule
	refused   int // states in which a restore returns an error
}

func (e *explorer) String() string {
	return fmt.Sprintf("%d preemptions, %d faults: %d schedules of up to %d operations, %d states, %d of them refused",
		e.bounds.preemptions, e.bounds.faults, e.schedules, e.depth, len(e.visited), e.refused)
}

// origin is a store as a server finds it.
type origin struct {
	content []byte
	dbfile.Origin

	tip tip
}

// made is a commit that creates a plant.
type made struct {
	plant  string
	before journal.History
}

// decoded is what a segment has.
type decoded struct {
	before journal.History
	first  int64
	after  []journal.History
	err    error
}

// object is one in the destination.
type object struct{ content []byte }

// explore runs all schedules, and returns the first one that breaks a property.
func (e *explorer) explore(t *testing.T) (violation string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e.visited, e.decoded = map[uint64]bool{}, map[string]decoded{}
		e.prepare(t)
		var path []int
		for {
			w := e.schedule(t, path)
			e.schedules++
			e.depth = max(e.depth, len(w.widths))
			if w.violation != "" {
				trace := strings.Join(w.trace, "\n")
				violation = fmt.Sprintf("%s: schedule %d: %s\n%s", e.scenario.name, e.schedules, w.violation, trace)
				return
			}
			path = w.taken
			for len(path) > 0 && path[len(path)-1]+1 >= w.widths[len(path)-1] {
				path = path[:len(path)-1]
			}
			if len(path) == 0 {
				return
			}
			path = slices.Clone(path)
			path[len(path)-1]++
		}
	})
	return violation
}

// prepare makes the destination and the stores at the start of each schedule: two commits of the owner, 3 hours ago.
func (e *explorer) prepare(t *testing.T) {
	t.Helper()
	e.start, e.stores, e.chain = map[string]*object{}, map[string]origin{}, map[journal.History]made{}
	e.dir = memoryDir(t)
	w := e.world(t, e.start, e.dir)
	w.free = true
	s := &server{name: "first", w: w, db: filepath.Join(w.dir, "first", "p.db")}
	w.must(os.Mkdir(filepath.Dir(s.db), 0o700))
	s.open()
	w.must(s.Claim(t.Context()))
	s.Renew(t.Context())
	s.acquire()
	w.must(s.makeScheduled(time.Now()))
	var times []time.Time
	for range 2 {
		<-time.After(time.Second)
		s.commit()
		w.must(s.copier.round(t.Context()))
		times = append(times, time.Now())
	}
	e.session, e.timeline, e.store = s.session, s.ownTimeline(), s.archive.store
	w.must(s.engine.Close())
	keep := func(name, path string, o dbfile.Origin, at tip) {
		content, err := os.ReadFile(path)
		w.must(err)
		e.stores[name] = origin{content, o, at}
	}
	owner, err := dbfile.ReadOrigin(s.db)
	w.must(err)
	at := tip{s.commits, s.history}
	keep("owner", s.db, owner, at)
	keep("clone", s.db, owner, at)
	keep("copy", s.db, dbfile.Origin{}, at)
	for name, point := range map[string]Point{"newest": {}, "earlier": {At: times[0]}} {
		path := filepath.Join(w.dir, name+".db")
		_, err := s.archive.Restore(t.Context(), path, point, false, nil)
		w.must(err)
		o, err := dbfile.ReadOrigin(path)
		w.must(err)
		from := at
		if name == "earlier" {
			from = tip{at.number - 1, e.chain[at.history].before}
			keep("behind", path, dbfile.Origin{Timeline: o.Timeline, Commits: from.number, Newest: true}, from)
		}
		keep(name, path, o, from)
	}
	<-time.After(3 * time.Hour)
}

// memoryDir returns a directory in memory if there is one, because each schedule has stores of its own.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "plantstore-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// world is one schedule.
type world struct {
	*explorer

	t       *testing.T
	objects map[string]*object // in the destination
	dir     string
	names   series
	free    bool // the operations do not wait
	servers []*server
	late    []late            // puts that have not happened yet
	last    *server           // whose operation the explorer ran last
	alias   map[string]string // names of random ids, so that equal states are found

	claimed   *server // the last one whose start has succeeded
	acked     []ack
	used      bounds
	widths    []int // numbers of options, of each choice
	taken     []int
	trace     []string
	violation string
}

// ack is a plant of a response 200.
type ack struct {
	by    *server
	plant string
}

func (e *explorer) world(t *testing.T, objects map[string]*object, dir string) *world {
	return &world{explorer: e, t: t, objects: objects, dir: dir, names: seriesOf("p.db"), alias: map[string]string{}}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%v\n%s", err, strings.Join(w.trace, "\n"))
	}
}

func (w *world) violated(format string, args ...any) {
	if w.violation == "" {
		w.violation = fmt.Sprintf(format, args...)
		w.trace = append(w.trace, "=> "+w.violation)
	}
}

// late is a put that happens later than the server was told.
type late struct {
	name    string
	content []byte
}

// isSeenBy reports whether an operation has another result after the put than before it.
func (l late) isSeenBy(c *call) bool {
	verb, name, _ := strings.Cut(c.name, " ")
	return name == l.name || verb == "list" && strings.HasPrefix(l.name, name)
}

// option is what may happen next.
type option struct {
	server *server // nil: the first late put
	kind   kind
}

type kind string

const (
	happens   kind = ""
	crash     kind = "crash before "
	powerCut  kind = "power cut before "
	lost      kind = "lost response of "
	swallowed kind = "confirmed and not stored: "
	delayed   kind = "error, and happens later: "
	abandoned kind = "crash, and happens later: "
	repeated  kind = "happens, and once more later: "
	passes    kind = "time passes, "
)

// schedule runs the servers with some choices, and then with the first one of each.
func (e *explorer) schedule(t *testing.T, path []int) *world {
	dir, err := os.MkdirTemp(e.dir, "")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	w := e.world(t, maps.Clone(e.start), dir)
	w.alias = map[string]string{e.timeline: "timeline", e.session: "session", e.store[:16]: "store", e.store[16:]: ""}
	for _, p := range e.scenario.servers {
		s := &server{
			name: p.name, w: w, db: filepath.Join(w.dir, p.name, "p.db"), calls: make(chan *call), ended: make(chan struct{}),
		}
		w.servers = append(w.servers, s)
		if p.from != "" {
			w.must(os.Mkdir(filepath.Dir(s.db), 0o700))
			from := e.stores[p.from]
			w.must(os.WriteFile(s.db, from.content, 0o600))
			if from.Origin != (dbfile.Origin{}) {
				w.must(dbfile.WriteOrigin(s.db, from.Origin))
			}
			s.commits, s.history = from.tip.number, from.tip.history
		}
		go func() {
			defer close(s.ended)
			p.run(s)
			s.settle()
			s.shut()
		}()
		s.next()
	}
	for w.violation == "" {
		options := w.options()
		if len(options) == 0 {
			break
		}
		if len(w.taken) >= len(path) && !w.isNew() {
			break
		}
		i := 0
		if n := len(w.taken); n < len(path) {
			i = path[n]
		}
		if i >= len(options) {
			w.violated("the schedule cannot be repeated")
			break
		}
		w.widths, w.taken = append(w.widths, len(options)), append(w.taken, i)
		w.do(options[i])
	}
	for _, s := range w.servers { // those of a schedule that was explored already
		s.dead = true
		for s.pending != nil {
			s.pending.err = errCrashed
			s.goOn()
		}
	}
	return w
}

// options returns what may happen next: the first one is that the same server goes on.
func (w *world) options() (all []option) {
	waiting := slices.DeleteFunc(slices.Clone(w.servers), func(s *server) bool { return s.pending == nil })
	if i := slices.Index(waiting, w.last); i > 0 {
		waiting[0], waiting[i] = waiting[i], waiting[0]
	}
	settles := func(s *server) bool { return s.pending.last }
	if others := slices.DeleteFunc(slices.Clone(waiting), settles); len(others) > 0 {
		waiting = others
	}
	for i, s := range waiting {
		if i > 0 && !w.mayPreempt() {
			break
		}
		all = append(all, option{s, happens})
		if s.pending.choice {
			all = append(all, option{s, passes})
		}
		if w.used.faults == w.bounds.faults {
			continue
		}
		if w.bounds.late != "" {
			if s.pending.put != nil && strings.HasSuffix(s.pending.put.name, w.bounds.late) {
				all = append(all, option{s, delayed}, option{s, abandoned})
				if !s.pending.once || w.control == ownerRepeated {
					all = append(all, option{s, repeated})
				}
			}
			continue
		}
		mayEnd := s.pending.changes || s.changed // a crash between two reads has the same effect
		if w.scenario.cuts != "" {
			if mayEnd && (w.scenario.cuts == "all" || s.standby != nil) {
				all = append(all, option{s, powerCut})
			}
			continue
		}
		if mayEnd {
			all = append(all, option{s, crash})
		}
		if s.pending.changes || s.phase == "round" {
			all = append(all, option{s, lost})
		}
		if s.pending.changes && s.phase == "merge" {
			all = append(all, option{s, swallowed})
		}
	}
	if len(w.late) > 0 {
		seen := len(all) == 0
		for _, o := range all {
			seen = seen || w.late[0].isSeenBy(o.server.pending)
		}
		if seen { // else it may happen after the next operation as well
			all = append(all, option{})
		}
	}
	return all
}

// mayPreempt reports whether another server may go on than the last one.
func (w *world) mayPreempt() bool {
	last := w.last
	if last == nil || last.pending == nil || last.pending.pause {
		return true
	}
	coarse := last.pending.changes || strings.HasSuffix(last.pending.name, ownerEnd)
	return w.used.preemptions < w.bounds.preemptions && (!w.bounds.coarse || coarse)
}

// do lets something happen.
func (w *world) do(o option) {
	s := o.server
	if s == nil {
		l := w.late[0]
		w.objects[l.name], w.late = &object{l.content}, w.late[1:]
		w.trace = append(w.trace, fmt.Sprintf("late put %s -> %s", w.plain(l.name), w.plain(text(l.content))))
		w.check()
		return
	}
	if w.last != nil && w.last != s && w.last.pending != nil && !w.last.pending.pause {
		w.used.preemptions++
	}
	w.last = s
	c := s.pending
	if o.kind != happens && o.kind != passes {
		w.used.faults++
	}
	switch o.kind {
	case happens, lost:
		c.result, c.err = c.do()
	case repeated:
		c.result, c.err = c.do()
		w.late = append(w.late, *c.put)
	case delayed, abandoned:
		w.late = append(w.late, *c.put)
	case passes:
		c.passed = true
	}
	if w.control == mergedUnread && s.phase == "merge" && o.kind != crash {
		w.removeMerged(strings.TrimPrefix(c.name, "put "))
	}
	switch o.kind {
	case powerCut:
		s.cutPower()
		s.dead, c.err = true, errCrashed
	case crash, abandoned:
		s.dead, c.err = true, errCrashed
	case lost, delayed:
		c.err = errLost
	}
	line := fmt.Sprintf("%-4s %-6s %s%s", s.name, s.phase, o.kind, w.plain(c.name))
	w.trace = append(w.trace, fmt.Sprintf("%s -> %s %v", line, w.plain(c.result), c.err))
	s.note(line, w.plain(c.result), fmt.Sprint(c.err))
	if s.changed = c.changes; c.changes && !s.dead {
		w.check()
	}
	s.goOn()
}

// removeMerged removes the segments that a merged one replaces, for a control.
func (w *world) removeMerged(name string) {
	merged, ok := journal.ParseName(w.names.segmentPrefix(), name)
	for other := range w.objects {
		part, isPart := journal.ParseName(w.names.segmentPrefix(), other)
		if ok && isPart && other != name && part.Timeline == merged.Timeline &&
			part.First >= merged.First && part.Last <= merged.Last {
			delete(w.objects, other)
		}
	}
}

var (
	errCrashed = errors.New("the server is killed")
	errLost    = errors.New("the response is lost")
)

var ids = regexp.MustCompile(`[0-9a-f]{16}`)

// plain replaces the random parts of a text.
func (w *world) plain(text string) string {
	return ids.ReplaceAllStringFunc(text, func(id string) string {
		if name, ok := w.alias[id]; ok {
			return name
		}
		return id
	})
}

// isNew reports whether no schedule has reached this state.
func (w *world) isNew() bool {
	h := fnv.New64a()
	for _, name := range slices.Sorted(maps.Keys(w.objects)) {
		content := ""
		if o := w.objects[name]; len(o.content) < 4096 {
			content = w.plain(string(o.content))
		}
		if strings.HasSuffix(name, ".zst") || strings.HasSuffix(name, backupfile.ManifestSuffix) {
			content = ""
		}
		fmt.Fprintln(h, w.plain(name), content)
	}
	for _, s := range w.servers {
		fmt.Fprintln(h, s.seen, s.pending != nil, s.dead, s == w.last, s == w.claimed)
	}
	for _, l := range w.late {
		fmt.Fprintln(h, w.plain(l.name), w.plain(text(l.content)))
	}
	fmt.Fprintln(h, w.used)
	seen := w.visited[h.Sum64()]
	w.visited[h.Sum64()] = true
	return !seen
}

// read returns what the destination has.
func (w *world) read() (*Archive, *contents) {
	reading := w.world(w.t, w.objects, w.dir)
	reading.free = true
	a := newArchive(&port{&server{w: reading}}, w.names, "")
	c, err := a.contents(context.Background())
	w.must(err)
	return a, c
}

// check checks the state of the destination, as if all servers were lost now.
func (w *world) check() {
	a, c := w.read()
	p, err := c.planFor(Point{})
	var have map[string]bool
	if err == nil {
		have = w.plants(w.reach(a, p).history)
	} else {
		w.refused++
		w.trace = append(w.trace, "a restore is refused: "+w.plain(err.Error()))
	}
	ids := map[string]bool{}
	for id := range c.timelines {
		ids[id] = true
	}
	for id := range c.segments {
		ids[id] = true
	}
	for _, acked := range w.acked {
		undone := w.scenario.earlier && acked.by == w.servers[0] && w.claimed != w.servers[0] // retention may remove it
		if have[acked.plant] || undone {
			continue
		}
		found := false
		for id := range ids {
			if q, err := c.planFor(Point{Timeline: id}); err == nil && w.plants(w.reach(a, q).history)[acked.plant] {
				found = true
			}
		}
		switch {
		case !found:
			w.violated("plant %s was acknowledged, and nothing restores it: %v", acked.plant, err)
		case err == nil && (!w.scenario.earlier || len(p.leftOut) == 0 || acked.by != w.servers[0]):
			w.violated("plant %s was acknowledged, and is not in the newest state, which leaves out %q", acked.plant, p.leftOut)
		}
	}
}

// reach returns the last commit of a plan, whose commits must follow each other.
func (w *world) reach(a *Archive, p plan) tip {
	at := tip{p.base.Manifest.Commits, journal.ParseHistory(p.base.Manifest.History)}
	for _, s := range p.steps {
		d, ok := w.decoded[s.name]
		if !ok {
			d = decode(a, s.segment)
			w.decoded[s.name] = d
		}
		w.must(d.err)
		before := d.before
		if i := at.number - d.first; i >= 0 && i < int64(len(d.after)) {
			before = d.after[i]
		}
		if d.first > at.number+1 || before != at.history {
			w.violated("%s does not follow commit %d", w.plain(s.name), at.number)
			return tip{}
		}
		at = tip{s.until, d.after[s.until-d.first]}
	}
	return at
}

// plants returns the plants of a store with a history.
func (w *world) plants(h journal.History) map[string]bool {
	plants := map[string]bool{}
	for {
		m, ok := w.chain[h]
		if !ok {
			return plants
		}
		plants[m.plant] = true
		h = m.before
	}
}

func decode(a *Archive, s segment) (d decoded) {
	content, err := a.readSegment(context.Background(), s)
	if err != nil {
		return decoded{err: err}
	}
	is, err := journal.Read(bytes.NewReader(content), func(_ *journal.Commit, after journal.History) error {
		d.after = append(d.after, after)
		return nil
	})
	d.before, d.first, d.err = journal.ParseHistory(is.Before), is.First, err
	return d
}
