package sqlite

import (
	"context"
	"fmt"
	"slices"
	"time"

	"plantstore/internal/plant"
	"plantstore/internal/sqlite/dbfile"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// writeStmts are the prepared statements of every batch.
type writeStmts struct {
	insert, stored, event, state, count *sqlite3.Stmt
}

func (s *writeStmts) prepare(c *sqlite3.Conn) error {
	for _, p := range []struct {
		stmt **sqlite3.Stmt
		sql  string
	}{
		{&s.insert, "INSERT INTO plants (id, name, tag, created_at, created_by, digest) VALUES (?, ?, ?, ?, ?, ?) " +
			"ON CONFLICT DO NOTHING"},
		{&s.stored, "SELECT " + dbfile.PlantColumns + " FROM plants WHERE id = ?"},
		{&s.event, "INSERT INTO plantstore_outbox (plant) VALUES (?)"},
		{&s.state, "SELECT commits, coalesce(webhooks, 0), history, journal_bytes, committed_at FROM plantstore"},
		{&s.count, "UPDATE plantstore SET commits = ?, plants = plants + ?, digests = digests + ?, " +
			"history = ?, journal_bytes = ?, committed_at = ?"},
	} {
		stmt, err := c.Prepare(p.sql)
		if err != nil {
			return err
		}
		*p.stmt = stmt
	}
	return nil
}

func (s *writeStmts) close() {
	for _, stmt := range []*sqlite3.Stmt{s.insert, s.stored, s.event, s.state, s.count} {
		stmt.Close()
	}
}

// Insert implements writepath.
func (e *Engine) Insert(ctx context.Context, batch []store.Create) ([]store.Outcome, error) {
	err := traced(ctx, "checkpoint if due", func() error { return e.checkpointIfDue(ctx, framesOf(batch)) })
	if err != nil {
		return nil, err
	}
	outcomes := make([]store.Outcome, len(batch))
	events := false
	err = e.run(ctx, func() (err error) {
		e.order = store.OrderByID(e.order[:0], batch) // so that the pages of the table are visited in order
		for _, i := range e.order {
			if outcomes[i], err = e.insertOne(&batch[i]); err != nil {
				return err
			}
		}
		if e.current.plants == 0 {
			return nil
		}
		if events = e.current.webhooks; events {
			err = e.writeEvents(batch, outcomes)
		}
		if e.current.recorded {
			e.recordPlants(batch, outcomes, events)
		}
		return err
	})
	if err == nil && events {
		e.SignalEvents()
	}
	if err == nil && !slices.ContainsFunc(outcomes, store.Outcome.Created) {
		// SQLite synced nothing, because the transaction wrote nothing, but the replayed plants must be durable before they
		// are acknowledged.
		err = traced(ctx, "sync WAL", e.syncWAL)
	}
	if err != nil {
		return nil, err
	}
	return outcomes, nil
}

// Probe implements writepath.
func (e *Engine) Probe(ctx context.Context) error {
	if err := e.checkpointIfDue(ctx, framesOf(nil)); err != nil {
		return err
	}
	return e.write(ctx, func() error { return e.writer.Run("UPDATE plantstore SET plants = plants") })
}

// insertOne stores a plant, or compares it with the stored one.
func (e *Engine) insertOne(c *store.Create) (store.Outcome, error) {
	s := e.stmts.insert
	at := c.At.UnixMicro()
	digest := e.digests.Plant(&c.Plant, c.At, c.By)
	s.BindInt64(1, c.Plant.ID)
	s.BindText(2, c.Plant.Name)
	if tag, ok := c.Plant.Tag.Get(); ok {
		s.BindText(3, tag)
	} else {
		s.BindNull(3)
	}
	s.BindInt64(4, at)
	s.BindInt64(5, c.By)
	s.BindInt64(6, digest)
	if err := s.Run(); err != nil {
		return store.Outcome{}, err
	}
	if e.writer.Changes() > 0 {
		e.current.plants++
		e.current.digests += digest
		return store.Outcome{}, nil
	}
	conflict, err := e.compare(c)
	return store.Outcome{Replayed: err == nil && conflict == nil, Conflict: conflict}, err
}

// compare returns why the stored plant with the id of c makes c no replay: other content, or damage.
func (e *Engine) compare(c *store.Create) (conflict, err error) {
	s := e.stmts.stored
	defer s.Reset()
	s.BindInt64(1, c.Plant.ID)
	ok, err := s.Step()
	if err == nil && !ok {
		err = fmt.Errorf("%w: SQLite neither inserted nor found it", store.ErrBroken)
	}
	if err != nil {
		return nil, fmt.Errorf("read plant %d: %w", c.Plant.ID, err)
	}
	stored, ok := dbfile.PlantRow(&e.digests, s)
	if !ok {
		e.logDamage(c.Plant.ID)
		return store.Damaged(c.Plant.ID), nil
	}
	return plant.Differences(c.Plant.Plant, stored.Plant), nil
}

// logDamage tells the operator about a damaged plant, at most once a minute: a client may repeat its create for ever.
func (e *Engine) logDamage(id int64) {
	e.damageMu.Lock()
	defer e.damageMu.Unlock()
	if time.Since(e.damageLoggedAt) > warnEvery {
		e.damageLoggedAt = time.Now()
		e.log.Error("a stored plant does not match its digest; run plantstore verify, and restore a backup", "plant", id)
	}
}

// writeEvents writes the events of the created plants of a batch.
func (e *Engine) writeEvents(batch []store.Create, outcomes []store.Outcome) error {
	for i := range batch {
		if !outcomes[i].Created() {
			continue
		}
		e.stmts.event.BindInt64(1, batch[i].Plant.ID) // not by Run, which would allocate
		if err := e.stmts.event.Run(); err != nil {
			return err
		}
	}
	return nil
}
