package sqlite

import (
	"iter"

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
	return sumDigests(c.Rows(tokenDigestSQL))
}

// addDigest adds the digest of the token with an id to the stored sum, or subtracts it with the sign
// -1. Every change of a token does so before and after it: the sum over all rows would take longer
// with every subject, and would hide a change by another program.
func (e *Engine) addDigest(sign, id int64) error {
	sum, n, err := sumDigests(e.writer.Rows(tokenDigestSQL+" WHERE id = ?", id))
	if err != nil || n == 0 {
		return err
	}
	return e.writer.Run("UPDATE state SET token_digests = token_digests + ?", sign*sum)
}

// changeToken runs a statement that changes the token with an id, its last parameter.
func (e *Engine) changeToken(id int64, sql string, args ...any) error {
	if err := e.addDigest(-1, id); err != nil {
		return err
	}
	if err := e.writer.Run(sql, append(args, id)...); err != nil {
		return err
	}
	return e.addDigest(1, id)
}

func sumDigests(rows iter.Seq2[*sqlite3.Stmt, error]) (sum, n int64, err error) {
	var d store.Digester
	for s, err := range rows {
		if err != nil {
			return sum, n, err
		}
		sum += tokenDigest(&d, s)
		n++
	}
	return sum, n, nil
}
