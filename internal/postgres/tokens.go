package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/store"
)

// CreateToken implements admin.Engine.
func (e *Engine) CreateToken(ctx context.Context, t auth.Token, by audit.Origin) (id int64, err error) {
	err = e.changeTokens(ctx, func(tx pgx.Tx) error {
		named, err := tokensNamed(ctx, tx, t.Name)
		if err != nil {
			return err
		}
		if auth.AnyValid(named, t.CreatedAt) {
			return store.ErrNameTaken
		}
		id, err = createToken(ctx, tx, t, by)
		return err
	})
	return id, err
}

// CreateFirstTokens stores all the tokens in a store that never had a token, and nothing in any other.
func (e *Engine) CreateFirstTokens(
	ctx context.Context, tokens []auth.Token, by audit.Origin,
) (created bool, err error) {
	existing, err := e.Tokens(ctx)
	if err != nil || slices.ContainsFunc(existing, auth.Token.IsToken) {
		return false, err // without a write: a server must be able to start on a full disk
	}
	err = e.changeTokens(ctx, func(tx pgx.Tx) error {
		const none = "SELECT NOT EXISTS (SELECT 1 FROM tokens WHERE kind IS NULL)"
		if err := tx.QueryRow(ctx, none).Scan(&created); err != nil || !created {
			return err
		}
		for _, t := range tokens {
			if _, err := createToken(ctx, tx, t, by); err != nil {
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
	err = e.changeTokens(ctx, func(tx pgx.Tx) error {
		named, err := tokensNamed(ctx, tx, t.Name)
		if err != nil {
			return err
		}
		r, ok := auth.Rotate(named, t, overlap)
		if !ok {
			return store.ErrNotFound
		}
		for _, ended := range r.Ended {
			if _, err := tx.Exec(ctx, "UPDATE tokens SET expires_at = $1 WHERE id = $2", ended.ExpiresAt, ended.ID); err != nil {
				return err
			}
		}
		fresh, old = r.New, r.Old
		if fresh.ID, err = insertToken(ctx, tx, fresh); err != nil {
			return err
		}
		return appendAudit(ctx, tx, store.TokenRotated(fresh, r, by))
	})
	return fresh, old, err
}

// tokensNamed returns the tokens with that name, by ascending id.
func tokensNamed(ctx context.Context, tx pgx.Tx, name string) ([]auth.Token, error) {
	rows, _ := tx.Query(ctx, // CollectRows returns the error
		"SELECT "+tokenColumns+" FROM tokens WHERE name = $1 AND kind IS NULL ORDER BY id", name)
	return pgx.CollectRows(rows, token)
}

// RevokeTokens implements admin.Engine.
func (e *Engine) RevokeTokens(
	ctx context.Context, selector store.Selector, at time.Time, by audit.Origin,
) (revoked []auth.Token, err error) {
	column, value := selector.Column()
	err = e.revoke(ctx, func(tx pgx.Tx) ([]audit.Event, error) {
		rows, _ := tx.Query(ctx, "UPDATE tokens SET revoked_at = $1 WHERE "+column+" = $2 "+
			"AND revoked_at IS NULL AND kind IS NULL RETURNING "+tokenColumns, at, value) // CollectRows returns the error
		revoked, err = pgx.CollectRows(rows, token)
		if err == nil && len(revoked) == 0 {
			err = store.ErrNotFound
		}
		return store.TokensRevoked(revoked, at, by), err
	})
	return revoked, err
}

// revoke is changeTokens for a revocation, which returns its events. If the audit log does not accept
// them, another transaction stores the revocation without them.
func (e *Engine) revoke(ctx context.Context, change func(pgx.Tx) ([]audit.Event, error)) error {
	var events []audit.Event
	var logErr error // why the audit log did not accept the events
	revoke := func(tx pgx.Tx) (err error) {
		if events, err = change(tx); err == nil && logErr == nil {
			logErr = appendAudit(ctx, tx, events...)
			err = logErr
		}
		return err
	}
	err := e.changeTokens(ctx, revoke)
	if logErr == nil {
		return err
	}
	if err = e.changeTokens(ctx, revoke); err == nil {
		err = &store.Unrecorded{Events: events, Cause: classify(logErr)}
	}
	return err
}

// Tokens implements writepath.Engine.
func (e *Engine) Tokens(ctx context.Context) ([]auth.Token, error) {
	rows, _ := e.pool.Query(ctx, "SELECT "+tokenColumns+" FROM tokens ORDER BY id") // CollectRows returns the error
	tokens, err := pgx.CollectRows(rows, token)
	return tokens, classify(err)
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

// createToken stores a token and the entry of its creation.
func createToken(ctx context.Context, tx pgx.Tx, t auth.Token, by audit.Origin) (id int64, err error) {
	if t.ID, err = insertToken(ctx, tx, t); err != nil {
		return 0, err
	}
	return t.ID, appendAudit(ctx, tx, store.TokenCreated(t, by))
}

// insertToken stores a token with the next id. Its caller has locked the row of
// plantstore, and the token with the highest id is never deleted.
func insertToken(ctx context.Context, tx pgx.Tx, t auth.Token) (id int64, err error) {
	err = tx.QueryRow(ctx, `INSERT INTO tokens
		(id, name, hash, scopes, created_at, expires_at, revoked_at, prefix, kind, issuer, identifier)
		SELECT coalesce(max(id), 0) + 1, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10 FROM tokens RETURNING id`,
		t.Name, t.Hash[:], t.Scopes.String(), t.CreatedAt, nullTime(t.ExpiresAt), nullTime(t.RevokedAt),
		nullText(t.Prefix), nullText(string(t.Kind)), nullText(t.Issuer), nullText(t.Identifier)).Scan(&id)
	return id, err
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

// changeTokens is transact for a change of tokens, which servers read soon after it.
func (e *Engine) changeTokens(ctx context.Context, change func(pgx.Tx) error) error {
	return e.transact(ctx, func(tx pgx.Tx) error {
		if err := e.checkWritable(ctx, tx); err != nil {
			return err
		}
		if err := change(tx); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "UPDATE plantstore SET token_changes = token_changes + 1")
		return err
	})
}
