package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// AuditQuery selects a page of the audit log.
type AuditQuery struct {
	Cursor string    // AuditPage.Next of the page before; empty: the first page
	Oldest bool      // the oldest entry first; false: the newest
	Since  time.Time // only entries from then on
	Actor  string    // only entries of this actor, see audit.Entry.IsBy; empty: all entries
	Limit  int       // from 1 to PageMax
}

// AuditPage is a page of the audit log, in the form of the API.
type AuditPage struct {
	Entries []AuditEntry `json:"entries"`        // any page may have fewer than AuditQuery.Limit, even none
	Next    string       `json:"next,omitempty"` // cursor of the next page; empty: this is the last page
	Head    audit.Link   `json:"-"`              // the newest entry of the log
}

// AuditEntry is an entry of the audit log.
type AuditEntry struct {
	audit.Entry       // with the sequence number only if it is damaged
	Damage      error // why the row is no entry; nil if it is one
}

// damagedEntry is the JSON of a row that is no entry.
type damagedEntry struct {
	Sequence int64  `json:"sequence"`
	Damaged  string `json:"damaged"`
}

// MarshalJSON returns the canonical text of the entry, with its hashes as further members.
func (e AuditEntry) MarshalJSON() ([]byte, error) {
	if e.Damage != nil {
		return json.Marshal(damagedEntry{e.Sequence, e.Damage.Error()})
	}
	return e.AppendJSON(nil), nil
}

// UnmarshalJSON parses the result of MarshalJSON. It does not check the hash.
func (e *AuditEntry) UnmarshalJSON(text []byte) (err error) {
	var damaged damagedEntry
	if err := json.Unmarshal(text, &damaged); err == nil && damaged.Damaged != "" {
		e.Sequence, e.Damage = damaged.Sequence, errors.New(damaged.Damaged)
		return nil
	}
	if e.Entry, err = audit.ParseJSON(string(text)); err != nil {
		return fmt.Errorf("entry %d of the audit log: %w", damaged.Sequence, err)
	}
	return nil
}

// Audit returns a page of the audit log. It does not verify the chain.
func (s *Service) Audit(ctx context.Context, q AuditQuery) (page AuditPage, err error) {
	page.Entries = []AuditEntry{}
	at, err := parseIDCursor(q.Cursor)
	if err != nil {
		return page, err
	}
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return page, err
	}
	defer end()
	ends, err := s.engine.AuditEnds(ctx)
	if err != nil {
		return page, s.unreadable(err)
	}
	page.Head = ends.Head
	switch first := ends.Anchor.Sequence + 1; {
	case q.Oldest: // a cursor may name pruned entries, or, if it is not of this log, any number
		at = max(at, first)
	case q.Cursor == "":
		at = ends.Head.Sequence
	default:
		at = min(max(at, first-1), ends.Head.Sequence)
	}
	for until := time.Now().Add(pageTimeMax); ; {
		rows, next, err := s.auditRows(ctx, at, ends, q.Oldest)
		if err != nil {
			return page, s.unreadable(err)
		}
		for _, row := range rows {
			e, damage := row.Entry()
			if damage != nil {
				e = audit.Entry{Sequence: row.Sequence}
			} else if e.Time.Before(q.Since) || !e.IsBy(q.Actor) {
				continue
			}
			if len(page.Entries) == q.Limit {
				page.Next = newCursor(row.Sequence, "")
				return page, nil
			}
			page.Entries = append(page.Entries, AuditEntry{e, damage})
		}
		switch at = next; {
		case at == 0:
			return page, nil
		case time.Now().After(until):
			page.Next = newCursor(at, "")
			return page, nil
		}
	}
}

// auditRows returns the rows from a sequence number on, up or down, and the number at which the next call continues; 0:
// there are no further rows.
func (s *Service) auditRows(
	ctx context.Context, at int64, ends audit.Ends, oldest bool,
) (rows []audit.Row, next int64, err error) {
	const rowsOfRead = 500
	after := max(at-1, ends.Anchor.Sequence)
	if !oldest {
		after = max(at-rowsOfRead, ends.Anchor.Sequence)
	}
	if rows, err = s.engine.AuditRows(ctx, after, rowsOfRead); err != nil {
		return nil, 0, err
	}
	if oldest {
		if len(rows) == rowsOfRead {
			next = rows[len(rows)-1].Sequence + 1
		}
		return rows, next, nil
	}
	rows = slices.DeleteFunc(rows, func(r audit.Row) bool { return r.Sequence > at })
	slices.Reverse(rows)
	if after > ends.Anchor.Sequence {
		next = after
	}
	return rows, next, nil
}

// AuditVerification is the result of a verification of the audit log, in the form of the API and of audit verify
// --json.
type AuditVerification struct {
	DB      string       `json:"db"` // without its password
	Whole   bool         `json:"whole"`
	Entries int64        `json:"entries"`
	First   int64        `json:"first,omitempty"` // sequence number of the oldest entry that was not pruned
	Head    string       `json:"head,omitempty"`
	Fault   *audit.Fault `json:"fault,omitempty"`
}

// VerifyAudit verifies the audit log, and that it contains an expected entry; every log contains the zero value.
func (s *Service) VerifyAudit(ctx context.Context, expected audit.Link) (v AuditVerification, err error) {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return v, err
	}
	defer end()
	select {
	case s.verifying <- struct{}{}:
		defer func() { <-s.verifying }()
	case <-ctx.Done():
		return v, s.unreadable(ctx.Err())
	}
	ends, err := store.VerifyAudit(ctx, s.engine, expected)
	fault, damaged := errors.AsType[*audit.Fault](err)
	switch {
	case errors.Is(err, store.ErrAuditPruned):
		return v, plant.InvalidQuery("%v", err)
	case err != nil && !damaged:
		return v, s.unreadable(err)
	}
	v = AuditVerification{
		DB: s.config.DB, Whole: !damaged, Entries: ends.Head.Sequence - ends.Anchor.Sequence, Fault: fault,
	}
	if v.Entries > 0 {
		v.First = ends.Anchor.Sequence + 1
	}
	if ends.Head.Sequence > 0 {
		v.Head = ends.Head.String()
	}
	return v, nil
}
