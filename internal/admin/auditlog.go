package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
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
	Until  time.Time // only entries before; zero: all entries
	Actor  string    // only entries of this actor, see audit.Entry.IsBy; empty: all entries
	Action string    // only entries of this action, see audit.Entry.IsOf; empty: all entries
	Limit  int       // from 1 to PageMax
}

func (q AuditQuery) selects(e audit.Entry) bool {
	early, late := e.Time.Before(q.Since), !q.Until.IsZero() && !e.Time.Before(q.Until)
	return !early && !late && e.IsBy(q.Actor) && e.IsOf(q.Action)
}

// AuditPage is a page of the audit log, in the form of the API.
type AuditPage struct {
	Entries []AuditEntry `json:"entries"`        // any page may have fewer than AuditQuery.Limit, even none
	Next    string       `json:"next,omitempty"` // cursor of the next page; empty: this is the last page
	Head    audit.Link   `json:"-"`              // the newest entry of the log
}

// AuditEntry is an entry of the audit log.
type AuditEntry struct {
	audit.Entry       // only its sequence number is valid if it is damaged
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
func (s *Service) Audit(ctx context.Context, q AuditQuery) (AuditPage, error) {
	at, err := parseIDCursor(q.Cursor)
	if err != nil {
		return AuditPage{}, err
	}
	if q.Cursor == "" && !q.Oldest {
		at = math.MaxInt64
	}
	return run(ctx, s, s.unreadable, func(ctx context.Context) (AuditPage, error) { return s.auditPage(ctx, q, at) })
}

// auditPage returns the page of a query that starts at a sequence number. No entry needs to have this number.
func (s *Service) auditPage(ctx context.Context, q AuditQuery, at int64) (page AuditPage, err error) {
	ends, err := s.engine.AuditEnds(ctx)
	if err != nil {
		return page, err
	}
	page.Entries, page.Head = []AuditEntry{}, ends.Head
	until, reads, last := time.Now().Add(pageTimeMax), 0, int64(0)
	read := func(after int64, limit int) ([]audit.Row, error) {
		if reads++; reads > 1 && time.Now().After(until) { // the first read lets the next page start at another row
			return nil, errPageTime
		}
		return s.engine.AuditRows(ctx, after, limit)
	}
	rows := rowsDown(min(at, ends.Head.Sequence), ends.Anchor.Sequence, read)
	if q.Oldest {
		rows = audit.Rows(max(at, ends.Anchor.Sequence+1)-1, read)
	}
	for row, err := range rows {
		switch {
		case errors.Is(err, errPageTime) && q.Oldest:
			page.Next = cursorAfter(last)
			return page, nil
		case errors.Is(err, errPageTime):
			page.Next = newCursor(row.Sequence, "")
			return page, nil
		case err != nil:
			return page, err
		}
		last = row.Sequence
		e, damage := row.Entry()
		if damage == nil && !q.selects(e) {
			continue
		}
		if len(page.Entries) == q.Limit {
			page.Next = newCursor(row.Sequence, "")
			return page, nil
		}
		page.Entries = append(page.Entries, AuditEntry{e, damage})
	}
	return page, nil
}

// errPageTime ends the rows of a page that has taken its time.
var errPageTime = errors.New("the page has taken its time")

// rowsDown returns the rows from a sequence number down to the one after the anchor. read is as for audit.Rows. The row
// of an error has the sequence number at which another page continues.
func rowsDown(
	at, anchor int64, read func(after int64, limit int) ([]audit.Row, error),
) iter.Seq2[audit.Row, error] {
	const pageRows = 100
	return func(yield func(audit.Row, error) bool) {
		for at := at; at > anchor; at -= pageRows {
			rows, err := read(max(at-pageRows, anchor), pageRows)
			if err != nil {
				yield(audit.Row{Sequence: at}, err)
				return
			}
			for _, row := range slices.Backward(rows) {
				if row.Sequence <= at && !yield(row, nil) {
					return
				}
			}
		}
	}
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
	var fault *audit.Fault
	ends, err := run(ctx, s, s.unreadable, func(ctx context.Context) (audit.Ends, error) {
		select {
		case s.verifying <- struct{}{}:
			defer func() { <-s.verifying }()
		case <-ctx.Done():
			return audit.Ends{}, ctx.Err()
		}
		ends, err := store.VerifyAudit(ctx, s.engine, expected)
		switch {
		case errors.As(err, &fault):
			return ends, nil
		case errors.Is(err, store.ErrAuditPruned):
			return ends, plant.InvalidQuery("%v", err)
		}
		return ends, err
	})
	if err != nil {
		return v, err
	}
	v = AuditVerification{
		DB: s.config.DB, Whole: fault == nil, Entries: ends.Head.Sequence - ends.Anchor.Sequence, Fault: fault,
	}
	if v.Entries > 0 {
		v.First = ends.Anchor.Sequence + 1
	}
	if ends.Head.Sequence > 0 {
		v.Head = ends.Head.String()
	}
	return v, nil
}
