package sqlite

import (
	"context"
	"fmt"
	"slices"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/sqlite/dbfile"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// CreateToken implements admin.Engine.
func (e *Engine) CreateToken(ctx context.Context, t auth.Token, by audit.Origin) (id int64, err error) {
	err = e.changeTokens(ctx, func() error {
		named, err := tokensWhere(e.writer, "name = ? AND kind IS NULL", t.Name)
		if err != nil {
			return err
		}
		if auth.AnyValid(named, t.CreatedAt) {
			return store.ErrNameTaken
		}
		t, err = e.createToken(t, by)
		return err
	})
	return t.ID, err
}

// CreateFirstTokens stores all the tokens in a store that never had a token, and nothing in any other.
func (e *Engine) CreateFirstTokens(
	ctx context.Context, tokens []auth.Token, by audit.Origin,
) (created bool, err error) {
	existing, err := e.Tokens(ctx)
	if err != nil || slices.ContainsFunc(existing, auth.Token.IsToken) {
		return false, err // without a write, so that a server can start on a full disk
	}
	err = e.changeTokens(ctx, func() error {
		n, err := e.writer.QueryInt("SELECT count(*) FROM tokens WHERE kind IS NULL")
		if err != nil || n > 0 {
			return err
		}
		created = true
		for _, t := range tokens {
			if _, err := e.createToken(t, by); err != nil {
				return err
			}
		}
		return nil
	})
	return created && err == nil, err
}

// RotateToken implements admin.Engine.
func (e *Engine) RotateToken(
	ctx context.Context, t auth.Token, overlap time.Duration, by audit.Origin,
) (fresh, old auth.Token, err error) {
	err = e.changeTokens(ctx, func() error {
		named, err := tokensWhere(e.writer, "name = ? AND kind IS NULL", t.Name)
		if err != nil {
			return err
		}
		r, ok := auth.Rotate(named, t, overlap)
		if !ok {
			return store.ErrNotFound
		}
		for _, ended := range r.Ended {
			if err := e.changeToken(ended.ID, "UPDATE tokens SET expires_at = ? WHERE id = ?", ended.ExpiresAt); err != nil {
				return err
			}
		}
		fresh, old = r.New, r.Old
		if fresh, err = e.insertToken(fresh); err != nil {
			return err
		}
		return e.appendAudit(store.TokenRotated(fresh, r, by))
	})
	return fresh, old, err
}

// RevokeTokens implements admin.Engine.
func (e *Engine) RevokeTokens(
	ctx context.Context, selector store.Selector, at time.Time, by audit.Origin,
) (revoked []auth.Token, err error) {
	column, value := selector.Column()
	err = e.revoke(ctx, func() ([]audit.Event, error) {
		revoked, err = tokensWhere(e.writer, column+" = ? AND revoked_at IS NULL AND kind IS NULL", value)
		if err == nil && len(revoked) == 0 {
			err = store.ErrNotFound
		}
		for i := range revoked {
			if err == nil {
				revoked[i].RevokedAt = time.UnixMicro(at.UnixMicro()).UTC() // as stored
				err = e.changeToken(revoked[i].ID, "UPDATE tokens SET revoked_at = ? WHERE id = ?", at)
			}
		}
		return store.TokensRevoked(revoked, at, by), err
	})
	return revoked, err
}

// revoke is changeTokens for a revocation, which returns its audit events. If the audit log refuses
// them, a second transaction stores the revocation without them.
func (e *Engine) revoke(ctx context.Context, change func() ([]audit.Event, error)) error {
	var events []audit.Event
	var refused error
	revoke := func() (err error) {
		if events, err = change(); err == nil && refused == nil {
			refused = e.appendAudit(events...)
			err = refused
		}
		return err
	}
	err := e.changeTokens(ctx, revoke)
	if refused == nil {
		return err
	}
	if err = e.changeTokens(ctx, revoke); err == nil {
		err = &store.Unrecorded{Events: events, Cause: classify(refused)}
	}
	return err
}

// Tokens implements writepath.
func (e *Engine) Tokens(ctx context.Context) ([]auth.Token, error) {
	return query(ctx, e, func(c *sqlite3.Conn) ([]auth.Token, error) { return tokensWhere(c, "TRUE") })
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
	return query(ctx, e, func(c *sqlite3.Conn) (now store.State, err error) {
		err = dbfile.StateRow(c, "token_changes, coalesce(move_state, ''), plants", func(s *sqlite3.Stmt) {
			now = store.State{TokenChanges: s.Int64(0), Move: store.ParseMoveState(s.Text(1)), Plants: s.Int64(2)}
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

// changeTokens is change for tokens: it also makes every server reload its keyring.
func (e *Engine) changeTokens(ctx context.Context, change func() error) error {
	return e.change(ctx, func() error {
		if err := change(); err != nil {
			return err
		}
		return e.writer.Run("UPDATE state SET token_changes = token_changes + 1")
	})
}

// createToken stores a token and the entry of its creation.
func (e *Engine) createToken(t auth.Token, by audit.Origin) (auth.Token, error) {
	t, err := e.insertToken(t)
	if err != nil {
		return t, err
	}
	return t, e.appendAudit(store.TokenCreated(t, by))
}

// insertTokenSQL stores the tokenValues of a token.
const insertTokenSQL = `INSERT INTO tokens (` + tokenColumns + `)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, nullif(?, ''), nullif(?, ''), nullif(?, ''), nullif(?, '')) `

// tokenValues returns the values of tokenColumns; id is nil for a new one.
func tokenValues(id any, t auth.Token) []any {
	return []any{
		id, t.Name, t.Hash[:], t.Scopes.String(), t.CreatedAt.UnixMicro(), t.ExpiresAt, t.LastUsedAt, t.RevokedAt,
		t.Prefix, string(t.Kind), t.Issuer, t.Identifier,
	}
}

// insertToken stores a new token and returns it with its id.
func (e *Engine) insertToken(t auth.Token) (auth.Token, error) {
	err := e.writer.Run(insertTokenSQL, tokenValues(nil, t)...)
	if err == nil {
		t.ID, err = e.writer.QueryInt("SELECT last_insert_rowid()")
	}
	if err != nil {
		return t, err
	}
	return t, e.addDigest(1, t.ID)
}

// addDigest adds the digest of a token to the stored sum, or subtracts it if sign is -1. Every
// change of a token subtracts the old digest and adds the new one: a new sum of all rows would take
// longer with every subject, and would hide a change by another program.
func (e *Engine) addDigest(sign, id int64) error {
	sum, n, err := dbfile.TokenDigests(e.writer, "id = ?", id)
	if err != nil || n == 0 {
		return err
	}
	return e.writer.Run("UPDATE state SET token_digests = token_digests + ?", sign*sum)
}

// changeToken runs a statement that changes one token; id is its last parameter.
func (e *Engine) changeToken(id int64, sql string, args ...any) error {
	if err := e.addDigest(-1, id); err != nil {
		return err
	}
	if err := e.writer.Run(sql, append(args, id)...); err != nil {
		return err
	}
	return e.addDigest(1, id)
}
