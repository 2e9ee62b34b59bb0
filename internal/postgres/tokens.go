package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"plantstore/internal/auth"
	"plantstore/internal/store"
)

// Tokens implements store.Reader.
func (s statements) Tokens() ([]auth.Token, error) {
	return collect(s.ctx, s.q, token, "SELECT "+tokenColumns+" FROM tokens ORDER BY id")
}

// TokensOfHash implements store.Reader.
func (s statements) TokensOfHash(hash auth.Hash) ([]auth.Token, error) {
	return collect(s.ctx, s.q, token, "SELECT "+tokenColumns+" FROM tokens WHERE hash = $1", hash[:])
}

// Count implements store.Reader. No id is used twice, so it counts only if the highest id reaches most.
func (s statements) Count(t auth.Token, most int) (n int64, err error) {
	err = s.q.QueryRow(s.ctx, `SELECT CASE WHEN (SELECT max(id) FROM tokens) >= $3
		THEN (SELECT pg_catalog.count(id) FROM tokens WHERE kind = $1 AND coalesce(expires_at >= $2, true)) ELSE 0 END`,
		string(t.Kind), t.CreatedAt, most).Scan(&n)
	return n, err
}

// TokensBy implements store.Tx.
func (s statements) TokensBy(selector store.Selector) ([]auth.Token, error) {
	column, value := selector.Column()
	return collect(s.ctx, s.q, token,
		"SELECT "+tokenColumns+" FROM tokens WHERE "+column+" = $1 AND kind IS NULL ORDER BY id", value)
}

const tokenColumns = "id, name, hash, scopes, created_at, expires_at, last_used_at, revoked_at, prefix, " +
	"kind, issuer, identifier"

func token(r pgx.CollectableRow) (t auth.Token, err error) {
	var hash []byte
	var scopes string
	if err := r.Scan(&t.ID, &t.Name, &hash, &scopes, &t.CreatedAt, (*nullTime)(&t.ExpiresAt),
		(*nullTime)(&t.LastUsedAt), (*nullTime)(&t.RevokedAt), (*nullText)(&t.Prefix), (*nullText)(&t.Kind),
		(*nullText)(&t.Issuer), (*nullText)(&t.Identifier)); err != nil {
		return t, err
	}
	if n := copy(t.Hash[:], hash); n != len(t.Hash) || n != len(hash) {
		return t, fmt.Errorf("token %d: its hash has %d bytes, want %d", t.ID, len(hash), len(t.Hash))
	}
	if t.Scopes, err = auth.ParseScopes(scopes); err != nil {
		return t, fmt.Errorf("token %d: %w", t.ID, err)
	}
	return t, nil
}

// NextTokenID implements store.Tx. The transaction has locked the row of plantstore, and the token with the highest id
// is never deleted.
func (s statements) NextTokenID() (id int64, err error) {
	err = s.q.QueryRow(s.ctx, "SELECT coalesce(max(id), 0) + 1 FROM tokens").Scan(&id)
	return id, err
}

// PutToken implements store.Tx.
func (s statements) PutToken(t auth.Token) error {
	_, err := s.exec(`INSERT INTO tokens (`+tokenColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
		ON CONFLICT (id) DO UPDATE SET
		expires_at = excluded.expires_at, last_used_at = excluded.last_used_at, revoked_at = excluded.revoked_at`,
		t.ID, t.Name, t.Hash[:], t.Scopes.String(), t.CreatedAt,
		nullTime(t.ExpiresAt), nullTime(t.LastUsedAt), nullTime(t.RevokedAt), nullText(t.Prefix),
		nullText(string(t.Kind)), nullText(t.Issuer), nullText(t.Identifier))
	return err
}

// DeleteExpired implements store.Tx. It removes nothing if the role may not, because a server does not need that right.
// It keeps the highest id, because NextTokenID counts up from it.
func (s statements) DeleteExpired(t auth.Token) error {
	allowed := false
	err := s.q.QueryRow(s.ctx, "SELECT pg_catalog.has_table_privilege('tokens', 'DELETE')").Scan(&allowed)
	if err != nil || !allowed {
		return err
	}
	_, err = s.exec(`DELETE FROM tokens WHERE id IN (SELECT id FROM tokens
		WHERE kind = $1 AND $2 > expires_at AND hash <> $3 AND (SELECT max(id) FROM tokens) > id LIMIT $4)`,
		string(auth.KindJWT), t.CreatedAt, t.Hash[:], store.ChangeMax)
	return err
}

// DeleteSubjects implements store.Tx.
func (s statements) DeleteSubjects(p store.SubjectPrune) ([]auth.Token, error) {
	removed, err := collect(s.ctx, s.q, token, `DELETE FROM tokens WHERE id IN (SELECT id FROM tokens
		WHERE kind = $1 AND $2 > coalesce(last_used_at, created_at) AND coalesce($3 > revoked_at, true)
		AND (SELECT max(id) FROM tokens) > id ORDER BY id LIMIT $4) RETURNING `+tokenColumns,
		string(auth.KindSubject), p.UnusedSince, p.RevokedBefore(), p.Limit)
	if hasCode(err, codeInsufficientPrivilege) {
		err = fmt.Errorf("the role may not delete tokens; use the role that owns the tables: %w", err)
	}
	slices.SortFunc(removed, func(a, b auth.Token) int { return cmp.Compare(a.ID, b.ID) })
	return removed, err
}

// TokensChanged implements store.Tx.
func (s statements) TokensChanged() error {
	_, err := s.exec("UPDATE plantstore SET token_changes = token_changes + 1")
	return err
}

// MarkUsed implements writepath.Engine.
func (e *Engine) MarkUsed(ctx context.Context, uses []auth.Use) error {
	ids, times := make([]int64, len(uses)), make([]time.Time, len(uses))
	for i, use := range uses {
		ids[i], times[i] = use.TokenID, use.At
	}
	return e.transact(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE tokens SET last_used_at = greatest(coalesce(last_used_at, used.at), used.at)
			FROM unnest($1::bigint[], $2::timestamptz[]) AS used (id, at) WHERE tokens.id = used.id`, ids, times)
		return err
	})
}
