package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"plantstore/internal/safefile"
	"plantstore/internal/sqlite/dbfile"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// NewStore is the store to which a move copies: a temporary file, which gets its name when it is complete. A killed
// process leaves only that file, which the next move removes. It implements move.Destination.
type NewStore struct {
	store.Operations

	path    string // path of the complete store
	lock    *os.File
	temp    *safefile.File
	conn    *sqlite3.Conn // nil after Publish
	digests store.Digester
}

// Create creates a store that will be at path, where no store may be. The error wraps store.ErrNotNew if there is one.
func Create(ctx context.Context, path string) (_ *NewStore, err error) {
	if path, err = dbfile.Locate(path); err != nil {
		return nil, err
	}
	n := &NewStore{path: path}
	defer func() {
		if err != nil {
			_ = n.Close() // err is the cause
		}
	}()
	if err := n.refuseExisting(); err != nil { // before a lock file is created
		return nil, err
	}
	if n.lock, err = dbfile.LockMove(path, true); err != nil {
		return nil, err
	}
	if err := n.refuseExisting(); err != nil {
		return nil, err
	}
	if n.temp, err = safefile.Create(path); err != nil {
		return nil, err
	}
	safefile.GiveToOwner(n.temp.File, path)
	if n.conn, err = sqlite3.OpenUnlocked(n.temp.Name()); err != nil {
		return nil, err
	}
	n.Operations = store.Operations{
		Read: func(ctx context.Context, do func(store.Tables) error) error {
			return n.during(ctx, func() error { return do(dbfile.Tables(n.conn)) })
		},
		Write: func(ctx context.Context, change func(store.Tables) error) error {
			return n.write(ctx, func() error { return change(dbfile.Tables(n.conn)) })
		},
	}
	// The file has no name before Publish, which syncs it, so no commit needs a journal or a sync.
	return n, n.during(ctx, func() error {
		if err := n.conn.Exec("PRAGMA page_size = 4096; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF"); err != nil {
			return err
		}
		return dbfile.Migrate(n.conn, 0)
	})
}

// refuseExisting returns an error if there is a store at the path, or what is left of one.
func (n *NewStore) refuseExisting() error {
	for _, suffix := range append([]string{""}, dbfile.SQLiteSuffixes...) {
		if _, err := os.Lstat(n.path + suffix); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(err, fmt.Errorf("%s exists: %w", n.path+suffix, store.ErrNotNew))
		}
	}
	if err := dbfile.CheckBeside(n.path); err != nil {
		return err
	}
	return dbfile.RefuseNew(n.path)
}

func (n *NewStore) during(ctx context.Context, do func() error) error {
	return classify(n.conn.During(ctx, do))
}

// write runs a change in a transaction. After an error the store can only be closed.
func (n *NewStore) write(ctx context.Context, change func() error) error {
	return n.during(ctx, func() error {
		if err := n.conn.Exec("BEGIN"); err != nil {
			return err
		}
		if err := change(); err != nil {
			return err
		}
		return n.conn.Exec("UPDATE plantstore SET commits = commits + 1; COMMIT")
	})
}

// PutPlants implements move.Destination.
func (n *NewStore) PutPlants(ctx context.Context, rows []store.Row) error {
	return n.write(ctx, func() error {
		sum := int64(0)
		for i := range rows {
			c := store.Create{Plant: rows[i].NewPlant, At: rows[i].CreatedAt, By: rows[i].CreatedBy}
			digest := n.digests.Plant(&c.Plant, c.At, c.By)
			if err := dbfile.InsertPlant(n.conn, &c, digest); err != nil {
				return err
			}
			sum += digest
		}
		return n.conn.Run("UPDATE plantstore SET plants = plants + ?, digests = digests + ?", len(rows), sum)
	})
}

// PutOutbox implements move.Destination.
func (n *NewStore) PutOutbox(ctx context.Context, rows []store.OutboxRow) error {
	return n.write(ctx, func() error {
		for _, r := range rows {
			var err error
			if r.Webhook == 0 {
				err = n.conn.Run("INSERT INTO plantstore_outbox (plant) VALUES (?)", r.Plant)
			} else {
				err = n.conn.Run("INSERT INTO plantstore_deliveries "+
					"(webhook, plant, since, due_at, dead_at, attempts, reason, erased) VALUES (?, ?, ?, ?, ?, ?, nullif(?, ''), ?)",
					r.Webhook, r.Plant, r.Since, r.DueAt, r.DeadAt, r.Attempts, r.Reason, r.Erased)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Totals implements move.Destination.
func (n *NewStore) Totals(ctx context.Context) (store.Totals, error) {
	return store.Sum(sequence(func(visit func(store.Row) bool) error {
		return n.during(ctx, func() error { return eachPlant(n.conn, visit) })
	}))
}

// Publish implements move.Destination.
func (n *NewStore) Publish(context.Context) error {
	err := n.conn.Close()
	if n.conn = nil; err != nil {
		return err
	}
	if err := os.Remove(n.path + dbfile.MarkSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // it is of a store without a commit
	}
	return n.temp.Publish(false)
}

// Close ends the use of the store, and removes it unless it was published.
func (n *NewStore) Close() (err error) {
	if n.conn != nil {
		err = n.conn.Close()
	}
	if n.temp != nil {
		err = errors.Join(err, n.temp.Discard())
	}
	if n.lock != nil {
		err = errors.Join(err, n.lock.Close())
	}
	return err
}
