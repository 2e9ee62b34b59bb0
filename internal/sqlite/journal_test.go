package sqlite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/audit"
	"plantstore/internal/sqlite"
	"plantstore/internal/sqlite/backupfile"
	"plantstore/internal/sqlite/journal"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/sqlite/sqlitetest"
	"plantstore/internal/store"
	"plantstore/internal/store/storetest"
)

// recorded is a file whose commits are recorded. At the end of the test, a backup from the start and the segments of
// the commits since then must restore the same content.
type recorded struct {
	file

	tampered *bool // another program has changed the file
}

func newRecorded(t testing.TB) storetest.Store {
	f := newFile(t).(file)
	base := filepath.Join(t.TempDir(), "base.db")
	e, err := sqlite.Open(t.Context(), sqlite.Config{Path: f.path})
	must(t, err)
	_, _, err = e.StartJournal(t.Context())
	must(t, err)
	must(t, e.Close())
	m, err := backupfile.Backup(t.Context(), f.path, base, "", nil)
	must(t, err)
	r := recorded{f, new(bool)}
	t.Cleanup(func() { // after the engines are closed
		if !*r.tampered && !t.Failed() {
			checkSegments(t, f.path, base, &m)
		}
	})
	return r
}

func (r recorded) Tamper(t testing.TB, sql string) {
	*r.tampered = true
	r.file.Tamper(t, sql)
}

func TestRecordedEngine(t *testing.T) {
	t.Parallel()
	storetest.Run(t, newRecorded)
}

// checkSegments compares the store at path with a backup and the segments of the commits since then.
func checkSegments(t testing.TB, path, base string, m *backupfile.Manifest) {
	t.Helper()
	segments := segmentsOf(t, path, m)
	restored := filepath.Join(t.TempDir(), "restored.db")
	restoreSegments(t, segments, math.MaxInt64, base, m, restored)
	if diff := cmp.Diff(contentOf(t, path), contentOf(t, restored)); diff != "" {
		t.Errorf("the store (-) and the backup with %d segments (+):\n%s", len(segments), diff)
	}
}

// restoreSegments restores a backup and the segments after it, up to a commit, to a new store at path.
func restoreSegments(
	t testing.TB, segments [][]byte, to int64, base string, m *backupfile.Manifest, path string,
) {
	t.Helper()
	in, err := os.Open(base)
	must(t, err)
	defer in.Close()
	ctx := context.WithoutCancel(t.Context()) // in a cleanup
	later := backupfile.Later{Repeat: func(r *backupfile.Replay) error {
		for _, content := range segments {
			_, err := journal.Read(bytes.NewReader(content), func(c *journal.Commit, after journal.History) error {
				if c.Number > to {
					return nil
				}
				return r.Commit(c, after)
			})
			if err != nil {
				return err
			}
		}
		return nil
	}}
	_, err = backupfile.RestoreFrom(ctx, in, m, path, false, nil, later)
	must(t, err)
}

// TestTimesNeverGoBack sets the clock back by years. The commits that follow, in the store and in what is restored from
// its copies, have the time of the last one before.
func TestTimesNeverGoBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, base := filepath.Join(dir, "plantstore.db"), filepath.Join(dir, "base.db")
	e := sqlitetest.Open(t, sqlite.Config{Path: path})
	_, _, err := e.StartJournal(t.Context())
	must(t, err)
	begun, err := backupfile.Backup(t.Context(), path, base, "", nil)
	must(t, err)
	must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(1, 1)))
	must(t, e.Close())
	last := lastTime(t, path)
	synctest.Test(t, func(t *testing.T) { // begins in the year 2000
		id := int64(1)
		commit := func(after, path string) {
			t.Helper()
			e := sqlitetest.Open(t, sqlite.Config{Path: path})
			_, _, err := e.StartJournal(t.Context())
			must(t, err)
			id++
			must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(id, 1)))
			must(t, e.Close())
			if at := lastTime(t, path); !at.Equal(last) {
				t.Errorf("after %s: a commit at %v, want %v", after, at, last)
			}
		}
		copied := filepath.Join(dir, "copied.db")
		m, err := backupfile.Backup(t.Context(), path, copied, "", nil)
		must(t, err)
		if !m.MadeAt.Equal(last) {
			t.Errorf("a backup from %v, want %v", m.MadeAt, last)
		}
		restored := filepath.Join(dir, "restored.db")
		_, err = backupfile.Restore(t.Context(), copied, restored, false, nil)
		must(t, err)
		commit("a restore", restored)

		repeated := filepath.Join(dir, "repeated.db")
		restoreSegments(t, segmentsOf(t, path, &begun), math.MaxInt64, base, &begun, repeated)
		commit("a restore with segments", repeated)

		commit("a new start", path)
		e := sqlitetest.Open(t, sqlite.Config{Path: path})
		must(t, e.StopJournal(t.Context()))
		must(t, e.Close())
		commit("the removal of the journal", path)
	})
}

// lastTime returns the time of the last commit in the journal of the store at path.
func lastTime(t testing.TB, path string) time.Time {
	t.Helper()
	c, err := sqlite3.OpenReadOnly(path)
	must(t, err)
	defer c.Close()
	at, err := c.QueryInt("SELECT at FROM plantstore_journal ORDER BY number DESC LIMIT 1")
	must(t, err)
	return time.UnixMicro(at)
}

// TestChangesInParts shows that no commit has many rows: 16 webhooks get the events of 200 plants, which become dead
// letters, are due again, end with their webhooks, and are removed.
func TestChangesInParts(t *testing.T) {
	t.Parallel()
	const webhooks, plants, rowBytes = 16, 200, 120
	e := sqlitetest.Open(t, sqlite.Config{Path: filepath.Join(t.TempDir(), "plantstore.db")})
	defer e.Close()
	var urls []string
	for i := range webhooks {
		urls = append(urls, fmt.Sprintf("https://a.example/%d", i))
	}
	_, _, err := e.StartJournal(t.Context())
	must(t, err)
	_, err = e.SetWebhooks(t.Context(), urls, audit.Origin{})
	must(t, err)
	must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(1, plants)))
	repeat := func(change func() (int64, error)) {
		t.Helper()
		all := int64(0)
		for n := int64(1); n > 0; all += n {
			n, err = change()
			must(t, err)
		}
		if all != webhooks*plants {
			t.Errorf("changed %d deliveries, want %d", all, webhooks*plants)
		}
	}
	repeat(func() (int64, error) {
		expired, err := e.ExpireDeliveries(t.Context(), store.Expiry{PendingBefore: time.Now()})
		return expired.Dead, err
	})
	repeat(func() (int64, error) { return e.RetryDead(t.Context(), store.DeadSelector{}, audit.Origin{}) })
	_, err = e.SetWebhooks(t.Context(), nil, audit.Origin{})
	must(t, err)
	repeat(func() (int64, error) { return e.EndDeliveries(t.Context()) })
	repeat(func() (int64, error) { return e.DropDead(t.Context(), store.DeadSelector{}, audit.Origin{}) })
	_, commits, err := e.Journal(t.Context(), 0, 1<<30)
	must(t, err)
	for _, c := range commits {
		if most := store.ChangeMax * rowBytes; len(c.Changes) > most {
			t.Errorf("commit %d has %d bytes of changes, want at most %d", c.Number, len(c.Changes), most)
		}
	}
}

// TestLargeJournal shows that a create removes only some large commits that a copy has, and that the end of a journal
// with many commits writes few pages.
func TestLargeJournal(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plantstore.db")
	must(t, sqlitetest.Open(t, sqlite.Config{Path: path}).Close())
	const fill = "WITH RECURSIVE ids (id) AS (VALUES (1) UNION ALL SELECT id + 1 FROM ids WHERE id < %d) " +
		"INSERT INTO plantstore_journal SELECT commits + id, 0, zeroblob(%d), zeroblob(32) FROM plantstore, ids; " +
		"UPDATE plantstore " +
		"SET commits = commits + %[1]d, journal_bytes = journal_bytes + %[1]d * %[2]d, history = randomblob(32)"
	sqlitetest.Exec(t, path, fmt.Sprintf(fill, 10, 3<<20))
	e := sqlitetest.Open(t, sqlite.Config{Path: path})
	commits, _, err := e.StartJournal(t.Context())
	must(t, err)
	e.TrimJournal(commits)
	for _, want := range []int{9, 8, 7, 6, 5} { // with the new commit
		must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(int64(want), 1)))
		left := 0
		must(t, e.JournalEnds(t.Context(), func(int64, journal.History) bool {
			left++
			return true
		}))
		if left != want {
			t.Errorf("%d commits, want %d", left, want)
		}
	}
	must(t, e.Close())

	const many, bytesEach = 20_000, 1000
	sqlitetest.Exec(t, path, fmt.Sprintf(fill, many, bytesEach))
	e = sqlitetest.Open(t, sqlite.Config{Path: path})
	defer e.Close()
	must(t, e.StopJournal(t.Context()))
	wal, err := os.Stat(path + "-wal")
	must(t, err)
	if wal.Size() > many*bytesEach/10 {
		t.Errorf("the WAL has %d bytes after the end of the journal", wal.Size())
	}
}

// segmentsOf returns the contents of segments with the commits of the store at path since a backup: one for each two
// commits, merged from one for each commit.
func segmentsOf(t testing.TB, path string, m *backupfile.Manifest) (contents [][]byte) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // in a cleanup
	e, err := sqlite.Open(ctx, sqlite.Config{Path: path})
	must(t, err)
	previous, commits, err := e.Journal(ctx, m.Commits, 1<<30)
	must(t, errors.Join(err, e.Close()))
	if len(commits) > 0 && previous.String() != m.History {
		t.Errorf("the journal begins after %v, the backup has %v", previous, m.History)
	}
	var encoder journal.Encoder
	for i := range commits {
		_, content, err := encoder.Encode(m.Store, "0123456789abcdef", previous, commits[i:i+1])
		must(t, err)
		previous = previous.After(&commits[i])
		contents = append(contents, bytes.Clone(content))
	}
	var merged [][]byte
	for pair := range slices.Chunk(contents, 2) {
		_, content, err := encoder.Merge(pair)
		must(t, err)
		merged = append(merged, bytes.Clone(content))
	}
	return merged
}

// contentOf returns all rows of a store but those of the journal, and the highest id of a webhook, because webhooks
// stay in their table.
func contentOf(t testing.TB, path string) (rows []string) {
	t.Helper()
	c, err := sqlite3.Open(path)
	must(t, err)
	defer c.Close()
	var tables []string
	for s, err := range c.Rows("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT IN " +
		"('plantstore_journal', 'sqlite_stat1', 'sqlite_stat4') ORDER BY name") {
		must(t, err)
		tables = append(tables, s.Text(0))
	}
	for _, table := range tables {
		columns, err := c.QueryText("SELECT group_concat('quote(' || name || ')', ' || '','' || ') " +
			"FROM pragma_table_info('" + table + "') WHERE name <> 'journal_bytes'")
		must(t, err)
		for s, err := range c.Rows(fmt.Sprintf("SELECT %s FROM %s ORDER BY 1", columns, table)) {
			must(t, err)
			if row := s.Text(0); table != "sqlite_sequence" || !strings.Contains(row, "webhooks") {
				rows = append(rows, table+": "+row)
			}
		}
	}
	return rows
}
