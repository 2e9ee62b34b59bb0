package sqlite

import (
	"context"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// PutSubject implements writepath.Engine.
func (e *Engine) PutSubject(ctx context.Context, t auth.Token, most int) (stored auth.Token, err error) {
	var found bool
	err = e.read(ctx, func(c *sqlite3.Conn) error {
		stored, found, err = tokenOfHash(c, t.Hash)
		if err != nil || found {
			return err
		}
		return checkPlace(c, t.Kind, most) // so a refusal needs no write lock
	})
	if err != nil || found {
		return stored, err
	}
	err = e.change(ctx, func() error {
		if stored, found, err = tokenOfHash(e.writer, t.Hash); err != nil || found {
			return err
		}
		stored, err = e.insertIdentity(t, most)
		return err
	})
	return stored, err
}

// RevokeIdentity implements admin.Engine.
func (e *Engine) RevokeIdentity(
	ctx context.Context, t auth.Token, most int, by audit.Origin,
) (stored auth.Token, err error) {
	err = e.revoke(ctx, func() (_ []audit.Event, err error) {
		stored, err = e.revokeIdentity(t, most)
		return store.TokensRevoked([]auth.Token{stored}, t.RevokedAt, by), err
	})
	return stored, err
}

func (e *Engine) revokeIdentity(t auth.Token, most int) (auth.Token, error) {
	if t.Kind == auth.KindJWT { // make room for it
		const expired = "kind = ?1 AND expires_at < ?2 AND hash <> ?3"
		if _, err := e.deleteTokens(expired, string(auth.KindJWT), t.CreatedAt, t.Hash[:]); err != nil {
			return t, err
		}
	}
	stored, found, err := tokenOfHash(e.writer, t.Hash)
	switch {
	case err != nil:
		return t, err
	case !found:
		return e.insertIdentity(t, most)
	case !stored.RevokedAt.Before(t.RevokedAt):
		return stored, nil
	}
	stored.RevokedAt, stored.ExpiresAt = t.RevokedAt, t.ExpiresAt
	return stored, e.changeToken(stored.ID, "UPDATE tokens SET revoked_at = ?, expires_at = ? WHERE id = ?",
		stored.RevokedAt, stored.ExpiresAt)
}

// deleteTokens removes the tokens that match a condition and returns them.
func (e *Engine) deleteTokens(where string, args ...any) ([]auth.Token, error) {
	tokens, err := tokensWhere(e.writer, where, args...)
	for _, t := range tokens {
		if err == nil {
			err = e.changeToken(t.ID, "DELETE FROM tokens WHERE id = ?")
		}
	}
	return tokens, err
}

// PruneSubjects implements admin.Engine.
func (e *Engine) PruneSubjects(
	ctx context.Context, p store.SubjectPrune, by audit.Origin,
) (removed []auth.Token, err error) {
	err = e.changeTokens(ctx, func() error {
		removed, err = e.deleteTokens(`id IN (SELECT id FROM tokens
			WHERE kind = ?1 AND coalesce(last_used_at, created_at) < ?2 AND coalesce(revoked_at < ?3, TRUE)
			AND id < (SELECT max(id) FROM tokens) ORDER BY id LIMIT ?4)`,
			string(auth.KindSubject), p.UnusedSince, p.RevokedBefore(), p.Limit)
		if err == nil && len(removed) == 0 {
			err = store.ErrNotFound
		}
		if err != nil {
			return err
		}
		return e.appendAudit(store.SubjectsPruned(removed, p.At, by)...)
	})
	return removed, err
}

// insertIdentity stores a subject or a JWT.
func (e *Engine) insertIdentity(t auth.Token, most int) (auth.Token, error) {
	if err := checkPlace(e.writer, t.Kind, most); err != nil {
		return t, err
	}
	return e.insertToken(t)
}

// checkPlace returns an error if the store has no place for another token of a kind. Counting the
// rows takes long, and no id is used twice, so checkPlace counts only if the highest id reaches most.
func checkPlace(c *sqlite3.Conn, kind auth.Kind, most int) error {
	n, err := c.QueryInt(`SELECT CASE WHEN (SELECT max(id) FROM tokens) >= ?2
		THEN (SELECT count(*) FROM tokens WHERE kind = ?1) ELSE 0 END`, string(kind), most)
	if err == nil && n >= int64(most) {
		err = store.TooMany(kind)
	}
	return err
}

// tokenOfHash returns the token with a hash.
func tokenOfHash(c *sqlite3.Conn, hash auth.Hash) (t auth.Token, found bool, err error) {
	tokens, err := tokensWhere(c, "hash = ?", hash[:])
	if err != nil || len(tokens) == 0 {
		return t, false, err
	}
	return tokens[0], true, nil
}
