package backup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"plantstore/internal/audit"
	"plantstore/internal/sqlite"
	"plantstore/internal/sqlite/backupfile"
)

// rig is a service that makes a backup an hour and keeps two, in a directory.
type rig struct {
	*Service

	t   *testing.T
	dir string // has the backups
	log *logLines

	mu     sync.Mutex
	events []audit.Event // guarded by mu
}

func newRig(t *testing.T) *rig {
	t.Helper()
	backups := filepath.Join(t.TempDir(), "backups")
	if err := os.Mkdir(backups, 0o700); err != nil {
		t.Fatal(err)
	}
	return newRigAt(t, backups, Config{Destination: backups})
}

// newRigAt returns a rig whose destination is in a directory.
func newRigAt(t *testing.T, backups string, c Config) *rig {
	t.Helper()
	dir := t.TempDir()
	db := filepath.Join(dir, "p.db")
	e, err := sqlite.Open(t.Context(), sqlite.Config{Path: db, Log: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = e.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, dir: backups, log: &logLines{}}
	c.DB, c.Scratch, c.Every, c.Keep = db, dir, time.Hour, 2
	c.By, c.Record = audit.Origin{Actor: audit.Actor{Kind: audit.User, ID: "0"}}, r.record
	c.Log, c.Metrics = slog.New(slog.NewJSONHandler(r.log, nil)), prometheus.NewRegistry()
	r.Service, err = New(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) record(e audit.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// start runs the schedule until the test ends.
func (r *rig) start() {
	r.Start()
	r.t.Cleanup(r.Close)
	synctest.Wait()
}

// advance waits for some time of the bubble.
func (r *rig) advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// nameAt returns the name of a backup made d from now.
func (r *rig) nameAt(d time.Duration) string {
	return r.names.nameAt(time.Now().Add(d), scheduledEnd)
}

// copyAs makes a complete backup with a name in the directory.
func (r *rig) copyAs(name string) {
	r.t.Helper()
	if _, err := backupfile.Backup(r.t.Context(), r.config.DB, filepath.Join(r.dir, name), "", nil); err != nil {
		r.t.Fatal(err)
	}
}

// bytesOf returns the size in the manifest of a backup.
func (r *rig) bytesOf(name string) string {
	r.t.Helper()
	m, err := backupfile.ReadManifest(filepath.Join(r.dir, name) + backupfile.ManifestSuffix)
	if err != nil {
		r.t.Fatal(err)
	}
	return fmt.Sprint(m.Bytes)
}

func (r *rig) write(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// want compares the files in the directory, the log since the last call, and the metrics.
func (r *rig) want(when string, files, log []string, last time.Time, failed, notRemoved float64) {
	r.t.Helper()
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		r.t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		if name := entry.Name(); !strings.HasSuffix(name, backupfile.ManifestSuffix) && !strings.HasPrefix(name, "p.") {
			names = append(names, entry.Name())
		}
	}
	slices.Sort(files)
	if diff := cmp.Diff(files, names); diff != "" {
		r.t.Errorf("%s: files, -want +got:\n%s", when, diff)
	}
	if diff := cmp.Diff(log, r.log.newLines(r.t)); diff != "" {
		r.t.Errorf("%s: log, -want +got:\n%s", when, diff)
	}
	for _, metric := range []struct {
		name      string
		got, want float64
	}{
		{"last success", testutil.ToFloat64(r.last), unixOrZero(last)},
		{"failed", float64(r.failed.Load()), failed},
		{"not removed", testutil.ToFloat64(r.notRemoved), notRemoved},
	} {
		if metric.got != metric.want {
			r.t.Errorf("%s: %s is %v, want %v", when, metric.name, metric.got, metric.want)
		}
	}
}

func unixOrZero(at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return float64(at.Unix())
}

// logLines is a log of lines with level, message, file and error.
type logLines struct {
	mu   sync.Mutex
	text []byte // guarded by mu
}

// Write implements io.Writer.
func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	return len(p), nil
}

// contains reports whether a line since the last call of newLines has this text.
func (l *logLines) contains(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Contains(l.text, []byte(text))
}

// newLines returns the lines since the last call.
func (l *logLines) newLines(t *testing.T) (lines []string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for text := range strings.Lines(string(l.text)) {
		var line struct{ Level, Msg, File, Error string }
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("%s %s %s: %s", line.Level, line.Msg, filepath.Base(line.File), line.Error)
		lines = append(lines, strings.TrimSuffix(text, ": "))
	}
	l.text = nil
	return lines
}

// TestScheduleIgnores tests that other files with the name of a backup neither stop the schedule nor are removed, and
// that the log names each once.
func TestScheduleIgnores(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		const future = "p-99991231T235959Z.db"
		bare, cut, link := r.nameAt(-30*time.Minute), r.nameAt(-20*time.Minute), r.nameAt(-10*time.Minute)
		r.write(future, "anything")
		r.write(bare, "anything")
		r.copyAs(cut)
		r.write(cut, "x")
		if err := os.Symlink(future, filepath.Join(r.dir, link)); err != nil {
			t.Fatal(err)
		}
		r.write("p-notes.txt", "a file with another name")
		ignored := []string{future, bare, cut, link, "p-notes.txt"}

		started := time.Now()
		first := r.nameAt(0)
		r.start()
		const warning = "WARN ignored a file in the backup directory "
		r.want("at once", append([]string{first}, ignored...), []string{
			warning + bare + ": " + filepath.Join(r.dir, bare) +
				".json: the manifest is missing, so nothing shows whether the backup is complete",
			warning + cut + ": it has 1 bytes; its manifest has " + r.bytesOf(cut),
			warning + link + ": " + filepath.Join(r.dir, link) + " is a symbolic link, not a regular file",
			warning + future + ": its name has a time in the future",
			"INFO backup made " + first,
		}, started, 0, 0)

		var names []string
		for range 3 {
			names = append(names, r.nameAt(time.Hour))
			r.advance(time.Hour)
		}
		r.want("later", append(names[1:], ignored...),
			[]string{
				"INFO backup made " + names[0],
				"INFO backup made " + names[1], "INFO removed an old backup " + first,
				"INFO backup made " + names[2], "INFO removed an old backup " + names[0],
			},
			started.Add(3*time.Hour), 0, 0)
	})
}

// TestScheduleContinues tests that a server continues the schedule of an earlier one, and that its gauge shows the
// time of the newest backup, even if the earlier server made it.
func TestScheduleContinues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		started := time.Now()
		old := r.nameAt(-40 * time.Minute)
		r.copyAs(old)
		r.start()
		r.advance(20*time.Minute - time.Second)
		due := started.Add(20 * time.Minute).Truncate(time.Second)
		want := Schedule{Destination: r.dir, Every: time.Hour, Keep: 2, Next: due}
		if diff := cmp.Diff(want, r.Schedule()); diff != "" {
			t.Errorf("schedule (-want +got):\n%s", diff)
		}
		r.want("before it is due", []string{old}, nil, started.Add(-40*time.Minute), 0, 0)
		name := r.nameAt(time.Second)
		r.advance(time.Second)
		r.want("when it is due", []string{old, name}, []string{"INFO backup made " + name}, time.Now(), 0, 0)
	})
}

// TestScheduleRetries tests that the server retries a failed backup after a minute, and that a backup succeeds even if
// an old one cannot be removed.
func TestScheduleRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		started := time.Now()
		oldest, old := r.nameAt(-2*time.Hour), r.nameAt(-time.Hour)
		r.copyAs(oldest)
		r.copyAs(old)
		r.to.(*directory).removeFile = func(string) error { return errors.New("not allowed") }
		blocked := r.nameAt(0)
		r.write(blocked+backupfile.ManifestSuffix, "in the way")
		r.start()
		failure := "ERROR backup failed " + blocked + ": " +
			filepath.Join(r.dir, blocked) + ".json already exists; use a new file"
		r.want("a failure", []string{oldest, old}, []string{failure}, started.Add(-time.Hour), 1, 0)
		name := r.nameAt(time.Minute)
		r.advance(time.Minute)
		r.want("a minute later", []string{oldest, old, name}, []string{
			"INFO backup made " + name,
			"WARN could not remove an old backup " + oldest + ": not allowed",
		}, time.Now(), 1, 1)
	})
}

// TestFailuresOfOneReason tests that one job stands for the scheduled backups that failed for the same reason since the
// last one that was made.
func TestFailuresOfOneReason(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		started := time.Now().UTC()
		for i := range 70 {
			r.write(r.nameAt(time.Duration(i)*time.Minute)+backupfile.ManifestSuffix, "in the way")
		}
		r.start()
		r.advance(65 * time.Minute)
		want := func(when string, failures int, since time.Time, states ...string) {
			t.Helper()
			jobs := r.Jobs()
			if len(jobs) != len(states) || jobs[0].Failures != failures || !jobs[0].FailingSince.Equal(since) {
				t.Errorf("%s: got %+v, want %d failures since %s", when, jobs, failures, since)
			}
			for i := range jobs {
				if jobs[i].State != states[i] {
					t.Errorf("%s: job %d: got %+v, want it %s", when, i, jobs[i], states[i])
				}
			}
		}
		want("65 minutes later", 66, started, JobFailed)
		if err := os.Rename(r.dir, r.dir+".away"); err != nil {
			t.Fatal(err)
		}
		r.advance(time.Minute)
		want("after another failure", 1, started.Add(66*time.Minute), JobFailed, JobFailed)
		if err := os.Rename(r.dir+".away", r.dir); err != nil {
			t.Fatal(err)
		}
		r.advance(time.Minute)
		want("after the old one again", 67, started, JobFailed, JobFailed)
		r.advance(3 * time.Minute)
		want("after a backup", 0, time.Time{}, JobComplete, JobFailed, JobFailed)
	})
}

// TestScheduleOtherStore tests that a server refuses a directory with the backups of another store of the same name.
func TestScheduleOtherStore(t *testing.T) {
	t.Parallel()
	r, other := newRig(t), newRig(t)
	other.dir = r.dir // has its copies
	names := []string{r.nameAt(-3 * time.Minute), r.nameAt(-2 * time.Minute), r.nameAt(-time.Minute)}
	for _, name := range names {
		other.copyAs(name)
	}
	err := r.Claim(t.Context())
	if _, owned := errors.AsType[*OwnedError](err); !owned || !strings.Contains(err.Error(), "another store") {
		t.Errorf("claim: %v", err)
	}
	if all, err := os.ReadDir(r.dir); err != nil || len(all) != 2*len(names) {
		t.Errorf("the directory has %v, %v", all, err)
	}
}

// TestScheduleKeepsManifest tests that a backup that cannot be removed keeps its manifest, which a restore needs.
func TestScheduleKeepsManifest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		oldest := r.nameAt(-3 * time.Hour)
		for _, name := range []string{oldest, r.nameAt(-2 * time.Hour)} {
			r.copyAs(name)
		}
		r.to.(*directory).removeFile = func(path string) error {
			if filepath.Base(path) == oldest {
				return errors.New("not allowed")
			}
			return os.Remove(path)
		}
		r.start()
		if _, err := backupfile.BackupManifest(filepath.Join(r.dir, oldest)); err != nil {
			t.Error(err)
		}
		if got := testutil.ToFloat64(r.notRemoved); got != 1 {
			t.Errorf("%v backups counted as not removed, want 1", got)
		}
	})
}

// TestScheduleNamesFewIgnored tests that a directory full of ignored files does not fill the log.
func TestScheduleNamesFewIgnored(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range ignoredMax + 10 {
		r.write(r.nameAt(time.Duration(-i)*time.Hour), "")
	}
	if _, err := r.scheduled(); err != nil {
		t.Fatal(err)
	}
	if got := len(r.log.newLines(t)); got != ignoredMax {
		t.Errorf("%d warnings, want %d", got, ignoredMax)
	}
}
