package backupfile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"plantstore/internal/sqlite/dbfile"
	"plantstore/internal/sqlite/journal"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// Replay repeats commits on the restored copy of a backup, before anybody else can open it.
type Replay struct {
	conn    *sqlite3.Conn
	digests store.Digester

	state   dbfile.State // after the last commit
	history journal.History
	last    time.Time // time of the last commit
}

// ErrOtherHistory means that a commit was made on other content than the store's.
var ErrOtherHistory = errors.New("the commit does not follow the content of the backup")

// openReplay opens the file of a store without a WAL. The file is removed after an error, so no rollback journal is
// needed, and RestoreFrom syncs it.
func openReplay(path string) (*Replay, error) {
	c, err := sqlite3.OpenUnlocked(path)
	if err != nil {
		return nil, err
	}
	return newReplay(c, path, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")
}

// newReplay returns a replay on a connection, which it closes after an error. Zeros overwrite the content of plants
// that the commits erase.
func newReplay(c *sqlite3.Conn, path, mode string) (*Replay, error) {
	err := c.Exec("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA secure_delete = ON; " +
		"PRAGMA cache_size = -65536; " + mode)
	version := 0
	if err == nil {
		version, err = dbfile.SchemaVersion(c, path)
	}
	if err == nil {
		err = dbfile.CheckSchema(c, path, version) // before any table is read
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &Replay{conn: c}, nil
}

// do repeats commits in one transaction.
func (r *Replay) do(ctx context.Context, commits func(*Replay) error) error {
	err := r.conn.During(ctx, func() error {
		err := r.conn.Exec("BEGIN IMMEDIATE")
		if err == nil {
			r.state, err = dbfile.ReadState(r.conn)
		}
		if err == nil {
			r.history, r.last, err = dbfile.HistoryOf(r.conn)
		}
		if err == nil {
			err = commits(r)
		}
		return err
	})
	if err == nil && r.history != (journal.History{}) {
		err = r.conn.Run("UPDATE plantstore SET commits = ?, plants = ?, digests = ?, history = ?, committed_at = ?",
			r.state.Commits, r.state.Plants, r.state.Digests, r.history[:], r.last)
	}
	if err == nil {
		err = r.conn.Exec("DELETE FROM plantstore_journal; UPDATE plantstore SET journal_bytes = 0; COMMIT")
	}
	return err
}

// Commits returns the number of the last commit, and the history after it.
func (r *Replay) Commits() (int64, journal.History) { return r.state.Commits, r.history }

// Commit repeats a commit. after is the history after it. The error wraps ErrOtherHistory or journal.ErrForm if the
// store is not the one that the commit was made on.
func (r *Replay) Commit(c *journal.Commit, after journal.History) error {
	if c.Number != r.state.Commits+1 || r.history.After(c) != after {
		return fmt.Errorf("commit %d: %w", c.Number, ErrOtherHistory)
	}
	err := r.repeat(c)
	if errors.Is(err, sqlite3.ErrConflict) {
		err = ErrOtherHistory
	}
	if err != nil {
		return fmt.Errorf("commit %d: %w", c.Number, err)
	}
	r.state.Commits, r.history, r.last = c.Number, after, c.At
	return nil
}

func (r *Replay) repeat(c *journal.Commit) error {
	if changeset, ok := c.Rows(); ok {
		return r.repeatRows(changeset)
	}
	created, digests, events, err := c.Plants()
	if err != nil {
		return err
	}
	sum := int64(0)
	for i := range created {
		p := &created[i]
		digest := r.digests.Plant(&p.Plant, p.At, p.By)
		err := dbfile.InsertPlant(r.conn, p, digest)
		if err == nil && events {
			err = r.conn.Run("INSERT INTO plantstore_outbox (plant) VALUES (?)", p.Plant.ID)
		}
		if err != nil {
			return err
		}
		sum += digest
	}
	if sum != digests {
		return fmt.Errorf("%w: the digests of its plants differ", journal.ErrForm)
	}
	r.state.Plants += int64(len(created))
	r.state.Digests += sum
	return nil
}

// repeatRows repeats a change of rows, which may erase plants and so changes the totals.
func (r *Replay) repeatRows(changeset []byte) error {
	err := r.conn.Run("UPDATE plantstore SET plants = ?, digests = ?", r.state.Plants, r.state.Digests)
	if err == nil {
		err = r.conn.Apply(changeset)
	}
	if err != nil {
		return err
	}
	now, err := dbfile.ReadState(r.conn)
	r.state.Plants, r.state.Digests = now.Plants, now.Digests
	return err
}

// replay calls commits with the store in the file of a restored backup.
func replay(ctx context.Context, path string, commits func(*Replay) error) error {
	r, err := openReplay(path)
	if err != nil {
		return err
	}
	return errors.Join(r.do(ctx, commits), r.conn.Close())
}
