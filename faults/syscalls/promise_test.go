package syscalls

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plantstore/faults/rig"
)

// Weaknesses that these tests must notice.
var (
	deafSync = rig.Weakness{
		File: "internal/sqlite/sqlite3/sync_linux.go",
		Old:  "\t\tif err != nil {\n\t\t\treturn lib.SQLITE_IOERR_FSYNC, true\n",
		New:  "\t\tif err != nil {\n\t\t\treturn lib.SQLITE_OK, true\n",
	}
	deafReplay = rig.Weakness{
		File: "internal/sqlite/write.go",
		Old:  "if err := e.wal.Sync(); err != nil {",
		New:  "if err := e.wal.Sync(); err != nil && e.wal == nil {",
	}
	deafWrite = rig.Weakness{
		File: "internal/sqlite/sqlite3/writebuffer.go",
		Old:  "\treturn write(tls, f.parent(), b.bytes, int32(used), b.offset)\n",
		New:  "\twrite(tls, f.parent(), b.bytes, int32(used), b.offset)\n\treturn lib.SQLITE_OK\n",
	}
	deafStart = rig.Weakness{
		File: "internal/sqlite/engine.go",
		Old:  "if err := e.writer.SyncFile(); err != nil {",
		New:  "if err := e.writer.SyncFile(); err != nil && e.writer == nil {",
	}
)

// syncsFail are syncs of the WAL that fail for ever, from the first on. SQLite uses fsync for
// the first sync of a new WAL, and the program fdatasync for all others.
var syncsFail = []fault{
	{row{"fdatasync", "EIO", "wal"}, 1, true},
	{row{"fsync,fdatasync", "EIO", "wal"}, 1, true},
	{row{"fsync,fdatasync", "ENOSPC", "wal"}, 1, true},
}

// brokenPromises lists what a run did that is forbidden once the sync of the
// WAL fails for ever.
func brokenPromises(run *served) (broken []string) {
	if !run.ready {
		return []string{fmt.Sprintf("the server did not start, with code %d", run.code)}
	}
	if run.in.calls == 0 {
		return []string{"no sync failed"}
	}
	for _, a := range run.acknowledged(time.Time{}) {
		broken = append(broken, fmt.Sprintf("plant %d was answered 200 without a sync", a.id))
	}
	return broken
}

// TestNoAnswerWithoutSync has every sync of the WAL fail: nothing may be
// answered 200, neither a new plant nor one that is there.
func TestNoAnswerWithoutSync(t *testing.T) {
	prepare(t)
	for _, f := range syncsFail {
		t.Run(f.name()+"/"+storeRunning+"/"+f.when(), func(t *testing.T) {
			t.Parallel()
			run := serve(t, f, base.program, storeRunning, usual)
			for _, what := range brokenPromises(run) {
				t.Error(what)
			}
			if run.code != 74 {
				t.Errorf("exit code %d, want 74", run.code)
			}
		})
	}
}

// TestNoReplayWithoutSync sends nothing but plants that are there already.
func TestNoReplayWithoutSync(t *testing.T) {
	prepare(t)
	for _, f := range syncsFail[1:] {
		t.Run(f.name()+"/"+storeRunning+"/"+f.when(), func(t *testing.T) {
			t.Parallel()
			run := serve(t, f, base.program, storeRunning, replayLoad)
			for _, what := range brokenPromises(run) {
				t.Error(what)
			}
			if run.code != 74 {
				t.Errorf("exit code %d, want 74", run.code)
			}
		})
	}
}

// startSyncs are the syncs without which a server must not become ready: those
// of the file, of its WAL if it has one, and of the directory.
var startSyncs = []struct {
	fault
	store string
}{
	{fault{row{"fdatasync", "EIO", "db"}, 1, true}, storeClean},
	{fault{row{"fdatasync", "EIO", "db"}, 1, true}, storeWAL},
	{fault{row{"fsync,fdatasync", "EIO", "wal"}, 1, true}, storeWAL},
	{fault{row{"fsync", "EIO", fileDir}, 1, true}, storeClean},
}

// TestNoStartWithoutSync has the syncs of the start fail.
func TestNoStartWithoutSync(t *testing.T) {
	prepare(t)
	for _, c := range startSyncs {
		t.Run(c.name()+"/"+c.store+"/"+c.when(), func(t *testing.T) {
			t.Parallel()
			if run := serve(t, c.fault, base.program, c.store, usual); run.ready {
				t.Error("the server became ready")
			}
		})
	}
}

// TestControl holds weakened programs against the promises: each must be seen
// to break them.
func TestControl(t *testing.T) {
	prepare(t)
	for _, c := range []struct {
		name  string
		weak  rig.Weakness
		store string
		fault fault
		load  load
		seen  func(*testing.T, *served) bool
	}{
		{"deaf sync", deafSync, storeRunning, syncsFail[0], usual, answered},
		{"deaf replay", deafReplay, storeRunning, syncsFail[1], replayLoad, answered},
		{"deaf start", deafStart, storeClean, startSyncs[0].fault, load{}, func(_ *testing.T, run *served) bool { return run.ready }},
		{"deaf write", deafWrite, storeRunning, fault{row{"pwrite64", "EIO", "wal"}, 1, true}, usual, lost},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := weakened(t, c.weak, c.store, c.fault, c.load)
			if run.in.calls == 0 || !c.seen(t, run) {
				t.Errorf("the weakness is not noticed; ready: %v, %d calls failed, exit code %d", run.ready, run.in.calls, run.code)
			}
		})
	}
}

// answered reports whether a plant was answered 200 that must not be.
func answered(t *testing.T, run *served) bool {
	t.Helper()
	found := run.acknowledged(run.in.first)
	t.Logf("%d plants were answered 200 after a sync had failed", len(found))
	return len(found) > 0
}

// lost reports whether the ledger misses plants, or the store cannot be read.
// The mark, which tells, too, is taken away.
func lost(t *testing.T, run *served) bool {
	t.Helper()
	if err := os.Remove(run.db + suffixes["mark"]); err != nil {
		t.Fatal(err)
	}
	plants, err := rig.Export(t, base.program, run.db)
	wrong := run.check(preparedClean, plants)
	t.Logf("%d plants are wrong (%v)", len(wrong), err)
	return err != nil || len(wrong) > 0
}

// weakened runs a weakened server with a fault in it.
func weakened(t *testing.T, weak rig.Weakness, store string, f fault, w load) *served {
	t.Helper()
	program := rig.Build(t, weak)
	db := copyStore(t, store)
	trace := filepath.Join(t.TempDir(), "trace")
	s, err := rig.Start(t, program, db, f.strace(store, db, trace))
	run := &served{ready: err == nil, db: db}
	if err != nil && !errors.Is(err, rig.ErrEnded) {
		t.Fatal(err)
	}
	if run.ready {
		if store == storeRunning {
			arm(t, db)
		}
		run.play(t.Context(), w, s)
		stop(t, s)
	}
	run.code, run.in = s.ExitCode(), readTrace(t, trace)
	return run
}

// TestUnready keeps a broken server from ending, by a request that does not
// arrive whole, and asks it meanwhile whether it is ready.
func TestUnready(t *testing.T) {
	prepare(t)
	f := syncsFail[0]
	db := copyStore(t, storeRunning)
	s, err := rig.Start(t, base.program, db, f.strace(storeRunning, db, filepath.Join(t.TempDir(), "trace")))
	if err != nil {
		t.Fatal(err)
	}
	arm(t, db)
	late := holdOpen(t, s)
	c := newClient()
	if o, status := c.Create(t.Context(), s.URL, 1000, nameOf(1000)); o != rig.Unknown || status != http.StatusServiceUnavailable {
		t.Errorf("a plant whose sync failed was answered %d, want 503, unknown", status)
	}
	rig.Within(t, 5*time.Second, time.Millisecond, "the broken server is unready", func() bool { return !readiness(t.Context(), s) })
	if status := late(); status != http.StatusServiceUnavailable {
		t.Errorf("a plant that arrived late was answered %d, want 503", status)
	}
	select {
	case <-s.Ended():
	case <-time.After(stopTimeMax):
		t.Fatalf("the server does not end:\n%s", s.Log())
	}
	checkEnd(t, s.Log(), s.ExitCode())
	if s.ExitCode() != 74 {
		t.Errorf("exit code %d, want 74", s.ExitCode())
	}
}

// holdOpen sends all of a request but its end, when the server has asked for
// its body. What it returns sends the end,
// and returns the answer's status.
func holdOpen(t *testing.T, s *rig.Server) func() int {
	t.Helper()
	host := strings.TrimPrefix(s.URL, "http://")
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	body := `{"id":1001,"name":"late"}`
	_, err = fmt.Fprintf(conn, "POST /plants HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n",
		host, base.token, len(body))
	if err != nil {
		t.Fatal(err)
	}
	read := bufio.NewReader(conn)
	if line, err := read.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" { // the server reads the body
		t.Fatalf("%q, %v; want to be told to go on", line, err)
	}
	if _, err := read.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, body[:len(body)-1]); err != nil {
		t.Fatal(err)
	}
	return func() int {
		if _, err := io.WriteString(conn, body[len(body)-1:]); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(read, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		return answer.StatusCode
	}
}
