package store

import (
	"context"
	"slices"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
)

// changeTokens is Write for tokens: it also makes every server reload its keyring.
func (o *Operations) changeTokens(ctx context.Context, do func(Tables) error) error {
	return o.Write(ctx, func(tx Tables) error {
		if err := do(tx); err != nil {
			return err
		}
		_, err := tx.Exec("UPDATE plantstore SET token_changes = token_changes + 1")
		return err
	})
}

// Tokens implements writepath.Engine.
func (o *Operations) Tokens(ctx context.Context) ([]auth.Token, error) {
	return read(ctx, o, Tables.tokens)
}

// MarkUsed implements writepath.Engine.
func (o *Operations) MarkUsed(ctx context.Context, uses []auth.Use) error {
	return o.Write(ctx, func(tx Tables) error { return tx.markUsed(uses) })
}

// CreateToken implements admin.Engine.
func (o *Operations) CreateToken(ctx context.Context, t auth.Token, by audit.Origin) (id int64, err error) {
	err = o.changeTokens(ctx, func(tx Tables) error {
		named, err := tx.tokensBy(Selector{Name: t.Name})
		if err != nil {
			return err
		}
		if slices.ContainsFunc(named, func(other auth.Token) bool { return other.ValidAt(t.CreatedAt) }) {
			return ErrNameTaken
		}
		id, err = createToken(tx, t, by)
		return err
	})
	return id, err
}

// createToken stores a token and the entry of its creation.
func createToken(tx Tables, t auth.Token, by audit.Origin) (id int64, err error) {
	t, err = tx.insertToken(t)
	if err != nil {
		return 0, err
	}
	return t.ID, tx.AppendAudit(TokenCreated(t, by))
}

// CreateFirstTokens stores all the tokens in a store that never had a token, and nothing in any other.
func (o *Operations) CreateFirstTokens(
	ctx context.Context, tokens []auth.Token, by audit.Origin,
) (created bool, err error) {
	existing, err := o.Tokens(ctx)
	if err != nil || slices.ContainsFunc(existing, auth.Token.IsToken) {
		return false, err // without a write, so that a server can start on a full disk
	}
	err = o.changeTokens(ctx, func(tx Tables) error {
		existing, err := tx.tokens() // again: another process may have been first
		if err != nil || slices.ContainsFunc(existing, auth.Token.IsToken) {
			return err
		}
		for _, t := range tokens {
			if _, err := createToken(tx, t, by); err != nil {
				return err
			}
		}
		created = true
		return nil
	})
	return created && err == nil, err
}

// RotateToken implements admin.Engine.
func (o *Operations) RotateToken(
	ctx context.Context, t auth.Token, overlap time.Duration, by audit.Origin,
) (fresh, old auth.Token, err error) {
	err = o.changeTokens(ctx, func(tx Tables) error {
		named, err := tx.tokensBy(Selector{Name: t.Name})
		if err != nil {
			return err
		}
		r, ok := auth.Rotate(named, t, overlap)
		if !ok {
			return ErrNotFound
		}
		if err := tx.putTokens(r.Ended...); err != nil {
			return err
		}
		old = r.Old
		if fresh, err = tx.insertToken(r.New); err != nil {
			return err
		}
		return tx.AppendAudit(TokenRotated(fresh, r, by))
	})
	return fresh, old, err
}

// RevokeTokens implements admin.Engine.
func (o *Operations) RevokeTokens(
	ctx context.Context, selector Selector, at time.Time, by audit.Origin,
) (revoked []auth.Token, err error) {
	err = o.revoke(ctx, at, by, func(tx Tables) ([]auth.Token, error) {
		if revoked, err = tx.tokensBy(selector); err != nil {
			return nil, err
		}
		revoked = slices.DeleteFunc(revoked, func(t auth.Token) bool { return !t.RevokedAt.IsZero() })
		if len(revoked) == 0 {
			return nil, ErrNotFound
		}
		for i := range revoked {
			revoked[i].RevokedAt = time.UnixMicro(at.UnixMicro()).UTC() // as stored
		}
		return revoked, tx.putTokens(revoked...)
	})
	return revoked, err
}

// revoke is changeTokens for a revocation, which returns the revoked tokens. If the audit log refuses their events, a
// second transaction stores the revocation without them.
func (o *Operations) revoke(
	ctx context.Context, at time.Time, by audit.Origin, change func(Tables) ([]auth.Token, error),
) error {
	var events []audit.Event
	refused := false
	revoke := func(tx Tables) error {
		tokens, err := change(tx)
		if err != nil {
			return err
		}
		events = TokensRevoked(tokens, at, by)
		if refused {
			return nil
		}
		err = tx.AppendAudit(events...)
		refused = err != nil
		return err
	}
	cause := o.changeTokens(ctx, revoke)
	if !refused {
		return cause
	}
	if err := o.changeTokens(ctx, revoke); err != nil {
		return err
	}
	return &Unrecorded{Events: events, Cause: cause}
}

// RevokeIdentity implements admin.Engine.
func (o *Operations) RevokeIdentity(
	ctx context.Context, t auth.Token, most int, by audit.Origin,
) (stored auth.Token, err error) {
	err = o.revoke(ctx, t.RevokedAt, by, func(tx Tables) ([]auth.Token, error) {
		stored, err = revokeIdentity(tx, t, most)
		return []auth.Token{stored}, err
	})
	return stored, err
}

func revokeIdentity(tx Tables, t auth.Token, most int) (auth.Token, error) {
	if t.Kind == auth.KindJWT {
		if err := tx.deleteExpired(t); err != nil {
			return t, err
		}
	}
	stored, found, err := tx.tokenOfHash(t.Hash)
	switch {
	case err != nil:
		return t, err
	case !found:
		return insertIdentity(tx, t, most)
	case !stored.RevokedAt.Before(t.RevokedAt):
		return stored, nil
	}
	stored.RevokedAt, stored.ExpiresAt = t.RevokedAt, t.ExpiresAt
	return stored, tx.putTokens(stored)
}

// insertIdentity stores a subject or a revoked JWT.
func insertIdentity(tx Tables, t auth.Token, most int) (auth.Token, error) {
	if err := tx.checkPlace(t, most); err != nil {
		return t, err
	}
	return tx.insertToken(t)
}

// PutSubject implements writepath.Engine.
func (o *Operations) PutSubject(ctx context.Context, t auth.Token, most int) (stored auth.Token, err error) {
	var found bool
	err = o.Read(ctx, func(tables Tables) error {
		if stored, found, err = tables.tokenOfHash(t.Hash); err != nil || found {
			return err
		}
		return tables.checkPlace(t, most) // so a refusal needs no write lock
	})
	if err != nil || found {
		return stored, err
	}
	err = o.Write(ctx, func(tx Tables) error {
		if stored, found, err = tx.tokenOfHash(t.Hash); err != nil || found {
			return err
		}
		stored, err = insertIdentity(tx, t, most)
		return err
	})
	return stored, err
}

// PruneSubjects implements admin.Engine.
func (o *Operations) PruneSubjects(
	ctx context.Context, p SubjectPrune, by audit.Origin,
) (removed []auth.Token, err error) {
	err = o.changeTokens(ctx, func(tx Tables) error {
		if removed, err = tx.deleteSubjects(p); err != nil {
			return err
		}
		if len(removed) == 0 {
			return ErrNotFound
		}
		return tx.AppendAudit(SubjectsPruned(removed, p.At, by)...)
	})
	return removed, err
}

// PutTokens implements move.Destination.
func (o *Operations) PutTokens(ctx context.Context, tokens []auth.Token) error {
	return o.changeTokens(ctx, func(tx Tables) error { return tx.putTokens(tokens...) })
}
