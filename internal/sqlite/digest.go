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
	for column := 7; column < 11; column++ {
		if !s.Null(column) {
			d.Integer(int64(column))
			d.Text(s.Text(column))
		}
	}
	return d.Sum()
}

// tokenDigests returns the sum of the digests and the number of all tokens.
func tokenDigests(c *sqlite3.Conn) (sum, n int64, err error) {
	s, err := c.Prepare(tokenDigestSQL)
	if err != nil {
		return 0, 0, err
	}
	defer s.Close()
	return sumDigests(s)
}

// addDigest adds the digest of the token with an id to the stored sum, or subtracts it with the sign
// -1. Every change of a token does so before and after it: the sum over all rows would take longer
// with every subject, and would hide a change by another program.
func (e *Engine) addDigest(sign, id int64) error {
	s, err := e.writer.Prepare(tokenDigestSQL + " WHERE id = ?")
	if err != nil {
		return err
	}
	defer s.Close()
	s.BindInt64(1, id)
	sum, n, err := sumDigests(s)
	if err != nil || n == 0 {
		return err
	}
	return e.run("UPDATE state SET token_digests = token_digests + ?", sign*sum)
}

// changeToken runs a statement that changes the token with an id, its last parameter.
func (e *Engine) changeToken(id int64, sql string, args ...any) error {
	if err := e.addDigest(-1, id); err != nil {
		return err
	}
	if err := e.run(sql, append(args, id)...); err != nil {
		return err
	}
	return e.addDigest(1, id)
}

func sumDigests(s *sqlite3.Stmt) (sum, n int64, err error) {
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
