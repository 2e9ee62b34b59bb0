package sqlite

import (
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

const tokenDigestSQL = "SELECT cast(id AS TEXT), name, hash, scopes, created_at, expires_at, revoked_at, prefix, " +
	"kind, issuer, identifier FROM tokens"

// tokenDigest returns the digest of a row of tokenDigestSQL. It omits the last use, which may
// be lost.
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
	for column := 7; column < 11; column++ { // a token without these texts keeps its digest of schema 2
		if !s.Null(column) {
			d.Integer(int64(column))
			d.Text(s.Text(column))
		}
	}
	return d.Sum()
}

// tokenDigests returns the sum of the digests and the number of all tokens of a store with
// that schema.
func tokenDigests(c *sqlite3.Conn, schema int) (sum, n int64, err error) {
	s, err := c.Prepare(forSchema(schema, tokenDigestSQL))
	if err != nil {
		return 0, 0, err
	}
	defer s.Close()
	var d store.Digester
	for {
		ok, err := s.Step()
		if err != nil || !ok {
			return sum, n, err
		}
		sum += tokenDigest(&d, s)
		n++
	}
}
