package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/store"
)

// PutSubject implements writepath.Engine.
func (e *Engine) PutSubject(ctx context.Context, t auth.Token, most int) (stored auth.Token, err error) {
	stored, found, err := tokenOfHash(ctx, e.pool, t.Hash)
	if err == nil && !found {
		err = checkPlace(ctx, e.pool, t, most) // before the transaction, so a refusal needs no lock
	}
	if err != nil || found {
		return stored, classify(err)
	}
	err = e.transact(ctx, func(tx pgx.Tx) error {
		if err := e.checkWritable(ctx, tx); err != nil {
			return err
		}
		if stored, found, err = tokenOfHash(ctx, tx, t.Hash); err != nil || found {
			return err
		}
		stored, err = insertIdentity(ctx, tx, t, most)
		return err
	})
	return stored, err
}

// RevokeIdentity implements admin.Engine.
func (e *Engine) RevokeIdentity(
	ctx context.Context, t auth.Token, most int, by audit.Origin,
) (stored auth.Token, err error) {
	err = e.revoke(ctx, func(tx pgx.Tx) (_ []audit.Event, err error) {
		stored, err = revokeIdentity(ctx, tx, t, most)
		return store.TokensRevoked([]auth.Token{stored}, t.RevokedAt, by), err
	})
	return stored, err
}

func revokeIdentity(ctx context.Context, tx pgx.Tx, t auth.Token, most int) (auth.Token, error) {
	if t.Kind == auth.KindJWT { // an expired JWT must not count towards the limit
		if err := deleteExpired(ctx, tx, t); err != nil {
			return t, err
		}
	}
	stored, found, err := tokenOfHash(ctx, tx, t.Hash)
	switch {
	case err != nil:
		return t, err
	case !found:
		return insertIdentity(ctx, tx, t, most)
	case !stored.RevokedAt.Before(t.RevokedAt):
		return stored, nil
	}
	stored.RevokedAt, stored.ExpiresAt = t.RevokedAt, t.ExpiresAt
	_, err = tx.Exec(ctx, "UPDATE tokens SET revoked_at = $1, expires_at = $2 WHERE id = $3",
		nullTime(stored.RevokedAt), nullTime(stored.ExpiresAt), stored.ID)
	return stored, err
}

// deleteExpired removes revoked JWTs that have expired, except t itself, if the role may; a
// server does not need that right. It keeps the highest id, because insertToken counts up
// from it.
func deleteExpired(ctx context.Context, tx pgx.Tx, t auth.Token) error {
	allowed := false
	err := tx.QueryRow(ctx, "SELECT pg_catalog.has_table_privilege('tokens', 'DELETE')").Scan(&allowed)
	if err != nil || !allowed {
		return err
	}
	_, err = tx.Exec(ctx, `DELETE FROM tokens
		WHERE kind = $1 AND $2 > expires_at AND hash <> $3 AND (SELECT max(id) FROM tokens) > id`,
		string(auth.KindJWT), t.CreatedAt, t.Hash[:])
	return err
}

// PruneSubjects implements admin.Engine.
func (e *Engine) PruneSubjects(
	ctx context.Context, p store.SubjectPrune, by audit.Origin,
) (removed []auth.Token, err error) {
	err = e.changeTokens(ctx, func(tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, `DELETE FROM tokens WHERE id IN (SELECT id FROM tokens
			WHERE kind = $1 AND $2 > coalesce(last_used_at, created_at) AND coalesce($3 > revoked_at, true)
			AND (SELECT max(id) FROM tokens) > id ORDER BY id LIMIT $4) RETURNING `+tokenColumns,
			string(auth.KindSubject), p.UnusedSince, p.RevokedBefore(), p.Limit) // CollectRows returns the error
		removed, err = pgx.CollectRows(rows, token)
		switch {
		case hasCode(err, codeInsufficientPrivilege):
			err = fmt.Errorf("the role may not delete tokens; use the role that owns the tables: %w", err)
		case err == nil && len(removed) == 0:
			err = store.ErrNotFound
		}
		if err != nil {
			return err
		}
		slices.SortFunc(removed, func(a, b auth.Token) int { return cmp.Compare(a.ID, b.ID) })
		return appendAudit(ctx, tx, store.SubjectsPruned(removed, p.At, by)...)
	})
	return removed, err
}

// insertIdentity stores a subject or a revoked JWT.
func insertIdentity(ctx context.Context, tx pgx.Tx, t auth.Token, most int) (auth.Token, error) {
	if err := checkPlace(ctx, tx, t, most); err != nil {
		return t, err
	}
	id, err := insertToken(ctx, tx, t)
	t.ID = id
	return t, err
}

// checkPlace returns an error if the store has most tokens of the kind of t. No id is used twice,
// so it counts the rows, which is slow, only if the highest id reaches most.
func checkPlace(ctx context.Context, q querier, t auth.Token, most int) error {
	var n int
	err := q.QueryRow(ctx, `SELECT CASE WHEN (SELECT max(id) FROM tokens) >= $3
		THEN (SELECT pg_catalog.count(id) FROM tokens WHERE kind = $1 AND coalesce(expires_at >= $2, true)) ELSE 0 END`,
		string(t.Kind), t.CreatedAt, most).Scan(&n)
	if err == nil && n >= most {
		err = store.TooMany(t.Kind)
	}
	return err
}

// tokenOfHash returns the token with a hash.
func tokenOfHash(ctx context.Context, q querier, hash auth.Hash) (t auth.Token, found bool, err error) {
	rows, _ := q.Query(ctx, // CollectRows returns the error
		"SELECT "+tokenColumns+" FROM tokens WHERE hash = $1", hash[:])
	tokens, err := pgx.CollectRows(rows, token)
	if err != nil || len(tokens) == 0 {
		return t, false, err
	}
	return tokens[0], true, nil
}
