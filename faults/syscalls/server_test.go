package syscalls

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"plantstore/faults/rig"
)

// serverRows are the calls of a server. The errors are those that disks give.
var serverRows = []row{
	{"pwrite64", "EIO", "wal"},
	{"pwrite64", "ENOSPC", "wal"},
	{"pwrite64", "EDQUOT", "wal"},
	{"pwrite64", "EIO", "db"},
	{"pwrite64", "ENOSPC", "db"},
	{"pwrite64", "EIO", "shm"},
	{"pwrite64", "ENOSPC", "shm"},
	{"pwrite64", "EIO", "mark"},
	{"fsync", "EIO", "wal"},
	{"fsync", "EIO", fileDir},
	{"fsync", "EIO", "mark"},
	{"fdatasync", "EIO", "wal"},
	{"fdatasync", "ENOSPC", "wal"},
	{"fdatasync", "EIO", "db"},
	{"pread64", "EIO", "db"},
	{"pread64", "EIO", "wal"},
	{"ftruncate", "EIO", "wal"},
	{"ftruncate", "EIO", "db"},
	{"ftruncate", "EIO", "shm"},
	{"mmap", "ENOMEM", "shm"},
	{"open", "EIO", "db"},
	{"open", "EIO", "wal"},
	{"open", "EIO", "shm"},
	{"open", "EMFILE", fileDir},
	{"openat", "EIO", "mark"},
	{"openat", "EIO", "wal"},
	{"openat", "EIO", "serve"},
	{"openat", "EIO", "ticket"},
	{"openat", "EIO", fileDir},
	{"unlink", "EIO", "wal"},
	{"unlink", "EIO", "shm"},
}

// serverRowsLong are done in the long form alone. There is no fcntl: of an
// unlock that fails, which no local disk has, SQLite is never told.
var serverRowsLong = []row{
	{"pwrite64", "ENOSPC", "mark"},
	{"fsync", "ENOSPC", "wal"},
	{"fdatasync", "ENOSPC", "db"},
	{"ftruncate", "ENOSPC", "shm"},
	{"mmap", "EIO", "shm"},
	{"open", "ENOSPC", "wal"},
	{"openat", "EMFILE", "wal"},
	{"openat", "ENOSPC", "mark"},
	{"fstat", "EIO", "db"},
	{"fstat", "EIO", "wal"},
	{"fstat", "EIO", "shm"},
	{"stat", "EIO", "db"},
	{"stat", "EIO", "wal"},
	{"read", "EIO", "mark"},
	{"flock", "EIO", "ticket"},
	{"flock", "EIO", "serve"},
}

// storesOf returns the stores with which a row is worth a run. A call that
// names its file cannot be told apart by when it comes. The short form leaves
// out the store with which a server has the least to do.
func storesOf(r row) (stores []string) {
	if *long {
		stores = append(stores, storeClean)
	}
	stores = append(stores, storeWAL)
	if !strings.HasPrefix(r.calls, "open") && r.calls != "unlink" && r.calls != "stat" {
		stores = append(stores, storeRunning)
	}
	return stores
}

// TestServer makes each call of a server fail, under load.
func TestServer(t *testing.T) {
	prepare(t)
	rows := serverRows
	if *long {
		rows = append(rows, serverRowsLong...)
	}
	for _, r := range rows {
		for _, store := range storesOf(r) {
			t.Run(r.name()+"/"+store, func(t *testing.T) {
				t.Parallel()
				r.each(t, kMax, func(t *testing.T, f fault) bool {
					return serve(t, f, base.program, store, usual).in.calls > 0
				})
			})
		}
	}
}

// checkpointLoads are loads with which a WAL reaches the size at which it is
// copied: of plants on many pages, and of commits to few pages. Of the latter
// the last write of a checkpoint is one of the first K.
func checkpointLoads() []load {
	if *long {
		return []load{largeLoad, manyLoad}
	}
	return []load{largeLoad}
}

// TestCheckpoint is TestServer with so much load that the server empties its
// WAL while it runs.
func TestCheckpoint(t *testing.T) {
	prepare(t)
	for _, r := range []row{
		{"pwrite64", "EIO", "db"},
		{"pwrite64", "ENOSPC", "db"},
		{"fdatasync", "EIO", "db"},
		{"pread64", "EIO", "wal"},
	} {
		for _, w := range checkpointLoads() {
			t.Run(r.name()+"/"+storeRunning+"-"+w.name, func(t *testing.T) {
				t.Parallel()
				r.each(t, kMaxCheckpoint, func(t *testing.T, f fault) bool {
					return serve(t, f, base.program, storeRunning, w, "--wal-max", "32MiB").in.calls > 0
				})
			})
		}
	}
}

// served is what became of one run of a server.
type served struct {
	in    injected
	ready bool // it started
	code  int  // its exit code
	db    string
	ledger
}

// serve runs a server with a fault in it on a copy of a store, and holds what it
// does, and what it leaves, against its promises.
func serve(t *testing.T, f fault, program, store string, w load, flags ...string) *served {
	t.Helper()
	db := copyStore(t, store)
	trace := filepath.Join(t.TempDir(), "trace")
	s, err := rig.Start(t, program, db, f.strace(store, db, trace), flags...)
	run := &served{ready: err == nil, db: db}
	switch {
	case err == nil:
		if store == storeRunning {
			arm(t, db)
		}
		run.play(t.Context(), w, s)
		ended := stop(t, s)
		run.checkAnswers(t, ended)
	case !errors.Is(err, rig.ErrEnded):
		t.Fatal(err)
	}
	run.code, run.in = s.ExitCode(), readTrace(t, trace)
	checkEnd(t, s.Log(), run.code)
	if run.code != 0 && run.in.calls == 0 {
		t.Errorf("exit code %d, and nothing was made to fail:\n%s", run.code, s.Log())
	}
	if !run.ready && run.code == 0 {
		t.Errorf("exit code 0 of a server that was never ready:\n%s", s.Log())
	}
	// SQLite opens a file a second time to read it only, and then tells the
	// error of that.
	if told := f.calls != "open" || f.forever; told && !run.ready && f.errno == "EIO" && run.code != 74 {
		t.Errorf("exit code %d of a server that could not start because of the disk, want 74:\n%s", run.code, s.Log())
	}
	if f.failsSync() && run.in.calls > 0 {
		for _, a := range run.acknowledged(run.in.first) {
			t.Errorf("plant %d was sent after a sync of the WAL had failed, and answered 200", a.id)
		}
	}
	left(t, db, store, run)
	stored, unknown, busy := run.count()
	t.Logf("%d calls failed; ready: %v; %d plants were stored, %d unknown, %d busy; exit code %d", run.in.calls, run.ready, stored, unknown, busy, run.code)
	t.Log(reason(s.Log()))
	if t.Failed() {
		t.Logf("the log:\n%s", s.Log())
	}
	return run
}

// reason is what a program said at last.
func reason(log string) string {
	log = strings.TrimSpace(log)
	return log[strings.LastIndexByte(log, '\n')+1:]
}

// stop waits for the end of a server that is broken, and ends one that is not.
// It reports whether the server ended by itself, which must be with code 74.
func stop(t *testing.T, s *rig.Server) (itself bool) {
	t.Helper()
	if itself = !readiness(t.Context(), s); !itself {
		// To all of the group: strace itself holds the signal off.
		if err := syscall.Kill(-s.Command.Process.Pid, syscall.SIGTERM); err != nil {
			t.Errorf("stop the server: %v", err)
		}
	}
	select {
	case <-s.Ended():
	case <-time.After(stopTimeMax):
		s.Kill()
		t.Fatalf("the server does not end; by itself: %v\n%s", itself, s.Log())
	}
	if itself && s.ExitCode() != 74 {
		t.Errorf("the server ended by itself with code %d, want 74", s.ExitCode())
	}
	return itself
}

const stopTimeMax = 20 * time.Second

// readiness asks the server whether it is ready.
func readiness(ctx context.Context, s *rig.Server) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Admin+"/readyz", nil)
	if err != nil {
		return false
	}
	c := http.Client{Timeout: stopTimeMax}
	defer c.CloseIdleConnections()
	answer, err := c.Do(r)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// left starts the server once more, with nothing in its way, and holds what the
// store has against what was answered.
func left(t *testing.T, db, store string, run *served) {
	t.Helper()
	begun := time.Now()
	s, err := rig.Start(t, base.program, db, nil)
	if err != nil {
		t.Errorf("the server does not start again: %v", err)
		return
	}
	if took := time.Since(begun); took > restartTimeMax {
		t.Errorf("the server took %v to start again, want at most %v", took, restartTimeMax)
	}
	if code := s.Stop(); code != 0 {
		t.Errorf("the server that started again ended with code %d:\n%s", code, s.Log())
	}
	plants, err := rig.Export(t, base.program, db)
	if err != nil {
		t.Error(err)
		return
	}
	for _, what := range run.check(preparedOf(store), plants) {
		t.Error(what)
	}
	verify(t, "--db", db)
}

const restartTimeMax = 10 * time.Second
