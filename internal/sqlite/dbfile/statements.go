package dbfile

import (
	"encoding/json"
	"strings"
	"time"

	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// Statements implements store.Statements on a connection.
type Statements struct {
	Conn    *sqlite3.Conn
	Damaged func(id int64) // reports a damaged plant
}

// Tables returns the tables of a connection, in its transaction if there is one.
func Tables(c *sqlite3.Conn) store.Tables {
	return store.Tables{Statements: Statements{c, func(int64) {}}, Now: time.Now()}
}

// dialect turns SQL of package store into SQLite's. A transaction locks the file, and so needs no locks of rows.
var dialect = strings.NewReplacer("$", "?", " FOR UPDATE SKIP LOCKED", "")

// Exec implements store.Statements.
func (s Statements) Exec(sql string, args ...any) (changed int64, err error) {
	err = s.Conn.Run(dialect.Replace(sql), args...)
	return int64(s.Conn.Changes()), err
}

// ExecEach implements store.Statements.
func (s Statements) ExecEach(sql string, args [][]any) (changed int64, err error) {
	for _, each := range args {
		n, err := s.Exec(sql, each...)
		if err != nil {
			return changed, err
		}
		changed += n
	}
	return changed, nil
}

// Query implements store.Statements.
func (s Statements) Query(row func(store.Scan) error, sql string, args ...any) error {
	for stmt, err := range s.Conn.Rows(dialect.Replace(sql), args...) {
		if err == nil {
			err = row(stmt.Scan)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ChangeTokens implements store.Statements. Every change of a token subtracts its old digest from the stored sum and
// adds the new one: a new sum of all rows would take longer with every subject, and would hide a change by another
// program.
func (s Statements) ChangeTokens(sql string, args [][]any) error {
	for _, each := range args {
		before, _, err := TokenDigests(s.Conn, "id = ?", each[0])
		if err != nil {
			return err
		}
		if _, err := s.Exec(sql, each...); err != nil {
			return err
		}
		after, _, err := TokenDigests(s.Conn, "id = ?", each[0])
		if err != nil {
			return err
		}
		if err := s.Conn.Run("UPDATE plantstore SET token_digests = token_digests + ?", after-before); err != nil {
			return err
		}
	}
	return nil
}

// MayDeleteTokens implements store.Statements.
func (s Statements) MayDeleteTokens() (bool, error) { return true, nil }

// PlantsByID implements store.Statements.
func (s Statements) PlantsByID(ids []int64, bytesMax int) ([]store.Row, error) {
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	const where = " FROM plants WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id"
	var rows []store.Row
	var d store.Digester
	bytes := 0
	for stmt, err := range s.Conn.Rows("SELECT "+PlantColumns+where, string(list)) {
		if err != nil {
			return nil, err
		}
		r, ok := PlantRow(&d, stmt)
		if !ok {
			s.Damaged(r.ID)
			continue
		}
		rows = append(rows, r)
		if bytes += r.Bytes(); bytes > bytesMax {
			break
		}
	}
	return rows, nil
}

// DeletePlants implements store.Statements.
func (s Statements) DeletePlants(plants []store.Version) (ids []int64, err error) {
	digests := int64(0)
	for _, p := range plants {
		const sql = "DELETE FROM plants WHERE id = ? AND created_at = ? AND created_by = ? RETURNING digest"
		deleted, err := s.Conn.Row(sql, func(stmt *sqlite3.Stmt) { digests += stmt.Int64(0) }, p.ID, p.CreatedAt, p.CreatedBy)
		if err != nil {
			return nil, err
		}
		if deleted {
			ids = append(ids, p.ID)
		}
	}
	return ids, s.count(-len(ids), -digests)
}

// InsertPlant implements store.Statements.
func (s Statements) InsertPlant(c store.Create) error {
	var d store.Digester
	digest := d.Plant(&c.Plant, c.At, c.By)
	if err := InsertPlant(s.Conn, &c, digest); err != nil {
		return err
	}
	return s.count(1, digest)
}

func (s Statements) count(plants int, digests int64) error {
	const sql = "UPDATE plantstore SET plants = plants + ?, digests = digests + ?"
	return s.Conn.Run(sql, plants, digests)
}

// OldestEvent implements store.Statements.
func (s Statements) OldestEvent() (at time.Time, err error) {
	_, err = s.Conn.Row("SELECT created_at FROM plants "+
		"WHERE id = (SELECT plant FROM plantstore_outbox ORDER BY number LIMIT 1)",
		func(stmt *sqlite3.Stmt) { at = stmt.Time(0) })
	return at, err
}

// FanOut implements store.Statements.
func (s Statements) FanOut(events int, now time.Time) (int64, error) {
	const oldest = "(SELECT number, plant FROM plantstore_outbox ORDER BY number LIMIT ?1)"
	if err := s.Conn.Run("INSERT INTO plantstore_deliveries (webhook, plant, since, due_at, attempts) "+
		"SELECT w.id, p.id, p.created_at, ?2, 0 FROM "+oldest+" AS o "+
		"INNER JOIN plants AS p ON p.id = o.plant CROSS JOIN plantstore_webhooks AS w WHERE w.active <> 0 "+
		"ON CONFLICT (webhook, plant) DO UPDATE SET since = excluded.since, "+store.DueAfterClaim("?3")+", dead_at = NULL, "+
		"attempts = 0, reason = NULL, erased = 0 WHERE erased <> 0", events, now, now.Add(store.ClaimMax)); err != nil {
		return 0, err
	}
	return s.Exec("DELETE FROM plantstore_outbox WHERE number IN (SELECT number FROM "+oldest+") "+
		"AND EXISTS (SELECT 1 FROM plantstore_webhooks WHERE active <> 0)", events)
}
