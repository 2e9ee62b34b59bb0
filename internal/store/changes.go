package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
)

// Reader has the statements that read the tokens, the audit log and the webhooks of a store.
type Reader interface {
	// Tokens returns all tokens by ascending id, of every auth.Kind, including expired and revoked ones.
	Tokens() ([]auth.Token, error)

	// TokensOfHash returns the token with a hash, of every auth.Kind, or none.
	TokensOfHash(hash auth.Hash) ([]auth.Token, error)

	// Count returns the number of tokens of the kind of t. It may return any smaller number than most, because counting
	// is slow.
	Count(t auth.Token, most int) (int64, error)

	// AuditEnds is as in AuditReader.
	AuditEnds() (audit.Ends, error)

	// AuditRows is as in AuditReader.
	AuditRows(after int64, limit int) ([]audit.Row, error)

	// Webhooks returns all webhooks by ascending id.
	Webhooks() ([]Webhook, error)
}

// Tx has the statements of Changes in a transaction that other writers of these tables wait for.
type Tx interface {
	Reader

	// MoveState returns the move state of the store.
	MoveState() (MoveState, error)

	// CheckWritable returns an error that wraps ErrReadOnly if a move of another process makes the store read-only.
	CheckWritable() error

	// TokensBy returns the selected tokens by ascending id; no subjects and no JWTs.
	TokensBy(s Selector) ([]auth.Token, error)

	// InsertToken stores a new token and returns it with its id. No id is used twice.
	InsertToken(t auth.Token) (auth.Token, error)

	// SetEnds stores the times of expiry and revocation of a token.
	SetEnds(t auth.Token) error

	// PutToken stores a token with its id. Of a stored token it updates the times of expiry, revocation and last use.
	PutToken(t auth.Token) error

	// DeleteExpired removes the revoked JWTs that have expired at t.CreatedAt, except t, if the database allows that.
	DeleteExpired(t auth.Token) error

	// DeleteSubjects removes the selected subjects and returns them by ascending id.
	DeleteSubjects(p SubjectPrune) ([]auth.Token, error)

	// TokensChanged changes State.TokenChanges.
	TokensChanged() error

	// InsertAudit stores rows that follow the head of the audit log, and the new head.
	InsertAudit(rows []audit.Row) error

	// SetAuditEnds stores the ends of the audit log.
	SetAuditEnds(ends audit.Ends) error

	// DeleteAudit removes the rows up to a sequence number, and returns how many there were.
	DeleteAudit(to int64) (removed int64, err error)

	// ChangeWebhooks changes the active webhooks. Deliveries to the removed ones become dead letters.
	ChangeWebhooks(added, removed []string) error

	// RetryDead is as in admin.Engine, without an entry in the audit log.
	RetryDead(s DeadSelector) (int64, error)

	// DropDead is as in admin.Engine, without an entry in the audit log.
	DropDead(s DeadSelector) (int64, error)
}

// Changes reads and changes the tokens, the audit log and the webhooks of a store. An engine embeds it, and supplies
// the fields. The interfaces of the packages that call an engine have the contracts of the methods.
type Changes struct {
	// Read calls do with statements outside of a transaction.
	Read func(ctx context.Context, do func(Reader) error) error

	// Write calls change in a transaction. An error means that it changed nothing, unless the error wraps
	// ErrOutcomeUnknown.
	Write func(ctx context.Context, change func(Tx) error) error

	Events chan struct{} // of capacity 1; holds a value after this engine has written events
}

func tokenOfHash(r Reader, hash auth.Hash) (t auth.Token, found bool, err error) {
	tokens, err := r.TokensOfHash(hash)
	if err != nil || len(tokens) == 0 {
		return t, false, err
	}
	return tokens[0], true, nil
}

// checkPlace returns an error if the store has most tokens of the kind of t.
func checkPlace(r Reader, t auth.Token, most int) error {
	n, err := r.Count(t, most)
	switch {
	case err != nil || n < int64(most):
		return err
	case t.Kind == auth.KindJWT:
		return ErrTooManyJWTs
	}
	return ErrTooManySubjects
}

func read[T any](ctx context.Context, c *Changes, do func(Reader) (T, error)) (result T, err error) {
	err = c.Read(ctx, func(r Reader) (err error) {
		result, err = do(r)
		return err
	})
	return result, err
}

// change is Write, unless a move of another process has made the store read-only.
func (c *Changes) change(ctx context.Context, do func(Tx) error) error {
	return c.Write(ctx, func(tx Tx) error {
		if err := tx.CheckWritable(); err != nil {
			return err
		}
		return do(tx)
	})
}

// changeTokens is change for tokens: it also makes every server reload its keyring.
func (c *Changes) changeTokens(ctx context.Context, do func(Tx) error) error {
	return c.change(ctx, func(tx Tx) error {
		if err := do(tx); err != nil {
			return err
		}
		return tx.TokensChanged()
	})
}

// Tokens implements writepath.Engine.
func (c *Changes) Tokens(ctx context.Context) ([]auth.Token, error) {
	return read(ctx, c, Reader.Tokens)
}

// CreateToken implements admin.Engine.
func (c *Changes) CreateToken(ctx context.Context, t auth.Token, by audit.Origin) (id int64, err error) {
	err = c.changeTokens(ctx, func(tx Tx) error {
		named, err := tx.TokensBy(Selector{Name: t.Name})
		if err != nil {
			return err
		}
		if auth.AnyValid(named, t.CreatedAt) {
			return ErrNameTaken
		}
		id, err = createToken(tx, t, by)
		return err
	})
	return id, err
}

// createToken stores a token and the entry of its creation.
func createToken(tx Tx, t auth.Token, by audit.Origin) (id int64, err error) {
	t, err = tx.InsertToken(t)
	if err != nil {
		return 0, err
	}
	return t.ID, AppendAudit(tx, TokenCreated(t, by))
}

// CreateFirstTokens stores all the tokens in a store that never had a token, and nothing in any other.
func (c *Changes) CreateFirstTokens(
	ctx context.Context, tokens []auth.Token, by audit.Origin,
) (created bool, err error) {
	existing, err := c.Tokens(ctx)
	if err != nil || slices.ContainsFunc(existing, auth.Token.IsToken) {
		return false, err // without a write, so that a server can start on a full disk
	}
	err = c.changeTokens(ctx, func(tx Tx) error {
		existing, err := tx.Tokens() // again: another process may have been first
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
func (c *Changes) RotateToken(
	ctx context.Context, t auth.Token, overlap time.Duration, by audit.Origin,
) (fresh, old auth.Token, err error) {
	err = c.changeTokens(ctx, func(tx Tx) error {
		named, err := tx.TokensBy(Selector{Name: t.Name})
		if err != nil {
			return err
		}
		r, ok := auth.Rotate(named, t, overlap)
		if !ok {
			return ErrNotFound
		}
		for _, ended := range r.Ended {
			if err := tx.SetEnds(ended); err != nil {
				return err
			}
		}
		old = r.Old
		if fresh, err = tx.InsertToken(r.New); err != nil {
			return err
		}
		return AppendAudit(tx, TokenRotated(fresh, r, by))
	})
	return fresh, old, err
}

// RevokeTokens implements admin.Engine.
func (c *Changes) RevokeTokens(
	ctx context.Context, selector Selector, at time.Time, by audit.Origin,
) (revoked []auth.Token, err error) {
	err = c.revoke(ctx, at, by, func(tx Tx) ([]auth.Token, error) {
		if revoked, err = tx.TokensBy(selector); err != nil {
			return nil, err
		}
		revoked = slices.DeleteFunc(revoked, func(t auth.Token) bool { return !t.RevokedAt.IsZero() })
		if len(revoked) == 0 {
			return nil, ErrNotFound
		}
		for i := range revoked {
			revoked[i].RevokedAt = time.UnixMicro(at.UnixMicro()).UTC() // as stored
			if err := tx.SetEnds(revoked[i]); err != nil {
				return nil, err
			}
		}
		return revoked, nil
	})
	return revoked, err
}

// revoke is changeTokens for a revocation, which returns the revoked tokens. If the audit log refuses their events, a
// second transaction stores the revocation without them.
func (c *Changes) revoke(
	ctx context.Context, at time.Time, by audit.Origin, change func(Tx) ([]auth.Token, error),
) error {
	var events []audit.Event
	refused := false
	revoke := func(tx Tx) error {
		tokens, err := change(tx)
		if err != nil {
			return err
		}
		events = TokensRevoked(tokens, at, by)
		if refused {
			return nil
		}
		err = AppendAudit(tx, events...)
		refused = err != nil
		return err
	}
	cause := c.changeTokens(ctx, revoke)
	if !refused {
		return cause
	}
	if err := c.changeTokens(ctx, revoke); err != nil {
		return err
	}
	return &Unrecorded{Events: events, Cause: cause}
}

// RevokeIdentity implements admin.Engine.
func (c *Changes) RevokeIdentity(
	ctx context.Context, t auth.Token, most int, by audit.Origin,
) (stored auth.Token, err error) {
	err = c.revoke(ctx, t.RevokedAt, by, func(tx Tx) ([]auth.Token, error) {
		stored, err = revokeIdentity(tx, t, most)
		return []auth.Token{stored}, err
	})
	return stored, err
}

func revokeIdentity(tx Tx, t auth.Token, most int) (auth.Token, error) {
	if t.Kind == auth.KindJWT { // an expired JWT must not count towards the limit
		if err := tx.DeleteExpired(t); err != nil {
			return t, err
		}
	}
	stored, found, err := tokenOfHash(tx, t.Hash)
	switch {
	case err != nil:
		return t, err
	case !found:
		return insertIdentity(tx, t, most)
	case !stored.RevokedAt.Before(t.RevokedAt):
		return stored, nil
	}
	stored.RevokedAt, stored.ExpiresAt = t.RevokedAt, t.ExpiresAt
	return stored, tx.SetEnds(stored)
}

// insertIdentity stores a subject or a revoked JWT.
func insertIdentity(tx Tx, t auth.Token, most int) (auth.Token, error) {
	if err := checkPlace(tx, t, most); err != nil {
		return t, err
	}
	return tx.InsertToken(t)
}

// PutSubject implements writepath.Engine.
func (c *Changes) PutSubject(ctx context.Context, t auth.Token, most int) (stored auth.Token, err error) {
	var found bool
	err = c.Read(ctx, func(r Reader) error {
		if stored, found, err = tokenOfHash(r, t.Hash); err != nil || found {
			return err
		}
		return checkPlace(r, t, most) // so a refusal needs no write lock
	})
	if err != nil || found {
		return stored, err
	}
	err = c.change(ctx, func(tx Tx) error {
		if stored, found, err = tokenOfHash(tx, t.Hash); err != nil || found {
			return err
		}
		stored, err = insertIdentity(tx, t, most)
		return err
	})
	return stored, err
}

// PruneSubjects implements admin.Engine.
func (c *Changes) PruneSubjects(
	ctx context.Context, p SubjectPrune, by audit.Origin,
) (removed []auth.Token, err error) {
	err = c.changeTokens(ctx, func(tx Tx) error {
		if removed, err = tx.DeleteSubjects(p); err != nil {
			return err
		}
		if len(removed) == 0 {
			return ErrNotFound
		}
		return AppendAudit(tx, SubjectsPruned(removed, p.At, by)...)
	})
	return removed, err
}

// PutTokens implements move.Destination.
func (c *Changes) PutTokens(ctx context.Context, tokens []auth.Token) error {
	return c.changeTokens(ctx, func(tx Tx) error {
		for _, t := range tokens {
			if err := tx.PutToken(t); err != nil {
				return err
			}
		}
		return nil
	})
}

// AuditEnds implements AuditReader.
func (c *Changes) AuditEnds(ctx context.Context) (audit.Ends, error) {
	return read(ctx, c, Reader.AuditEnds)
}

// AuditRows implements AuditReader.
func (c *Changes) AuditRows(ctx context.Context, after int64, limit int) ([]audit.Row, error) {
	return read(ctx, c, func(r Reader) ([]audit.Row, error) { return r.AuditRows(after, limit) })
}

// AppendAudit implements admin.Engine.
func (c *Changes) AppendAudit(ctx context.Context, events ...audit.Event) error {
	return c.Write(ctx, func(tx Tx) error {
		now, err := tx.MoveState()
		if err == nil && now.Phase == Filling { // the move copies the log of the other store
			err = tx.CheckWritable()
		}
		if err != nil {
			return err
		}
		return AppendAudit(tx, events...)
	})
}

// AppendAudit appends entries in a transaction.
func AppendAudit(tx Tx, events ...audit.Event) error {
	ends, err := tx.AuditEnds()
	if err != nil {
		return err
	}
	rows := make([]audit.Row, len(events))
	for i, event := range events {
		rows[i] = audit.Seal(ends.Head, event)
		ends.Head = rows[i].Link()
	}
	return tx.InsertAudit(rows)
}

// PruneAudit implements admin.Engine.
func (c *Changes) PruneAudit(ctx context.Context, to audit.Link, by audit.Origin) (removed int64, err error) {
	err = c.change(ctx, func(tx Tx) error {
		ends, err := tx.AuditEnds()
		if err != nil || to.Sequence <= ends.Anchor.Sequence {
			return err // another process was first
		}
		rows, err := tx.AuditRows(to.Sequence-1, 1)
		if err == nil && (len(rows) == 0 || rows[0].Link() != to) {
			err = fmt.Errorf("%w: it has no entry %d:%s", ErrAuditFault, to.Sequence, to.Hash)
		}
		if err != nil {
			return err
		}
		ends.Anchor = to
		if err := tx.SetAuditEnds(ends); err != nil {
			return err
		}
		if removed, err = tx.DeleteAudit(to.Sequence); err != nil {
			return err
		}
		return AppendAudit(tx, Pruned(to, removed, by))
	})
	return removed, err
}

// PutAudit implements move.Destination.
func (c *Changes) PutAudit(ctx context.Context, anchor audit.Link, rows []audit.Row) error {
	return c.change(ctx, func(tx Tx) error {
		ends, err := tx.AuditEnds()
		if err != nil {
			return err
		}
		if ends == (audit.Ends{}) && anchor.Sequence > 0 {
			ends = audit.Ends{Anchor: anchor, Head: anchor}
			if err := tx.SetAuditEnds(ends); err != nil {
				return err
			}
		}
		for _, row := range rows {
			if err := row.Follows(ends.Head); err != nil {
				return fmt.Errorf("%w: %w", ErrAuditFault, err)
			}
			ends.Head = row.Link()
		}
		return tx.InsertAudit(rows)
	})
}

// EventsWritten implements webhook.Outbox.
func (c *Changes) EventsWritten() <-chan struct{} { return c.Events }

// SignalEvents sends a value to EventsWritten. The engine calls it after it has written events.
func (c *Changes) SignalEvents() {
	select {
	case c.Events <- struct{}{}:
	default: // the receiver has not received the last signal yet
	}
}

// Webhooks implements webhook.Outbox.
func (c *Changes) Webhooks(ctx context.Context) ([]Webhook, error) {
	return read(ctx, c, Reader.Webhooks)
}

// SetWebhooks implements webhook.Outbox.
func (c *Changes) SetWebhooks(ctx context.Context, urls []string, by audit.Origin) (all []Webhook, err error) {
	if all, err = c.Webhooks(ctx); err != nil {
		return nil, err
	}
	if added, removed := compareWebhooks(all, urls); len(added)+len(removed) == 0 {
		return all, nil // without a write, so that a server can start on a full disk
	}
	err = c.change(ctx, func(tx Tx) error {
		if all, err = tx.Webhooks(); err != nil {
			return err
		}
		added, removed := compareWebhooks(all, urls)
		if err := tx.ChangeWebhooks(added, removed); err != nil {
			return err
		}
		all, err = tx.Webhooks()
		if err != nil || len(added)+len(removed) == 0 {
			return err
		}
		return AppendAudit(tx, WebhooksChanged(added, removed, by))
	})
	return all, err
}

// RetryDead implements admin.Engine.
func (c *Changes) RetryDead(ctx context.Context, s DeadSelector, by audit.Origin) (int64, error) {
	return c.changeDead(ctx, s, by, audit.WebhookRetry, Tx.RetryDead)
}

// DropDead implements admin.Engine.
func (c *Changes) DropDead(ctx context.Context, s DeadSelector, by audit.Origin) (int64, error) {
	return c.changeDead(ctx, s, by, audit.WebhookDrop, Tx.DropDead)
}

func (c *Changes) changeDead(
	ctx context.Context, s DeadSelector, by audit.Origin, action audit.Action, do func(Tx, DeadSelector) (int64, error),
) (changed int64, err error) {
	err = c.change(ctx, func(tx Tx) (err error) {
		if changed, err = do(tx, s); err != nil || changed == 0 {
			return err
		}
		return AppendAudit(tx, DeadLettersChanged(action, s, changed, by))
	})
	return changed, err
}
