package store

import (
	"errors"
	"strconv"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
)

// ErrNoAudit means that the schema of a store is older than the audit log.
var ErrNoAudit = errors.New("the schema of the store is older than the audit log; run plantstore migrate")

// ErrAuditFault means that the audit log does not allow a change, because another program has changed the log.
var ErrAuditFault = errors.New("the audit log is damaged; run plantstore audit verify")

// Engines append the events of this file in the transaction of the change.

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
