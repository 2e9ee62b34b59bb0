package syscalls

import (
	"context"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"plantstore/faults/rig"
)

// serverRows are the system calls of a server, with errors of real disks.
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

// serverRowsLong are only in the long form. There is no fcntl: SQLite does not see a failed unlock, which local file
// systems do not have.
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
	{"stat,newfstatat", "EIO", "db"},
	{"stat,newfstatat", "EIO", "wal"},
	{"read", "EIO", "mark"},
	{"flock", "EIO", "ticket"},
	{"flock", "EIO", "serve"},
}

// storesOf returns the stores of a row. A call with a file name cannot be limited to a running server. The short form
// excludes the clean store, with which a server makes the fewest calls.
func storesOf(r row) (stores []string) {
	if *long {
		stores = append(stores, storeClean)
	}
	stores = append(stores, storeWAL)
	if !strings.HasPrefix(r.calls, "open") && r.calls != "unlink" && !strings.HasPrefix(r.calls, "stat") {
		stores = append(stores, storeRunning)
	}
	return stores
}

// TestServer makes each system call of a server under load fail.
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

// checkpointLoads are loads that cause a checkpoint: plants on many pages, and many commits to few pages. With the
// latter the last write of a checkpoint is among the first K.
func checkpointLoads() []load {
	if *long {
		return []load{largeLoad, manyLoad}
	}
	return []load{largeLoad}
}

// TestCheckpoint is TestServer with enough load for a checkpoint of the running server.
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
					return serve(t, f, base.program, storeRunning, w).in.calls > 0
				})
			})
		}
	}
}

// served is the result of one run of a server.
type served struct {
	in    injected
	ready bool // the server became ready
	code  int  // exit code
	db    string
	ledger
}

// serve runs a server with a fault on a copy of a prepared store, and checks its responses and the store.
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
		if straceFailed(t, s.Log()) {
			return serve(t, f, program, store, w, flags...)
		}
		run.checkResponses(t, ended)
	case !errors.Is(err, rig.ErrEnded):
		t.Fatal(err)
	case straceFailed(t, s.Log()):
		return serve(t, f, program, store, w, flags...)
	}
	run.code, run.in = s.ExitCode(), readTrace(t, trace)
	checkEnd(t, s.Log(), run.code)
	if run.code != 0 && run.in.calls == 0 {
		t.Errorf("exit code %d without a failed call:\n%s", run.code, s.Log())
	}
	if !run.ready && run.code == 0 {
		t.Errorf("exit code 0 from a server that was never ready:\n%s", s.Log())
	}
	// After a failed open SQLite opens the file again for reading only, and reports the error of that call.
	reported := f.calls != "open" || f.forever
	if reported && !run.ready && f.errno == "EIO" && run.code != 74 {
		t.Errorf("exit code %d from a server with a failed disk, want 74:\n%s", run.code, s.Log())
	}
	if f.failsSync() && run.in.calls > 0 {
		for _, a := range run.acknowledged(run.in.first) {
			t.Errorf("plant %d was sent and acknowledged after a failed sync of the WAL", a.id)
		}
	}
	checkRestart(t, db, store, run)
	stored, unknown, busy := run.count()
	t.Logf("%d calls failed; ready: %v; %d plants stored, %d unknown, %d busy; exit code %d",
		run.in.calls, run.ready, stored, unknown, busy, run.code)
	t.Log(reason(s.Log()))
	if t.Failed() {
		t.Logf("log:\n%s", s.Log())
	}
	return run
}

// reason returns the last line of a log.
func reason(log string) string {
	log = strings.TrimSpace(log)
	return log[strings.LastIndexByte(log, '\n')+1:]
}

// stop waits for the end of a broken server, and shuts down another one. It reports whether the server ended by itself,
// which requires exit code 74.
func stop(t *testing.T, s *rig.Server) (itself bool) {
	t.Helper()
	if itself = isBroken(t.Context(), s); !itself {
		// The signal goes to the process group: strace does not pass it on.
		if err := syscall.Kill(-s.Command.Process.Pid, syscall.SIGTERM); err != nil {
			t.Errorf("stop the server: %v", err)
		}
	}
	select {
	case <-s.Ended():
	case <-time.After(stopTimeMax):
		s.Kill()
		t.Fatalf("the server did not end; broken: %v\n%s", itself, s.Log())
	}
	if itself && s.ExitCode() != 74 && !straceFailed(t, s.Log()) {
		t.Errorf("the server ended by itself with code %d, want 74", s.ExitCode())
	}
	return itself
}

const stopTimeMax = 20 * time.Second

// isBroken requests /readyz and reports whether the server is about to end by itself, or has ended. A server that only
// cannot read is not ready and stays, because the disk may return.
func isBroken(ctx context.Context, s *rig.Server) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Admin+"/readyz", nil)
	if err != nil {
		return true
	}
	c := http.Client{Timeout: stopTimeMax}
	defer c.CloseIdleConnections()
	response, err := c.Do(r)
	if err != nil {
		return true
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return err != nil || strings.Contains(string(body), "the store failed")
}

// checkRestart starts the server again without a fault, and compares the store with the responses.
func checkRestart(t *testing.T, db, store string, run *served) {
	t.Helper()
	started := time.Now()
	s, err := rig.Start(t, base.program, db, nil)
	if err != nil {
		t.Errorf("the server did not start again: %v", err)
		return
	}
	if took := time.Since(started); took > restartTimeMax {
		t.Errorf("the restart took %v, want at most %v", took, restartTimeMax)
	}
	if code := s.Stop(); code != 0 {
		t.Errorf("the restarted server ended with code %d:\n%s", code, s.Log())
	}
	plants, err := rig.Export(t, base.program, db)
	if err != nil {
		t.Error(err)
		return
	}
	for _, err := range run.check(preparedOf(store), plants) {
		t.Error(err)
	}
	verify(t, "--db", db)
}

const restartTimeMax = time.Minute // on a loaded machine
