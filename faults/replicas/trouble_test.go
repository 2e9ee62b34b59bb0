package replicas

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"plantstore/faults/rig"
)

const (
	wellWithin     = 5 * time.Second // for a server whose database is well again
	troubleClients = 64
	goroutinesMax  = 6 * troubleClients // more than before: those of net/http and of the connections to the database
	bytesMax       = 64 << 20           // more than before
)

// TestTrouble has a database that is slow, locked or full, or comes and goes. Clients
// are answered 200 or 503 with Retry-After, nothing piles up, and soon after the
// trouble has passed each is answered 200.
func TestTrouble(t *testing.T) {
	t.Parallel()
	program := build(t)
	for _, test := range []struct {
		name, settings string
		begin          func(*trouble) (end func())
		answers        int // late in it, at least; 0: all may wait for its end, each for a commit that may have been made
	}{
		{"slow", "", (*trouble).slow, troubleClients / 2},
		{"slow, with one connection", "&pool_max_conns=1", (*trouble).slow, troubleClients / 2},
		{"comes and goes", "", (*trouble).flap, troubleClients / 2},
		{"takes no connection", "", (*trouble).shut, 0},
		{"locked", "", (*trouble).lock, 0},
		{"full", "", (*trouble).full, troubleClients / 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := newTrouble(t, program, test.settings)
			r.suffer(test.begin)
			if r.answers < test.answers {
				t.Errorf("%d answers late in the trouble, want at least %d", r.answers, test.answers)
			}
			if err := first(append(r.faults, check(r.history, rows(t, r.db))...)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestTroubleControl shows that it is noticed when trouble outlives its cause.
func TestTroubleControl(t *testing.T) {
	if !*long {
		t.Skip("in the long form only")
	}
	t.Parallel()
	r := newTrouble(t, rig.Build(t, hangs), "")
	r.suffer((*trouble).shut)
	if len(r.faults) == 0 {
		t.Fatal("nothing was noticed")
	}
	t.Logf("caught, %d times: %v", len(r.faults), r.faults[0])
}

// hangs commits nothing any more after a commit that failed.
var hangs = rig.Weakness{
	File: rig.EarlyAnswer.File,
	Old:  rig.EarlyAnswer.Old,
	New:  rig.EarlyAnswer.Old + "\tif err != nil {\n\t\tselect {}\n\t}\n",
}

// trouble is a server whose database is not well.
type trouble struct {
	t      *testing.T
	server *rig.Server
	plants *sender
	db     string
	proxy  *proxy
	late   atomic.Bool // every answer is

	mu      sync.Mutex
	history []operation   // guarded by mu
	faults  []error       // guarded by mu
	ill     time.Time     // when the trouble began; guarded by mu
	well    time.Time     // when it ended; guarded by mu
	answers int           // to requests that began in it, while it lasted; guarded by mu
	longest time.Duration // of an answer; guarded by mu
}

func newTrouble(t *testing.T, program, settings string) *trouble {
	t.Helper()
	r := &trouble{t: t, db: newDatabase(t)}
	p, through := newProxy(t, r.db, time.Duration(size(1, 2))*time.Second, func(string) fault {
		if r.late.Load() {
			return lateAnswer
		}
		return none
	})
	s, err := rig.Start(t, program, through+settings, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.proxy, r.server = p, s
	r.plants = newSender(s.URL, rig.Token(t, program, r.db, "trouble"), troubleClients)
	return r
}

// slow makes each answer late.
func (r *trouble) slow() (end func()) {
	r.late.Store(true)
	return func() { r.late.Store(false) }
}

// flap ends all connections and takes none for a second of every three.
func (r *trouble) flap() (end func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() { // ends with the trouble
		defer close(stopped)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for second := 0; ; second++ {
			r.proxy.shut(second%3 == 0)
			select {
			case <-tick.C:
			case <-stop:
				r.proxy.shut(false)
				return
			}
		}
	}()
	return func() { close(stop); <-stopped }
}

// shut has PostgreSQL end all connections of the database and refuse new ones.
func (r *trouble) shut() (end func()) {
	other := config(r.t, r.db)
	name := other.Database
	other.Database = "postgres"
	c, err := pgx.ConnectConfig(r.t.Context(), other)
	if err != nil {
		r.t.Fatal(err)
	}
	r.execute(c, "ALTER DATABASE "+name+" ALLOW_CONNECTIONS false")
	r.execute(c, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '"+name+"'")
	return func() {
		r.execute(c, "ALTER DATABASE "+name+" ALLOW_CONNECTIONS true")
		_ = c.Close(r.t.Context())
	}
}

// lock has another transaction hold the table.
func (r *trouble) lock() (end func()) {
	c, err := pgx.Connect(r.t.Context(), r.db)
	if err != nil {
		r.t.Fatal(err)
	}
	r.execute(c, "BEGIN")
	r.execute(c, "LOCK TABLE plants")
	return func() {
		r.execute(c, "COMMIT")
		_ = c.Close(r.t.Context())
	}
}

// full puts the plants on a disk that has no room.
func (r *trouble) full() (end func()) {
	small := rig.Small(r.t, 32)
	disk := filepath.Join(small, "plants")
	owner, err := os.Stat(config(r.t, r.db).Host)
	if err != nil {
		r.t.Fatal(err)
	}
	as := owner.Sys().(*syscall.Stat_t)
	if err := errors.Join(os.Chmod(filepath.Dir(small), 0o711), os.Mkdir(disk, 0o700), os.Chown(disk, int(as.Uid), int(as.Gid))); err != nil { // PostgreSQL's user has to pass through
		r.t.Fatal(err)
	}
	c, err := pgx.Connect(r.t.Context(), r.db)
	if err != nil {
		r.t.Fatal(err)
	}
	space := "small_" + c.Config().Database
	r.execute(c, "CREATE TABLESPACE "+space+" LOCATION '"+disk+"'")
	r.execute(c, "ALTER TABLE plants SET TABLESPACE "+space)
	r.execute(c, "ALTER INDEX plants_pkey SET TABLESPACE "+space)
	r.t.Cleanup(func() { // before the disk goes: PostgreSQL stops for good when it cannot sync a file
		ctx := context.WithoutCancel(r.t.Context())
		for _, sql := range []string{"ALTER TABLE plants SET TABLESPACE pg_default", "ALTER INDEX plants_pkey SET TABLESPACE pg_default", "DROP TABLESPACE " + space} {
			if _, err := c.Exec(ctx, sql); err != nil {
				r.t.Error(err)
			}
		}
		_ = c.Close(ctx)
	})
	taken := rig.Ballast(r.t, small)
	return func() {
		if err := os.Remove(taken); err != nil {
			r.t.Error(err)
		}
	}
}

func config(t testing.TB, url string) *pgx.ConnConfig {
	t.Helper()
	c, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (r *trouble) execute(c *pgx.Conn, sql string) {
	r.t.Helper()
	if _, err := c.Exec(r.t.Context(), sql); err != nil {
		r.t.Fatal(err)
	}
}

// suffer has clients at work before, in and after the trouble.
func (r *trouble) suffer(begin func(*trouble) (end func())) {
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	done := make(chan struct{})
	var running sync.WaitGroup
	for number := range int64(troubleClients) {
		running.Go(func() { r.work(ctx, done, number) })
	}
	goroutines, memory := r.watch(time.Second)
	r.mark(&r.ill)
	end := begin(r)
	goroutinesIn, memoryIn := r.watch(time.Duration(size(14, 60)) * time.Second)
	end()
	r.mark(&r.well)
	goroutinesAfter, memoryAfter := r.watch(wellWithin + time.Second)
	close(done)
	running.Wait()
	r.t.Logf("answers: %v, %d of them late in the trouble, the slowest after %s; at most %d, %d and %d goroutines, and %d, %d and %d MiB, before, in and after the trouble",
		tally(r.history), r.answers, r.longest, goroutines, goroutinesIn, goroutinesAfter, memory>>20, memoryIn>>20, memoryAfter>>20)
	if n := max(goroutinesIn, goroutinesAfter); n > goroutines+goroutinesMax {
		r.faults = append(r.faults, fmt.Errorf("%d goroutines", n))
	}
	if n := max(memoryIn, memoryAfter); n > memory+bytesMax {
		r.faults = append(r.faults, fmt.Errorf("%d bytes of memory", n))
	}
}

func (r *trouble) mark(at *time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*at = time.Now()
}

// work sends plants at a moderate rate: a refusal may come at once.
func (r *trouble) work(ctx context.Context, done <-chan struct{}, number int64) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for id := number; ; id += troubleClients {
		begun := time.Now()
		o := r.plants.send(ctx, id, content{name: "Rosa"})
		r.note(&o, begun)
		select {
		case <-tick.C:
		case <-done:
			return
		}
	}
}

func (r *trouble) note(o *operation, begun time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history = append(r.history, *o)
	r.longest = max(r.longest, o.end.Sub(begun))
	if r.well.IsZero() && !r.ill.IsZero() && begun.Sub(r.ill) > time.Second {
		r.answers++
	}
	answered := o.outcome == created || o.outcome == busy || o.outcome == unknown && o.status == http.StatusServiceUnavailable
	if !answered {
		r.faults = append(r.faults, fmt.Errorf("in trouble: %s", o))
	}
	if after := begun.Sub(r.well); !r.well.IsZero() && after > wellWithin && o.outcome != created {
		r.faults = append(r.faults, fmt.Errorf("%s after the trouble: %s", after, o))
	}
}

// watch returns the most goroutines and bytes that a server has within a time.
func (r *trouble) watch(length time.Duration) (goroutines, memory int64) {
	late := time.NewTimer(length)
	defer late.Stop()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		text := r.metrics()
		goroutines, memory = max(goroutines, gauge(text, "go_goroutines")), max(memory, gauge(text, "process_resident_memory_bytes"))
		select {
		case <-tick.C:
		case <-late.C:
			return goroutines, memory
		}
	}
}

func (r *trouble) metrics() []byte {
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.server.Admin+"/metrics", http.NoBody)
	if err != nil {
		r.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		r.t.Fatalf("%v\n%s", err, r.server.Log())
	}
	text, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		r.t.Fatal(err)
	}
	return text
}

// gauge reads a number of the metrics; -1 if there is none.
func gauge(text []byte, name string) int64 {
	found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(text)
	if found == nil {
		return -1
	}
	n, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		return -1
	}
	return int64(n)
}
