package replicas

import (
	"context"
	"errors"
	"fmt"
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
	eventMax       = 2 * time.Minute // for what must happen; a busy machine delays it
	outageClients  = 64
	goroutinesMax  = 6 * outageClients // growth; includes net/http and the connections to the database
	memoryBytesMax = 64 << 20          // growth
)

// recoveryMax returns the time from the end of the outage to the last failed request. The long form runs on a quiet
// machine.
func recoveryMax() time.Duration {
	return time.Duration(size(int(eventMax/time.Second), 5)) * time.Second
}

// TestOutage runs clients on a database that is slow, locked, full, or refuses connections. The responses must be 200,
// or 503 with Retry-After; goroutines and memory are limited; and after the outage every client creates plants again.
func TestOutage(t *testing.T) {
	t.Parallel()
	program := build(t)
	for _, test := range []struct {
		name, settings string
		start          func(*outage) (end func())
		responses      int // to requests late in the outage; 0 if they may wait for its end, each in an uncertain commit
	}{
		{"slow", "", (*outage).slow, outageClients},
		{"slow, with two connections", "&pool_max_conns=2", (*outage).slow, outageClients},
		{"intermittent", "", (*outage).intermittent, outageClients},
		{"refuses connections", "", (*outage).refuseConnections, 0},
		{"locked", "", (*outage).lock, 0},
		{"full", "", (*outage).full, outageClients},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			o := newOutage(t, program, test.settings)
			o.run(test.start, test.responses)
			if err := joinFirst(append(o.violations, check(o.history, storedPlants(t, o.db))...)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOutageControl shows that the harness detects a server that does not recover.
func TestOutageControl(t *testing.T) {
	if !*long {
		t.Skip("only in the long form")
	}
	t.Parallel()
	o := newOutage(t, rig.Build(t, hangs), "")
	o.run((*outage).refuseConnections, 0)
	requireDetection(t, o.violations)
}

// hangs stops committing after a failed commit.
var hangs = rig.Weakness{
	File: rig.EarlyAnswer.File,
	Old:  rig.EarlyAnswer.Old,
	New:  rig.EarlyAnswer.Old + "\tif err != nil {\n\t\tselect {}\n\t}\n",
}

// outage is a server whose database fails for some time, with its clients.
type outage struct {
	t      *testing.T
	server *rig.Server
	token  string
	plants *sender
	db     string
	proxy  *proxy
	late   atomic.Bool // the proxy delays every response

	mu         sync.Mutex
	history    []operation    // guarded by mu
	violations []error        // guarded by mu
	started    time.Time      // when the outage started; guarded by mu
	ended      time.Time      // when the outage ended; guarded by mu
	responses  int            // during the outage, to requests that started late in it; guarded by mu
	slowest    time.Duration  // slowest response; guarded by mu
	recovered  map[int64]bool // numbers of the clients that created a plant after the outage; guarded by mu
}

func newOutage(t *testing.T, program, settings string) *outage {
	t.Helper()
	o := &outage{t: t, db: newDatabase(t), recovered: map[int64]bool{}}
	p, url := newProxy(t, o.db, time.Duration(size(1, 2))*time.Second, func(string) fault {
		if o.late.Load() {
			return lateResponse
		}
		return none
	})
	s, err := rig.Start(t, program, url+settings, nil)
	if err != nil {
		t.Fatal(err)
	}
	o.proxy, o.server = p, s
	o.token = rig.Token(t, program, o.db, "outage")
	o.plants = newSender(s.URL, o.token)
	return o
}

// slow delays each response of PostgreSQL.
func (o *outage) slow() (end func()) {
	o.late.Store(true)
	return func() { o.late.Store(false) }
}

// intermittent closes all connections and refuses new ones during one of every three seconds.
func (o *outage) intermittent() (end func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() { // end waits for it
		defer close(stopped)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for second := 0; ; second++ {
			o.proxy.setClosed(second%3 == 0)
			select {
			case <-tick.C:
			case <-stop:
				o.proxy.setClosed(false)
				return
			}
		}
	}()
	return func() { close(stop); <-stopped }
}

// refuseConnections makes PostgreSQL end all connections to the database and refuse new ones.
func (o *outage) refuseConnections() (end func()) {
	config := parseURL(o.t, o.db)
	name := config.Database
	config.Database = "postgres"
	c, err := pgx.ConnectConfig(o.t.Context(), config)
	if err != nil {
		o.t.Fatal(err)
	}
	o.execute(c, "ALTER DATABASE "+name+" ALLOW_CONNECTIONS false")
	o.execute(c, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '"+name+"'")
	return func() {
		o.execute(c, "ALTER DATABASE "+name+" ALLOW_CONNECTIONS true")
		_ = c.Close(o.t.Context())
	}
}

// lock locks the table of the plants in another transaction.
func (o *outage) lock() (end func()) {
	c, err := pgx.Connect(o.t.Context(), o.db)
	if err != nil {
		o.t.Fatal(err)
	}
	o.execute(c, "BEGIN")
	o.execute(c, "LOCK TABLE plants")
	return func() {
		o.execute(c, "COMMIT")
		_ = c.Close(o.t.Context())
	}
}

// full moves the table of the plants to a full file system.
func (o *outage) full() (end func()) {
	small := rig.Small(o.t, 32)
	dir := filepath.Join(small, "plants")
	socketDir, err := os.Stat(parseURL(o.t, o.db).Host)
	if err != nil {
		o.t.Fatal(err)
	}
	owner := socketDir.Sys().(*syscall.Stat_t) // PostgreSQL's user
	err = errors.Join(
		os.Chmod(filepath.Dir(small), 0o711), // PostgreSQL's user needs search permission
		os.Mkdir(dir, 0o700),
		os.Chown(dir, int(owner.Uid), int(owner.Gid)),
	)
	if err != nil {
		o.t.Fatal(err)
	}
	c, err := pgx.Connect(o.t.Context(), o.db)
	if err != nil {
		o.t.Fatal(err)
	}
	space := "small_" + c.Config().Database
	o.execute(c, "CREATE TABLESPACE "+space+" LOCATION '"+dir+"'")
	o.execute(c, "ALTER TABLE plants SET TABLESPACE "+space)
	o.execute(c, "ALTER INDEX plants_pkey SET TABLESPACE "+space)
	o.t.Cleanup(func() { // before the unmount: PostgreSQL stops permanently when it cannot sync a file
		ctx := context.WithoutCancel(o.t.Context())
		for _, sql := range []string{
			"ALTER TABLE plants SET TABLESPACE pg_default",
			"ALTER INDEX plants_pkey SET TABLESPACE pg_default",
			"DROP TABLESPACE " + space,
		} {
			if _, err := c.Exec(ctx, sql); err != nil {
				o.t.Error(err)
			}
		}
		_ = c.Close(ctx)
	})
	ballast := rig.Ballast(o.t, small)
	return func() {
		if err := os.Remove(ballast); err != nil {
			o.t.Error(err)
		}
	}
}

func parseURL(t testing.TB, url string) *pgx.ConnConfig {
	t.Helper()
	c, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (o *outage) execute(c *pgx.Conn, sql string) {
	o.t.Helper()
	if _, err := c.Exec(o.t.Context(), sql); err != nil {
		o.t.Fatal(err)
	}
}

// run runs clients before, during and after the outage, which lasts until so many requests late in it have a response.
func (o *outage) run(start func(*outage) (end func()), responses int) {
	ctx, cancel := context.WithCancel(o.t.Context())
	defer cancel()
	done := make(chan struct{})
	var running sync.WaitGroup
	for number := range int64(outageClients) {
		running.Go(func() { o.runClient(ctx, done, number) })
	}
	goroutines, memory := o.measure(time.Second, "", func() bool { return true })
	o.setNow(&o.started)
	end := start(o)
	goroutinesDuring, memoryDuring := o.measure(time.Duration(size(14, 60))*time.Second,
		fmt.Sprint(responses, " responses late in the outage"), func() bool { return o.responses >= responses })
	end()
	o.setNow(&o.ended)
	goroutinesAfter, memoryAfter := o.measure(time.Duration(size(1, 6))*time.Second,
		"a plant of each client after the outage", func() bool { return len(o.recovered) == outageClients })
	close(done)
	running.Wait()
	o.t.Logf("outcomes %v; %d responses late in the outage; slowest response: %s; before, during and after the outage "+
		"at most %d, %d and %d goroutines, and %d, %d and %d MiB of memory",
		countOutcomes(o.history), o.responses, o.slowest, goroutines, goroutinesDuring, goroutinesAfter,
		memory>>20, memoryDuring>>20, memoryAfter>>20)
	if n, limit := max(goroutinesDuring, goroutinesAfter), goroutines+goroutinesMax; n > limit {
		o.violations = append(o.violations, fmt.Errorf("the server had %d goroutines, want at most %d", n, limit))
	}
	if n, limit := max(memoryDuring, memoryAfter), memory+memoryBytesMax; n > limit {
		o.violations = append(o.violations, fmt.Errorf("the server had %d bytes of memory, want at most %d", n, limit))
	}
}

func (o *outage) setNow(at *time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	*at = time.Now()
}

// runClient sends plants at a limited rate, because a server may refuse requests at once.
func (o *outage) runClient(ctx context.Context, done <-chan struct{}, number int64) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for id := number; ; id += outageClients {
		sent := time.Now()
		op := o.plants.send(ctx, id, content{name: "Rosa"})
		o.record(&op, sent)
		select {
		case <-tick.C:
		case <-done:
			return
		}
	}
}

func (o *outage) record(op *operation, sent time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.history = append(o.history, *op)
	o.slowest = max(o.slowest, op.end.Sub(sent))
	if o.ended.IsZero() && !o.started.IsZero() && sent.Sub(o.started) > time.Second {
		o.responses++
	}
	unavailable := op.outcome == unknown && op.status == http.StatusServiceUnavailable
	if op.outcome != created && op.outcome != busy && !unavailable {
		o.violations = append(o.violations, fmt.Errorf("response other than 200 and 503: %s", op))
	}
	after := sent.Sub(o.ended)
	switch {
	case o.ended.IsZero() || after < 0:
	case op.outcome == created:
		o.recovered[op.id%outageClients] = true
	case after > recoveryMax():
		o.violations = append(o.violations, fmt.Errorf("%s after the outage: %s", after, op))
	}
}

// measure returns the largest numbers of goroutines and bytes of memory that the server has, for a time and until
// happened, which it calls with mu, returns true. It is a violation if that does not happen.
func (o *outage) measure(length time.Duration, event string, happened func() bool) (goroutines, memory int64) {
	began := time.Now()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		text, err := o.server.Metrics(o.t.Context(), o.token)
		if err != nil {
			o.t.Fatalf("%v\n%s", err, o.server.Log())
		}
		goroutines = max(goroutines, gauge(text, "go_goroutines"))
		memory = max(memory, gauge(text, "process_resident_memory_bytes"))
		o.mu.Lock()
		done, late := happened(), time.Since(began) > eventMax
		if !done && late {
			o.violations = append(o.violations, fmt.Errorf("no %s within %s", event, eventMax))
		}
		o.mu.Unlock()
		if late || done && time.Since(began) > length {
			return goroutines, memory
		}
		<-tick.C
	}
}

// gauge returns the value of a metric; -1 if the text does not have it.
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
