package dbfile

import (
	"fmt"
	"time"

	"plantstore/internal/sqlite/journal"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// State is the part of the table plantstore that verify compares with the other tables.
type State struct{ Store, Commits, Plants, Digests, TokenDigests int64 }

// StoreName returns the identity of the store as users see it.
func (s State) StoreName() string { return fmt.Sprintf("%016x", uint64(s.Store)) }

// ReadState reads the state of a store.
func ReadState(c *sqlite3.Conn) (state State, err error) {
	err = StateRow(c, "store, commits, plants, digests, token_digests", func(s *sqlite3.Stmt) {
		state = State{s.Int64(0), s.Int64(1), s.Int64(2), s.Int64(3), s.Int64(4)}
	})
	return state, err
}

// HistoryOf returns the history of a store, the zero value if its commits are not recorded, and the time of the last
// commit that was.
func HistoryOf(c *sqlite3.Conn) (history journal.History, last time.Time, err error) {
	err = StateRow(c, "history, committed_at", func(s *sqlite3.Stmt) {
		history, last = journal.HistoryFrom(s.Bytes(0)), s.Time(1)
	})
	return history, last, err
}

// StateRow calls read with columns of the table plantstore.
func StateRow(c *sqlite3.Conn, columns string, read func(*sqlite3.Stmt)) error {
	found, err := c.Row("SELECT "+columns+" FROM plantstore", read)
	if err == nil && !found {
		err = store.ErrNoRow
	}
	return err
}

// PlantColumns are the columns of ScanPlant and PlantRow.
const PlantColumns = "plants.id, plants.name, plants.tag, plants.created_at, plants.created_by, plants.digest"

// ScanPlant reads a row that starts with PlantColumns into p, and compares it with its digest.
func ScanPlant(d *store.Digester, s *sqlite3.Stmt, p *store.Scanned) {
	*p = store.Scanned{ID: s.Int64(0), Name: s.Bytes(1), Tag: s.Bytes(2), CreatedAt: s.Int64(3), CreatedBy: s.Int64(4)}
	p.Damaged = d.Scanned(p) != s.Int64(5)
}

// InsertPlant stores a plant with its digest. The id must be free.
func InsertPlant(c *sqlite3.Conn, p *store.Create, digest int64) error {
	tag, tagged := p.Plant.Tag.Get()
	var stored any
	if tagged {
		stored = tag
	}
	return c.Run("INSERT INTO plants (id, name, tag, created_at, created_by, digest) VALUES (?, ?, ?, ?, ?, ?)",
		p.Plant.ID, p.Plant.Name, stored, p.At, p.By, digest)
}

// PlantRow returns a row of PlantColumns. It reports false for a damaged row.
func PlantRow(d *store.Digester, s *sqlite3.Stmt) (store.Row, bool) {
	var p store.Scanned
	ScanPlant(d, s, &p)
	return store.Row{NewPlant: p.Plant(), CreatedAt: time.UnixMicro(p.CreatedAt), CreatedBy: s.Int64(4)}, !p.Damaged
}

// TokenDigests returns the sum of the digests and the number of the tokens that match a condition.
func TokenDigests(c *sqlite3.Conn, where string, values ...any) (sum, n int64, err error) {
	const sql = "SELECT cast(id AS TEXT), name, hash, scopes, created_at, expires_at, revoked_at, prefix, " +
		"kind, issuer, identifier FROM tokens WHERE "
	var d store.Digester
	for s, err := range c.Rows(sql+where, values...) {
		if err != nil {
			return sum, n, err
		}
		sum += tokenDigest(&d, s)
		n++
	}
	return sum, n, nil
}

// tokenDigest returns the digest of a row of TokenDigests. It omits the last use, which may be lost.
func tokenDigest(d *store.Digester, s *sqlite3.Stmt) int64 {
	for column := range 4 {
		d.Text(s.Text(column))
	}
	for column := 4; column < 7; column++ {
		if !s.Null(column) {
			d.Integer(int64(column))
			d.Integer(s.Int64(column))
		}
	}
	for column := 7; column < 11; column++ {
		if !s.Null(column) {
			d.Integer(int64(column))
			d.Text(s.Text(column))
		}
	}
	return d.Sum()
}
