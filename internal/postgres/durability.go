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

const settingsEvery = time.Minute // the interval of readSettings

// errNoStandby means that Config.RequireSyncStandby is set and the database does not wait for a synchronous standby.
var errNoStandby = errors.New("the database waits for no synchronous standby, and one is required: " +
	"set synchronous_standby_names")

// standbyDelay is the age of the settings of a session before which checkStandby does not trust them. A session reads
// new settings at its next statement, but commits wait for a standby only when the checkpointer has read them too.
const standbyDelay = time.Second

// errStandbyUnsure means that the database has read its settings again since commits were sure to wait for a
// synchronous standby.
var errStandbyUnsure = errors.New("the database has just read its settings again, and may not wait for a standby yet")

// settingsSQL reads the settings that the durability of a COMMIT depends on. Other databases with PostgreSQL's protocol
// may not have all of them.
const settingsSQL = `SELECT name, setting FROM pg_settings
	WHERE name IN ('fsync', 'full_page_writes', 'data_checksums', 'synchronous_standby_names')`

// unsafeSettings are the settings that must not be off, and the warnings if they are
// (https://www.postgresql.org/docs/current/runtime-config-wal.html).
var unsafeSettings = []struct{ name, warning string }{
	{"fsync", "fsync is off: a power cut of the database's machine loses acknowledged plants, or damages the database; " +
		"set fsync = on"},
	{"full_page_writes", "full_page_writes is off: a power cut of the database's machine can damage the database; " +
		"set full_page_writes = on"},
	{"data_checksums", "the database has no data checksums, so nothing detects damage of its disk; " +
		"stop it and run pg_checksums --enable"},
}

// durabilityOf returns the durability of a database with these settings.
func durabilityOf(settings map[string]string) store.Durability {
	d := store.Durability{Guarantee: "on stable storage of the database's machine"}
	if names := settings["synchronous_standby_names"]; names != "" {
		d.Guarantee = fmt.Sprintf("on stable storage of the database's machine and of a synchronous standby (%s)", names)
		d.Standby = true
	}
	for _, s := range unsafeSettings {
		if settings[s.name] == "off" {
			d.Warnings = append(d.Warnings, s.warning)
		}
	}
	return d
}

// readSettings reads the durability settings of the database, and logs a change.
func (e *Engine) readSettings(ctx context.Context) error {
	rows, _ := e.db.Query(ctx, settingsSQL) // ForEachRow returns the error
	settings := map[string]string{}
	var name, setting string
	if _, err := pgx.ForEachRow(rows, []any{&name, &setting}, func() error {
		settings[name] = setting
		return nil
	}); err != nil {
		return err
	}
	e.estimate(ctx)
	now := durabilityOf(settings)
	before := e.durability.Swap(&now)
	if now.Guarantee != before.Guarantee {
		e.log.Info("an acknowledged plant is "+now.Guarantee,
			"synchronous_standby_names", settings["synchronous_standby_names"])
	}
	for _, warning := range now.Warnings {
		if !slices.Contains(before.Warnings, warning) {
			e.log.Warn(warning)
		}
	}
	return nil
}

// estimate reads the planner's estimate of the number of plants, for the metrics. A database may have none.
func (e *Engine) estimate(ctx context.Context) {
	var tuples *float32
	err := e.db.QueryRow(ctx, "SELECT reltuples FROM pg_class WHERE oid = 'plants'::regclass::oid").Scan(&tuples)
	if err != nil || tuples == nil || *tuples < 0 { // negative: never analyzed
		e.estimated.Store(-1)
		return
	}
	e.estimated.Store(int64(*tuples))
}

// checkStandby returns an error if a synchronous standby is required, and the database does not wait for one now.
// Insert calls it before the COMMIT, to store nothing that it must not acknowledge, and after it with the time that the
// first call has returned: the session must have read no other settings since then.
func (e *Engine) checkStandby(ctx context.Context, c *pgx.Conn, since time.Time) (now time.Time, err error) {
	if !e.requireStandby {
		return now, nil
	}
	var names string
	var read time.Time // by the clock of the database, as now
	const sql = "SELECT pg_catalog.current_setting('synchronous_standby_names'), pg_catalog.pg_conf_load_time(), " +
		"pg_catalog.clock_timestamp()"
	if err := c.QueryRow(ctx, sql).Scan(&names, &read, &now); err != nil {
		return now, err
	}
	if since.IsZero() {
		since = now.Add(-standbyDelay)
	}
	switch {
	case names == "":
		return now, errNoStandby
	case !read.Before(since):
		return now, errStandbyUnsure
	}
	return now, nil
}

// watch calls readSettings at intervals until ctx ends.
func (e *Engine) watch(ctx context.Context) {
	tick := time.NewTicker(settingsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := e.readSettings(ctx); err != nil && ctx.Err() == nil {
			e.log.Debug("could not read the settings of the database", "error", err) // writepath logs an outage
		}
	}
}

// Durability implements writepath.Engine.
func (e *Engine) Durability() store.Durability { return *e.durability.Load() }
