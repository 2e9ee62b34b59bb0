package sqlite

import (
	"context"
	"fmt"

	"plantstore/internal/auth"
	"plantstore/internal/sqlite/dbfile"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// Tokens implements store.Reader.
func (s statements) Tokens() ([]auth.Token, error) { return tokensWhere(s.conn, "TRUE") }

// TokensOfHash implements store.Reader.
func (s statements) TokensOfHash(hash auth.Hash) ([]auth.Token, error) {
	return tokensWhere(s.conn, "hash = ?", hash[:])
}

// Count implements store.Reader. No id is used twice, so it counts only if the highest id reaches most.
func (s statements) Count(t auth.Token, most int) (int64, error) {
	return s.conn.QueryInt(`SELECT CASE WHEN (SELECT max(id) FROM tokens) >= ?2
		THEN (SELECT count(*) FROM tokens WHERE kind = ?1) ELSE 0 END`, string(t.Kind), most)
}

// TokensBy implements store.Tx.
func (s statements) TokensBy(selector store.Selector) ([]auth.Token, error) {
	column, value := selector.Column()
	return tokensWhere(s.conn, column+" = ? AND kind IS NULL", value)
}

const tokenColumns = "id, name, hash, scopes, created_at, expires_at, last_used_at, revoked_at, prefix, " +
	"kind, issuer, identifier"

// tokensWhere returns the tokens that match a condition, by ascending id.
func tokensWhere(c *sqlite3.Conn, where string, args ...any) (tokens []auth.Token, err error) {
	for s, err := range c.Rows("SELECT "+tokenColumns+" FROM tokens WHERE "+where+" ORDER BY id", args...) {
		if err != nil {
			return nil, err
		}
		t, err := tokenRow(s)
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, t)
	}
	return tokens, nil
}

func tokenRow(s *sqlite3.Stmt) (auth.Token, error) {
	scopes, err := auth.ParseScopes(s.Text(3))
	if err != nil {
		return auth.Token{}, fmt.Errorf("token %d: %w", s.Int64(0), err)
	}
	t := auth.Token{
		ID:         s.Int64(0),
		Name:       s.Text(1),
		Scopes:     scopes,
		CreatedAt:  s.Time(4),
		ExpiresAt:  s.Time(5),
		LastUsedAt: s.Time(6),
		RevokedAt:  s.Time(7),
		Prefix:     s.Text(8), // this and the texts below: empty for NULL
		Kind:       auth.Kind(s.Text(9)),
		Issuer:     s.Text(10),
		Identifier: s.Text(11),
	}
	if n := copy(t.Hash[:], s.Bytes(2)); n != len(t.Hash) {
		return auth.Token{}, fmt.Errorf("token %d: its hash has %d bytes, want %d", t.ID, n, len(t.Hash))
	}
	return t, nil
}

// State implements writepath.
func (e *Engine) State(ctx context.Context) (store.State, error) {
	if err := e.checkKept(true); err != nil {
		return store.State{}, err
	}
	return query(ctx, e, func(c *sqlite3.Conn) (now store.State, err error) {
		err = dbfile.StateRow(c, "token_changes, plants", func(s *sqlite3.Stmt) {
			now = store.State{TokenChanges: s.Int64(0), Plants: s.Int64(1)}
		})
		return now, err
	})
}

// MarkUsed implements writepath.Engine.
func (e *Engine) MarkUsed(ctx context.Context, uses []auth.Use) error {
	return e.write(ctx, func() error {
		for _, use := range uses {
			if err := e.writer.Run("UPDATE tokens SET last_used_at = max(coalesce(last_used_at, 0), ?1) WHERE id = ?2",
				use.At.UnixMicro(), use.TokenID); err != nil {
				return err
			}
		}
		return nil
	})
}

// TokensChanged implements store.Tx.
func (s statements) TokensChanged() error {
	return s.conn.Run("UPDATE state SET token_changes = token_changes + 1")
}

// NextTokenID implements store.Tx. As AUTOINCREMENT does, it also looks at the table: another program can change
// sqlite_sequence, and PutToken would change the stored token.
func (s statements) NextTokenID() (int64, error) {
	return s.conn.QueryInt("SELECT coalesce(max(last), 0) + 1 FROM (SELECT seq AS last FROM sqlite_sequence " +
		"WHERE name = 'tokens' UNION ALL SELECT max(id) FROM tokens)")
}

// PutToken implements store.Tx.
func (s statements) PutToken(t auth.Token) error {
	return s.changeToken(t.ID, `INSERT INTO tokens (`+tokenColumns+`)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, nullif(?, ''), nullif(?, ''), nullif(?, ''), nullif(?, ''))
		ON CONFLICT (id) DO UPDATE SET
		expires_at = excluded.expires_at, last_used_at = excluded.last_used_at, revoked_at = excluded.revoked_at`,
		t.ID, t.Name, t.Hash[:], t.Scopes.String(), t.CreatedAt.UnixMicro(), t.ExpiresAt, t.LastUsedAt, t.RevokedAt,
		t.Prefix, string(t.Kind), t.Issuer, t.Identifier)
}

// DeleteExpired implements store.Tx.
func (s statements) DeleteExpired(t auth.Token) error {
	const expired = "id IN (SELECT id FROM tokens WHERE kind = ?1 AND expires_at < ?2 AND hash <> ?3 LIMIT ?4)"
	_, err := s.deleteTokens(expired, string(auth.KindJWT), t.CreatedAt, t.Hash[:], store.ChangeMax)
	return err
}

// DeleteSubjects implements store.Tx.
func (s statements) DeleteSubjects(p store.SubjectPrune) ([]auth.Token, error) {
	return s.deleteTokens(`id IN (SELECT id FROM tokens
		WHERE kind = ?1 AND coalesce(last_used_at, created_at) < ?2 AND coalesce(revoked_at < ?3, TRUE)
		AND id < (SELECT max(id) FROM tokens) ORDER BY id LIMIT ?4)`,
		string(auth.KindSubject), p.UnusedSince, p.RevokedBefore(), p.Limit)
}

// deleteTokens removes the tokens that match a condition and returns them.
func (s statements) deleteTokens(where string, args ...any) ([]auth.Token, error) {
	tokens, err := tokensWhere(s.conn, where, args...)
	for _, t := range tokens {
		if err == nil {
			err = s.changeToken(t.ID, "DELETE FROM tokens WHERE id = ?", t.ID)
		}
	}
	return tokens, err
}

// changeToken runs a statement that changes one token. Every change of a token subtracts its old digest from the stored
// sum and adds the new one: a new sum of all rows would take longer with every subject, and would hide a change by
// another program.
func (s statements) changeToken(id int64, sql string, values ...any) error {
	if err := s.addDigest(-1, id); err != nil {
		return err
	}
	if err := s.conn.Run(sql, values...); err != nil {
		return err
	}
	return s.addDigest(1, id)
}

// addDigest adds the digest of a token, if it exists, to the stored sum, or subtracts it if sign is -1.
func (s statements) addDigest(sign, id int64) error {
	sum, n, err := dbfile.TokenDigests(s.conn, "id = ?", id)
	if err != nil || n == 0 {
		return err
	}
	return s.conn.Run("UPDATE state SET token_digests = token_digests + ?", sign*sum)
}
