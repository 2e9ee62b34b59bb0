package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"plantstore/internal/store"
)

const lookEvery = time.Minute // at what the database's acknowledgements are worth

// errNoStandby means that a synchronous standby is required and the database
// waits for none.
var errNoStandby = errors.New("the database waits for no synchronous standby, and one is required: set synchronous_standby_names")

// worthSQL reads what a COMMIT's answer depends on. A database that does not
// have a setting says nothing of it.
const worthSQL = `SELECT name, setting FROM pg_settings
	WHERE name IN ('fsync', 'full_page_writes', 'data_checksums', 'synchronous_standby_names')`

// doubts are settings without which a plant that was answered 200 can be lost
// or damaged (https://www.postgresql.org/docs/current/runtime-config-wal.html).
var doubts = []struct{ name, text string }{
	{"fsync", "fsync is off: a power cut of the database's machine loses plants that were answered 200, or damages the database; set fsync = on"},
	{"full_page_writes", "full_page_writes is off: a power cut of the database's machine can damage the database; set full_page_writes = on"},
	{"data_checksums", "the database has no data checksums, so damage of its disk goes unnoticed; stop it and run pg_checksums --enable"},
}

// worth tells what the settings of a database mean for a store.
func worth(settings map[string]string) store.Durability {
	d := store.Durability{Guarantee: "on stable storage of the database's machine"}
	if names := settings["synchronous_standby_names"]; names != "" {
		d.Guarantee = fmt.Sprintf("on stable storage of the database's machine and of a synchronous standby (%s)", names)
		d.Standby = true
	}
	for _, doubt := range doubts {
		if settings[doubt.name] == "off" {
			d.Warnings = append(d.Warnings, doubt.text)
		}
	}
	return d
}

// look reads what the database's acknowledgements are worth, and says so if that
// has changed.
func (e *Engine) look(ctx context.Context) error {
	rows, _ := e.pool.Query(ctx, worthSQL) // the error comes with the rows
	settings := map[string]string{}
	var name, setting string
	if _, err := pgx.ForEachRow(rows, []any{&name, &setting}, func() error {
		settings[name] = setting
		return nil
	}); err != nil {
		return err
	}
	e.estimate(ctx)
	now := worth(settings)
	e.mu.Lock()
	before := e.worth
	e.worth = now
	e.mu.Unlock()
	if now.Guarantee != before.Guarantee {
		e.log.Info("a plant that is answered 200 is "+now.Guarantee, "synchronous_standby_names", settings["synchronous_standby_names"])
	}
	for _, doubt := range now.Warnings {
		if !slices.Contains(before.Warnings, doubt) {
			e.log.Warn(doubt)
		}
	}
	return nil
}

// estimate reads how many plants the planner expects. A database without such
// an estimate is one of unknown size: the number is for the metrics alone.
func (e *Engine) estimate(ctx context.Context) {
	var tuples *float32
	err := e.pool.QueryRow(ctx, "SELECT reltuples FROM pg_class WHERE oid = 'plants'::regclass").Scan(&tuples)
	if err != nil || tuples == nil || *tuples < 0 { // -1: never analyzed
		e.estimated.Store(-1)
		return
	}
	e.estimated.Store(int64(*tuples))
}

// standby returns an error if a synchronous standby is required, and the database
// waits for none at this moment. It is asked before a COMMIT, so that none is made
// that must not be acknowledged, and after it.
func (e *Engine) standby(ctx context.Context, c *pgx.Conn) error {
	if !e.requireStandby {
		return nil
	}
	var names string
	if err := c.QueryRow(ctx, "SELECT pg_catalog.current_setting('synchronous_standby_names')").Scan(&names); err != nil {
		return err
	}
	if names == "" {
		return errNoStandby
	}
	return nil
}

// watch looks from time to time until ctx ends.
func (e *Engine) watch(ctx context.Context) {
	defer close(e.watched)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := e.look(ctx); err != nil && ctx.Err() == nil {
			e.log.Debug("could not read the settings of the database", "error", err) // the store logs that it is unreachable
		}
	}
}

// Durability implements store.Engine.
func (e *Engine) Durability() store.Durability {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.worth
}
