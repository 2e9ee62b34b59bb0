package postgres_test

import (
	"errors"
	"log/slog"
	"math"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/postgres"
	"plantstore/internal/store"
	"plantstore/internal/writepath"
)

// link is a proxy between an engine and its database. It can be cut, or hang: then it accepts connections and forwards
// nothing.
type link struct {
	t           *testing.T
	dir, target string // the directories of its socket and of the database's

	running sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener // nil: cut; guarded by mu
	hanging  bool         // guarded by mu
	conns    []net.Conn   // guarded by mu
}

// newLink returns a link to a database, and the URL of the database through the link.
func newLink(t *testing.T, at string) (*link, string) {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "link") // not TMPDIR: the path of a socket has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	l := &link{t: t, dir: dir, target: u.Query().Get("host")}
	l.join()
	t.Cleanup(func() {
		l.cut()
		l.running.Wait()
		_ = os.RemoveAll(dir)
	})
	return l, strings.Replace(at, url.QueryEscape(l.target), url.QueryEscape(l.dir), 1)
}

const socket = ".s.PGSQL.5432"

// join accepts connections and forwards their bytes.
func (l *link) join() {
	listener, err := net.Listen("unix", filepath.Join(l.dir, socket))
	if err != nil {
		l.t.Fatal(err)
	}
	l.mu.Lock()
	l.listener, l.hanging = listener, false
	l.mu.Unlock()
	l.running.Go(func() { // ends with the listener
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("unix", filepath.Join(l.target, socket))
			if err != nil {
				l.t.Error(err)
				return
			}
			l.mu.Lock()
			l.conns = append(l.conns, in, out)
			l.mu.Unlock()
			l.running.Go(func() { l.pass(in, out) }) // both end when a connection is closed, at the latest by cut
			l.running.Go(func() { l.pass(out, in) })
		}
	})
}

// pass forwards bytes until the link hangs.
func (l *link) pass(from, to net.Conn) {
	buffer := make([]byte, 4096)
	for {
		n, err := from.Read(buffer)
		l.mu.Lock()
		hanging := l.hanging
		l.mu.Unlock()
		if hanging {
			return
		}
		if err == nil {
			_, err = to.Write(buffer[:n])
		}
		if err != nil {
			_ = to.Close()
			return
		}
	}
}

// hang stops the forwarding. The link still accepts connections, until cut.
func (l *link) hang() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hanging = true
}

// cut closes all connections and refuses new ones.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener != nil {
		_ = l.listener.Close() // removes the socket
	}
	for _, c := range l.conns {
		_ = c.Close()
	}
	l.listener, l.conns = nil, nil
}

// lines is a log.
type lines struct {
	mu  sync.Mutex
	all []string // guarded by mu
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(line))
	return len(line), nil
}

func (l *lines) get() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.all...)
}

// outage reports whether the last line is the start of an outage.
func (l *lines) outage() bool {
	all := l.get()
	return len(all) > 0 && strings.Contains(all[len(all)-1], "store unreachable")
}

// outageLog matches the log of outages. A machine that stops this process for a while causes further outages, and
// other causes: a time-out, or the loss of a connection in use.
var outageLog = regexp.MustCompile(`^(?:` + unreachable + reachable + `)+(?:` + unreachable + `)?$`)

const (
	unreachable = `time=\S+ level=ERROR msg="store unreachable" error="(?:no answer in time|` +
		"failed to connect to `user=postgres database=test\\d+`: [^;\n]*: connect: no such file or directory|" +
		`[^;\n]*(?:EOF|closed|reset|broken pipe|deadline exceeded)[^;\n]*)"\n`
	reachable = `time=\S+ level=INFO msg="store reachable again" outage_us=\d+ commits_failed=\d+ plants_failed=\d+\n`
)

// TestOutage loses the database while clients use the store: the store is not ready, and it logs the loss and the
// return once each.
func TestOutage(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*link){"cut": (*link).cut, "hangs": (*link).hang} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, at := newLink(t, database(t))
			e, err := postgres.Open(t.Context(), postgres.Config{URL: at})
			if err != nil {
				t.Fatal(err)
			}
			log := &lines{}
			s, err := writepath.New(t.Context(), writepath.Config{
				Engine: e, Commits: postgres.CommitsMax,
				Metrics: prometheus.NewRegistry(), Log: slog.New(slog.NewTextHandler(log, nil)),
				Limits: writepath.Limits{QueueMax: 100, Bytes: 1000, CommitTimeout: time.Minute, AnswerTimeout: time.Minute},
			})
			if err != nil {
				t.Fatal(err)
			}
			create := func(id int64) error {
				_, err := s.Create(nil, auth.Principal{}, plant.NewPlant{ID: id})
				return err
			}
			if err := create(0); err != nil {
				t.Fatal(err)
			}
			lose(l)
			var clients sync.WaitGroup
			for i := range int64(5) {
				clients.Go(func() { _ = create(1 + i); _, _ = s.Authenticate(t.Context(), auth.Mint()) })
			}
			until(t, "the store is not ready", func() bool { return s.Ready() != nil && log.outage() })
			l.cut()
			l.join()
			until(t, "the store is ready", func() bool { return s.Ready() == nil && !log.outage() })
			clients.Wait()
			if err := create(100); err != nil {
				t.Error(err)
			}
			s.Close()
			if err := e.Close(); err != nil {
				t.Error(err)
			}
			if got := strings.Join(log.get(), ""); !outageLog.MatchString(got) {
				t.Errorf("log:\n%swant\n%s", got, outageLog)
			}
		})
	}
}

// until polls a condition until it is true, for at most a minute.
func until(t *testing.T, name string, is func() bool) {
	t.Helper()
	late := time.NewTimer(time.Minute)
	defer late.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-late.C:
			t.Fatal("still not after a minute:", name)
		}
	}
}

// TestErrorText shows that an error of the driver is one line, with each cause once.
func TestErrorText(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"postgres://u@127.0.0.1:1,127.0.0.1:1,127.0.0.1:2/x?sslmode=disable": "" +
			"open the database x on 127.0.0.1 port 1: failed to connect to `user=u database=x`: " +
			"127.0.0.1:1 (127.0.0.1): dial error: dial tcp 127.0.0.1:1: connect: connection refused; " +
			"127.0.0.1:2 (127.0.0.1): dial error: dial tcp 127.0.0.1:2: connect: connection refused",
	} {
		_, err := postgres.Open(t.Context(), postgres.Config{URL: url})
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		var op *net.OpError
		if !errors.As(err, &op) {
			t.Error("the cause is lost")
		}
	}
}

// TestFullDisk has a trigger raise PostgreSQL's error for a full disk: the store refuses new plants but no replay, is
// not ready, and is ready again without a client.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	at := schema(t)
	e := place(at).Open(t)
	s, err := writepath.New(t.Context(), writepath.Config{Engine: e})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(nil, auth.Principal{}, plant.NewPlant{ID: 2}); err != nil {
		t.Fatal(err)
	}
	execute(t, at, `CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
			$$BEGIN RAISE 'could not extend file' USING ERRCODE = '53100'; END$$;
		CREATE TRIGGER full_disk AFTER INSERT ON plants FOR EACH ROW EXECUTE FUNCTION full_disk()`)
	_, err = s.Create(nil, auth.Principal{}, plant.NewPlant{ID: 1})
	if refusal := (*plant.Error)(nil); !errors.As(err, &refusal) || refusal.Code != plant.CodeStoreFull {
		t.Errorf("Create: %v", err)
	}
	both := []store.Create{{Plant: plant.NewPlant{ID: 1}}, {Plant: plant.NewPlant{ID: 2}}}
	if _, err := e.Insert(t.Context(), both); !errors.Is(err, store.ErrFull) {
		t.Errorf("a new plant and a replay: %v", err)
	}
	if outcomes, err := e.Insert(t.Context(), both[1:]); err != nil || !outcomes[0].Replayed {
		t.Errorf("a replay: %+v, %v", outcomes, err)
	}
	if rows, err := e.PlantsByID(t.Context(), []int64{1, 2}, 1<<20); err != nil || len(rows) != 1 || rows[0].ID != 2 {
		t.Errorf("PlantsByID: %+v, %v", rows, err)
	}
	until(t, "the store is not ready", func() bool { return s.Ready() != nil })
	execute(t, at, "DROP TRIGGER full_disk ON plants")
	until(t, "the store is ready", func() bool { return s.Ready() == nil })
	s.Close()
	if _, err := e.Get(t.Context(), math.MinInt64); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a probe left a plant: %v", err)
	}
}
