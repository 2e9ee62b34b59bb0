package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
)

// ErrAuditFault means that the audit log does not allow a change, because another program has changed the log.
var ErrAuditFault = errors.New("the audit log is damaged; run plantstore audit verify")

// ErrAuditPruned means that an expected entry was pruned.
var ErrAuditPruned = errors.New("was pruned and cannot be compared")

// AuditReader reads the audit log of a store.
type AuditReader interface {
	// AuditEnds returns the ends of the audit log.
	AuditEnds(ctx context.Context) (audit.Ends, error)

	// AuditRows returns at most limit rows of the audit log with greater sequence numbers than after, in ascending order.
	// It does not verify them.
	AuditRows(ctx context.Context, after int64, limit int) ([]audit.Row, error)
}

// VerifyAudit verifies the chain of an audit log, and that it has an entry; the zero value is in every log. It returns
// the ends of the log. The error is a *audit.Fault, wraps ErrAuditPruned, or comes from the engine.
func VerifyAudit(ctx context.Context, log AuditReader, expected audit.Link) (audit.Ends, error) {
	ends, err := verifyChain(ctx, log)
	if err == nil {
		err = checkExpected(ctx, log, ends, expected)
	}
	return ends, err
}

// verifyChain verifies the chain. A server may append and prune entries at the same time, so a fault counts only if the
// ends of the log did not change.
func verifyChain(ctx context.Context, log AuditReader) (audit.Ends, error) {
	const tries = 10
	read := func(after int64, limit int) ([]audit.Row, error) { return log.AuditRows(ctx, after, limit) }
	for try := 1; ; try++ {
		ends, err := log.AuditEnds(ctx)
		if err != nil {
			return ends, err
		}
		err = audit.Verify(ends, audit.Rows(math.MinInt64, read))
		if _, ok := errors.AsType[*audit.Fault](err); !ok || try == tries {
			return ends, err
		}
		if now, errEnds := log.AuditEnds(ctx); errEnds != nil || now == ends {
			return ends, err
		}
	}
}

// checkExpected returns a *audit.Fault unless an entry is in the log.
func checkExpected(ctx context.Context, log AuditReader, ends audit.Ends, expected audit.Link) error {
	switch {
	case expected == audit.Link{} || expected == ends.Anchor:
		return nil
	case expected.Sequence < ends.Anchor.Sequence:
		return fmt.Errorf("expect: entry %d %w; note a new head", expected.Sequence, ErrAuditPruned)
	case expected.Sequence > ends.Head.Sequence:
		return &audit.Fault{
			Sequence: ends.Head.Sequence + 1, Kind: audit.ErrMissing,
			Reason: fmt.Sprintf("the log once had entry %d, and its newest entry is %d", expected.Sequence, ends.Head.Sequence),
		}
	}
	rows, err := log.AuditRows(ctx, expected.Sequence-1, 1)
	if err != nil {
		return err
	}
	if expected.Sequence == ends.Anchor.Sequence || len(rows) == 0 || rows[0].Link() != expected {
		return &audit.Fault{
			Sequence: expected.Sequence, Kind: audit.ErrChanged,
			Reason: "its hash is not the expected one; this entry or one before it was replaced",
		}
	}
	return nil
}

// Unrecorded is the error of a revocation that is stored without its entries, because the audit log did not accept
// them: a damaged log must not keep a stolen credential valid. The caller appends the events later, or says that they
// are lost.
type Unrecorded struct {
	Events []audit.Event
	Cause  error
}

// Error returns the cause.
func (u *Unrecorded) Error() string {
	return "the revocation is stored, but has no entry: " + u.Cause.Error()
}

// Unwrap returns the cause.
func (u *Unrecorded) Unwrap() error { return u.Cause }

// The events of this file are appended in the transaction of the change.

// TokenCreated returns the event of a new token.
func TokenCreated(t auth.Token, by audit.Origin) audit.Event {
	return audit.Event{Time: t.CreatedAt, Action: audit.TokenCreate, Origin: by, Details: tokenDetails(t)}
}

// TokenRotated returns the event of a rotation, with the tokens as stored before and after it.
func TokenRotated(fresh auth.Token, r auth.Rotation, by audit.Origin) audit.Event {
	details := append(tokenDetails(fresh), audit.Detail{Key: "old_token_id", Value: strconv.FormatInt(r.Old.ID, 10)})
	for _, t := range r.Ended {
		if t.ID == r.Old.ID {
			details = append(details, audit.Detail{Key: "old_expires_at", Value: t.ExpiresAt.UTC().Format(time.RFC3339)})
		}
	}
	return audit.Event{Time: fresh.CreatedAt, Action: audit.TokenRotate, Origin: by, Details: details}
}

// TokensRevoked returns the events of a revocation, one for each token.
func TokensRevoked(tokens []auth.Token, at time.Time, by audit.Origin) []audit.Event {
	events := make([]audit.Event, len(tokens))
	for i, t := range tokens {
		events[i] = audit.Event{Time: at, Action: audit.TokenRevoke, Origin: by, Details: tokenDetails(t)}
	}
	return events
}

// SubjectsPruned returns the events of a removal of subjects, one for each.
func SubjectsPruned(removed []auth.Token, at time.Time, by audit.Origin) []audit.Event {
	events := make([]audit.Event, len(removed))
	for i, t := range removed {
		details := append(tokenDetails(t), audit.Detail{Key: "token_name", Value: t.Name})
		events[i] = audit.Event{Time: at, Action: audit.TokenPrune, Origin: by, Details: details}
	}
	return events
}

// Migrated returns the event of a migration between two schemas.
func Migrated(from, to int, by audit.Origin) audit.Event {
	return audit.Event{Time: time.Now(), Action: audit.StoreMigrate, Origin: by, Details: []audit.Detail{
		{Key: "from_schema", Value: strconv.Itoa(from)}, {Key: "to_schema", Value: strconv.Itoa(to)},
	}}
}

// Pruned returns the event of a removal of the entries up to an entry.
func Pruned(to audit.Link, removed int64, by audit.Origin) audit.Event {
	details := append(audit.PrunedTo(to), audit.Detail{Key: "removed", Value: strconv.FormatInt(removed, 10)})
	return audit.Event{Time: time.Now(), Action: audit.Prune, Origin: by, Details: details}
}

func tokenDetails(t auth.Token) []audit.Detail {
	if !t.IsToken() {
		return []audit.Detail{
			{Key: "token_id", Value: strconv.FormatInt(t.ID, 10)},
			{Key: "kind", Value: string(t.Kind)},
			{Key: "issuer", Value: t.Issuer},
			{Key: "identifier", Value: t.Identifier},
		}
	}
	details := []audit.Detail{
		{Key: "token_id", Value: strconv.FormatInt(t.ID, 10)},
		{Key: "token_name", Value: t.Name},
		{Key: "scopes", Value: t.Scopes.String()},
	}
	if !t.ExpiresAt.IsZero() {
		details = append(details, audit.Detail{Key: "expires_at", Value: t.ExpiresAt.UTC().Format(time.RFC3339)})
	}
	return details
}
