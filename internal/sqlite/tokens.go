package sqlite

import (
	"context"
	"fmt"
	"slices"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// CreateToken implements admin.Engine.
func (e *Engine) CreateToken(ctx context.Context, t auth.Token, by audit.Origin) (id int64, err error) {
	err = e.changeTokens(ctx, func() error {
		named, err := e.tokensNamed(t.Name)
		if err != nil {
			return err
		}
		if auth.AnyValid(named, t.CreatedAt) {
			return store.ErrNameTaken
		}
		id, err = e.createToken(t, by)
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
		named, err := e.tokensNamed(t.Name)
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
		if fresh.ID, err = e.insertToken(fresh); err != nil {
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
		revoked, err = e.tokensWhere(column+" = ? AND revoked_at IS NULL AND kind IS NULL", value)
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

// revoke is changeTokens for a revocation, which returns its events. If the audit log does not accept
// them, another transaction stores the revocation without them.
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

// Tokens implements writepath.Engine.
func (e *Engine) Tokens(ctx context.Context) (tokens []auth.Token, err error) {
	err = e.read(ctx, func(c *sqlite3.Conn) error {
		s, err := c.Prepare("SELECT " + tokenColumns + " FROM tokens ORDER BY id")
		if err != nil {
			return err
		}
		defer s.Close()
		tokens, err = tokenRows(s)
		return err
	})
	return tokens, err
}

const tokenColumns = "id, name, hash, scopes, created_at, expires_at, last_used_at, revoked_at, prefix, " +
	"kind, issuer, identifier"

// tokenRows returns the tokens of the rows of tokenColumns.
func tokenRows(s *sqlite3.Stmt) (tokens []auth.Token, err error) {
	for {
		ok, err := s.Step()
		if err != nil || !ok {
			return tokens, err
		}
		t, err := tokenRow(s)
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, t)
	}
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
		CreatedAt:  time.UnixMicro(s.Int64(4)).UTC(),
		ExpiresAt:  timeColumn(s, 5),
		LastUsedAt: timeColumn(s, 6),
		RevokedAt:  timeColumn(s, 7),
		Prefix:     s.Text(8), // this and the texts below: empty for NULL
		Kind:       auth.Kind(s.Text(9)),
		Issuer:     s.Text(10),
		Identifier: s.Text(11),
	}
	if n := copy(t.Hash[:], s.Text(2)); n != len(t.Hash) {
		return auth.Token{}, fmt.Errorf("token %d: its hash has %d bytes, want %d", t.ID, n, len(t.Hash))
	}
	return t, nil
}

// State implements writepath.Engine.
func (e *Engine) State(ctx context.Context) (now store.State, err error) {
	err = e.read(ctx, func(c *sqlite3.Conn) error {
		s, err := c.Prepare("SELECT token_changes, coalesce(held, ''), plants FROM state")
		if err != nil {
			return err
		}
		defer s.Close()
		ok, err := s.Step()
		if err == nil && !ok {
			err = errNoState
		}
		if err == nil {
			now = store.State{TokenChanges: s.Int64(0), Move: store.ParseMoveState(s.Text(1)), Plants: s.Int64(2)}
		}
		return err
	})
	return now, err
}

// MarkUsed implements writepath.Engine.
func (e *Engine) MarkUsed(ctx context.Context, uses []auth.Use) error {
	return e.write(ctx, func() error {
		for _, use := range uses {
			if err := e.run("UPDATE tokens SET last_used_at = max(coalesce(last_used_at, 0), ?1) WHERE id = ?2",
				use.At.UnixMicro(), use.TokenID); err != nil {
				return err
			}
		}
		return nil
	})
}

// changeTokens is write for a change that servers have to notice.
func (e *Engine) changeTokens(ctx context.Context, change func() error) error {
	return e.write(ctx, func() error {
		if err := e.checkWritable(); err != nil {
			return err
		}
		if err := change(); err != nil {
			return err
		}
		return e.run("UPDATE state SET token_changes = token_changes + 1")
	})
}

// tokensNamed returns the tokens with that name, by ascending id.
func (e *Engine) tokensNamed(name string) ([]auth.Token, error) {
	return e.tokensWhere("name = ? AND kind IS NULL", name)
}

// tokensWhere returns the tokens that match a condition, by ascending id.
func (e *Engine) tokensWhere(where string, args ...any) ([]auth.Token, error) {
	s, err := e.writer.Prepare("SELECT " + tokenColumns + " FROM tokens WHERE " + where + " ORDER BY id")
	if err != nil {
		return nil, err
	}
	defer s.Close()
	for i, arg := range args {
		bind(s, i+1, arg)
	}
	return tokenRows(s)
}

// createToken stores a token and the entry of its creation.
func (e *Engine) createToken(t auth.Token, by audit.Origin) (id int64, err error) {
	if t.ID, err = e.insertToken(t); err != nil {
		return 0, err
	}
	return t.ID, e.appendAudit(store.TokenCreated(t, by))
}

func (e *Engine) insertToken(t auth.Token) (id int64, err error) {
	if err := e.run(`INSERT INTO tokens
		(name, hash, scopes, created_at, expires_at, revoked_at, prefix, kind, issuer, identifier)
		VALUES (?, ?, ?, ?, ?, ?, nullif(?, ''), nullif(?, ''), nullif(?, ''), nullif(?, ''))`,
		t.Name, t.Hash[:], t.Scopes.String(), t.CreatedAt.UnixMicro(), t.ExpiresAt, t.RevokedAt,
		t.Prefix, string(t.Kind), t.Issuer, t.Identifier); err != nil {
		return 0, err
	}
	if id, err = e.writer.QueryInt("SELECT last_insert_rowid()"); err != nil {
		return 0, err
	}
	return id, e.addDigest(1, id)
}

// run runs a statement that returns no rows on the writing connection.
func (e *Engine) run(sql string, args ...any) error {
	s, err := e.writer.Prepare(sql)
	if err != nil {
		return err
	}
	defer s.Close()
	for i, arg := range args {
		bind(s, i+1, arg)
	}
	return s.Run()
}

// bind binds a value of a type that the statements of tokens use; the zero time is NULL.
func bind(s *sqlite3.Stmt, param int, value any) {
	switch v := value.(type) {
	case int64:
		s.BindInt64(param, v)
	case string:
		s.BindText(param, v)
	case []byte:
		s.BindBlob(param, v)
	case time.Time:
		if v.IsZero() {
			s.BindNull(param)
		} else {
			s.BindInt64(param, v.UnixMicro())
		}
	default:
		panic(fmt.Sprintf("bind %T", value))
	}
}

func timeColumn(s *sqlite3.Stmt, column int) time.Time {
	if s.Null(column) {
		return time.Time{}
	}
	return time.UnixMicro(s.Int64(column)).UTC()
}
