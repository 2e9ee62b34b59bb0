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

// Weaknesses that these tests must detect.
var (
	ignoredSync = rig.Weakness{
		File: "internal/sqlite/sqlite3/sync_linux.go",
		Old:  "\t\tif err != nil {\n\t\t\treturn lib.SQLITE_IOERR_FSYNC, true\n",
		New:  "\t\tif err != nil {\n\t\t\treturn lib.SQLITE_OK, true\n",
	}
	ignoredReplaySync = rig.Weakness{
		File: "internal/sqlite/transact.go",
		Old:  "if err := e.wal.Sync(); err != nil {",
		New:  "if err := e.wal.Sync(); err != nil && e.wal == nil {",
	}
	ignoredWrite = rig.Weakness{
		File: "internal/sqlite/sqlite3/writebuffer.go",
		Old:  "\treturn f.writeWAL(tls, b.bytes, int32(used), b.offset)\n",
		New:  "\tf.writeWAL(tls, b.bytes, int32(used), b.offset)\n\treturn lib.SQLITE_OK\n",
	}
	ignoredStartSync = rig.Weakness{
		File: "internal/sqlite/engine.go",
		Old:  "if err := e.writer.SyncFile(); err != nil {",
		New:  "if err := e.writer.SyncFile(); err != nil && e.writer == nil {",
	}
)

// syncsFail are permanent failures of the WAL's syncs. SQLite uses fsync for the first sync of a new WAL, and the
// program fdatasync for all others.
var syncsFail = []fault{
	{row{"fdatasync", "EIO", "wal"}, 1, true},
	{row{"fsync,fdatasync", "EIO", "wal"}, 1, true},
	{row{"fsync,fdatasync", "ENOSPC", "wal"}, 1, true},
}

// violations returns the acknowledgements of a run in which every sync of the WAL failed.
func violations(run *served) (violations []string) {
	if !run.ready {
		return []string{fmt.Sprintf("the server did not start; exit code %d", run.code)}
	}
	if run.in.calls == 0 {
		return []string{"no sync failed"}
	}
	for _, a := range run.acknowledged(time.Time{}) {
		violations = append(violations, fmt.Sprintf("plant %d was acknowledged without a sync", a.id))
	}
	return violations
}

// TestNoAcknowledgementWithoutSync makes every sync of the WAL fail. The server must not acknowledge a plant, neither a
// new one nor a replay.
func TestNoAcknowledgementWithoutSync(t *testing.T) {
	prepare(t)
	for _, f := range syncsFail {
		t.Run(f.name()+"/"+storeRunning+"/"+f.when(), func(t *testing.T) {
			t.Parallel()
			run := serve(t, f, base.program, storeRunning, usual)
			for _, violation := range violations(run) {
				t.Error(violation)
			}
			if run.code != 74 {
				t.Errorf("exit code %d, want 74", run.code)
			}
		})
	}
}

// TestNoReplayWithoutSync sends only stored plants.
func TestNoReplayWithoutSync(t *testing.T) {
	prepare(t)
	for _, f := range syncsFail[1:] {
		t.Run(f.name()+"/"+storeRunning+"/"+f.when(), func(t *testing.T) {
			t.Parallel()
			run := serve(t, f, base.program, storeRunning, replayLoad)
			for _, violation := range violations(run) {
				t.Error(violation)
			}
			if run.code != 74 {
				t.Errorf("exit code %d, want 74", run.code)
			}
		})
	}
}

// startSyncs are the syncs that must succeed before a server is ready: of the database, of its WAL if it has one, and
// of the directory.
var startSyncs = []struct {
	fault
	store string
}{
	{fault{row{"fdatasync", "EIO", "db"}, 1, true}, storeClean},
	{fault{row{"fdatasync", "EIO", "db"}, 1, true}, storeWAL},
	{fault{row{"fsync,fdatasync", "EIO", "wal"}, 1, true}, storeWAL},
	{fault{row{"fsync", "EIO", fileDir}, 1, true}, storeClean},
}

// TestNoStartWithoutSync makes the syncs of the start fail.
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

// TestControl runs programs with weaknesses. The checks must detect each of them.
func TestControl(t *testing.T) {
	prepare(t)
	for _, c := range []struct {
		name     string
		weak     rig.Weakness
		store    string
		fault    fault
		load     load
		detected func(*testing.T, *served) bool
	}{
		{"ignored sync", ignoredSync, storeRunning, syncsFail[0], usual, acknowledged},
		{"ignored sync of a replay", ignoredReplaySync, storeRunning, syncsFail[1], replayLoad, acknowledged},
		{"ignored sync of the start", ignoredStartSync, storeClean, startSyncs[0].fault, load{}, ready},
		{"ignored write", ignoredWrite, storeRunning, fault{row{"pwrite64", "EIO", "wal"}, 1, true}, usual, lost},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			run := weakened(t, c.weak, c.store, c.fault, c.load)
			if run.in.calls == 0 || !c.detected(t, run) {
				t.Errorf("the weakness was not detected; ready: %v, %d calls failed, exit code %d",
					run.ready, run.in.calls, run.code)
			}
		})
	}
}

func ready(_ *testing.T, run *served) bool { return run.ready }

// acknowledged reports whether the server acknowledged a plant after a failed sync.
func acknowledged(t *testing.T, run *served) bool {
	t.Helper()
	found := run.acknowledged(run.in.first)
	t.Logf("%d plants were acknowledged after a failed sync", len(found))
	return len(found) > 0
}

// lost reports whether acknowledged plants are missing or the store is unreadable. It removes the commit mark, which
// would also reveal the loss.
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

// weakened runs a server with a weakness and a fault.
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

// TestUnready delays the end of a broken server by an incomplete request. Until then the server must not be ready.
func TestUnready(t *testing.T) {
	prepare(t)
	f := syncsFail[0]
	db := copyStore(t, storeRunning)
	s, err := rig.Start(t, base.program, db, f.strace(storeRunning, db, filepath.Join(t.TempDir(), "trace")))
	if err != nil {
		t.Fatal(err)
	}
	arm(t, db)
	finish := startRequest(t, s)
	c := newClient()
	outcome, status := c.Create(t.Context(), s.URL, 1000, nameOf(1000))
	if outcome != rig.Unknown || status != http.StatusServiceUnavailable {
		t.Errorf("a plant with a failed sync: status %d, want 503 with an unknown outcome", status)
	}
	rig.Within(t, time.Minute, time.Millisecond, "the broken server is not ready", func() bool {
		return isBroken(t.Context(), s)
	})
	if status := finish(); status != http.StatusServiceUnavailable {
		t.Errorf("the completed request has status %d, want 503", status)
	}
	select {
	case <-s.Ended():
	case <-time.After(stopTimeMax):
		t.Fatalf("the server did not end:\n%s", s.Log())
	}
	checkEnd(t, s.Log(), s.ExitCode())
	if s.ExitCode() != 74 {
		t.Errorf("exit code %d, want 74", s.ExitCode())
	}
}

// startRequest sends a request without the last byte of its body. finish sends that byte and returns the status.
func startRequest(t *testing.T, s *rig.Server) (finish func() int) {
	t.Helper()
	host := strings.TrimPrefix(s.URL, "http://")
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	body := `{"id":1001,"name":"late"}`
	_, err = fmt.Fprintf(conn, "POST /plants HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n",
		host, base.token, len(body))
	if err != nil {
		t.Fatal(err)
	}
	read := bufio.NewReader(conn)
	const want = "HTTP/1.1 100 Continue\r\n" // the server reads the body
	if line, err := read.ReadString('\n'); err != nil || line != want {
		t.Fatalf("got %q, %v, want %q", line, err, want)
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
		response, err := http.ReadResponse(read, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		return response.StatusCode
	}
}
