package storetest

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/store"
)

var operator = audit.Origin{Actor: audit.Actor{Kind: audit.User, ID: "0", Name: "root", SudoUser: "alice"}}

// event returns an event with one detail.
func event(value string) audit.Event {
	return audit.Event{
		Time: createdAt, Action: "test", Origin: operator, Details: []audit.Detail{{Key: "value", Value: value}},
	}
}

// auditRows returns all rows of a log that Verify finds intact.
func auditRows(t testing.TB, e Engine) (rows []audit.Row) {
	t.Helper()
	if err := verifyAudit(t, e); err != nil {
		t.Errorf("Verify: %v", err)
	}
	rows, err := e.AuditRows(t.Context(), math.MinInt64, 1000)
	must(t, err)
	return rows
}

func verifyAudit(t testing.TB, e Engine) error {
	t.Helper()
	ends, err := e.AuditEnds(t.Context())
	must(t, err)
	return audit.Verify(ends, audit.Rows(math.MinInt64, func(after int64, limit int) ([]audit.Row, error) {
		return e.AuditRows(t.Context(), after, limit)
	}))
}

func auditEntry(t testing.TB, row audit.Row) audit.Entry {
	t.Helper()
	e, err := row.Entry()
	must(t, err)
	return e
}

func testAppendAudit(t *testing.T, s Store) {
	e := s.Open(t)
	ends, err := e.AuditEnds(t.Context())
	must(t, err)
	equal(t, "ends of a new log", ends, audit.Ends{})
	equal(t, "rows of a new log", len(auditRows(t, e)), 0)
	must(t, e.AppendAudit(t.Context()))
	must(t, e.AppendAudit(t.Context(), event("a"), event(`"\`+"\n\x00\xff é…")))
	must(t, e.AppendAudit(t.Context(), event("c")))
	mustClose(t, e)

	e = open(t, s)
	rows := auditRows(t, e)
	if len(rows) != 3 {
		t.Fatalf("%d rows, want 3", len(rows))
	}
	want := audit.Entry{Event: event("\"\\\uFFFD\uFFFD\uFFFD é…"), Sequence: 2, Previous: rows[0].Hash, Hash: rows[1].Hash}
	equal(t, "the second entry", auditEntry(t, rows[1]), want)
	ends, err = e.AuditEnds(t.Context())
	must(t, err)
	equal(t, "ends", ends, audit.Ends{Head: rows[2].Link()})
	some, err := e.AuditRows(t.Context(), 1, 1)
	must(t, err)
	equal(t, "one row after the first", some, rows[1:2])
}

// testAuditTokens shows that each change of tokens appends its entry, and that a refused change appends none.
func testAuditTokens(t *testing.T, s Store) {
	e := open(t, s)
	ctx := t.Context()
	if _, err := e.CreateFirstTokens(ctx, []auth.Token{token("a", createdAt)}, operator); err != nil {
		t.Fatal(err)
	}
	fresh := token("b", createdAt)
	fresh.ExpiresAt = createdAt.Add(time.Hour)
	if _, err := e.CreateToken(ctx, fresh, operator); err != nil {
		t.Fatal(err)
	}
	rotated := token("b", createdAt.Add(time.Minute))
	if _, _, err := e.RotateToken(ctx, rotated, time.Second, operator); err != nil {
		t.Fatal(err)
	}
	if _, err := e.RevokeTokens(ctx, store.Selector{Name: "b"}, createdAt, operator); err != nil {
		t.Fatal(err)
	}
	_, errFirst := e.CreateFirstTokens(ctx, []auth.Token{token("c", createdAt)}, operator)
	_, errTaken := e.CreateToken(ctx, token("a", createdAt), operator)
	_, _, errRotate := e.RotateToken(ctx, token("b", createdAt), 0, operator)
	_, errRevoke := e.RevokeTokens(ctx, store.Selector{Name: "b"}, createdAt, operator)
	if errFirst != nil || errTaken == nil || errRotate == nil || errRevoke == nil {
		t.Fatalf("refused changes: %v, %v, %v, %v", errFirst, errTaken, errRotate, errRevoke)
	}
	var got []string
	for _, row := range auditRows(t, e) {
		entry := auditEntry(t, row)
		equal(t, "origin", entry.Origin, operator)
		got = append(got, fmt.Sprint(entry.Time.Sub(createdAt), " ", entry.Action, " ", entry.Details))
	}
	equal(t, "entries", got, []string{
		"0s token.create [{scopes plants:create} {token_id 1} {token_name a}]",
		"0s token.create [{expires_at 2026-11-21T10:30:00Z} {scopes plants:create} {token_id 2} {token_name b}]",
		"1m0s token.rotate [{expires_at 2026-11-21T10:31:00Z} {old_expires_at 2026-11-21T09:31:01Z} {old_token_id 2} " +
			"{scopes plants:create} {token_id 3} {token_name b}]",
		"0s token.revoke [{expires_at 2026-11-21T09:31:01Z} {scopes plants:create} {token_id 2} {token_name b}]",
		"0s token.revoke [{expires_at 2026-11-21T10:31:00Z} {scopes plants:create} {token_id 3} {token_name b}]",
	})
}

// testAuditRace appends with several engines at the same time.
func testAuditRace(t *testing.T, s Store) {
	const engines, each = 4, 5
	var wg sync.WaitGroup
	for range engines {
		e := open(t, s)
		wg.Go(func() {
			for i := range each {
				if err := e.AppendAudit(t.Context(), event(fmt.Sprint(i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	equal(t, "rows", len(auditRows(t, open(t, s))), engines*each)
}

func testPruneAudit(t *testing.T, s Store) {
	e := open(t, s)
	for _, value := range []string{"a", "b", "c"} {
		must(t, e.AppendAudit(t.Context(), event(value)))
	}
	rows := auditRows(t, e)
	wrong := rows[1].Link()
	wrong.Hash[0]++
	for _, link := range []audit.Link{wrong, {Sequence: 4, Hash: rows[2].Hash}} {
		if _, err := e.PruneAudit(t.Context(), link, operator); !errors.Is(err, store.ErrAuditFault) {
			t.Errorf("prune to an entry that is not in the log: %v, want %v", err, store.ErrAuditFault)
		}
	}
	equal(t, "after refused calls", auditRows(t, e), rows)

	for _, want := range []int64{2, 0} { // the second call has nothing to do
		removed, err := e.PruneAudit(t.Context(), rows[1].Link(), operator)
		if err != nil || removed != want {
			t.Errorf("PruneAudit: %d, %v; want %d", removed, err, want)
		}
	}
	left := auditRows(t, e)
	if len(left) != 2 || left[0] != rows[2] {
		t.Fatalf("rows: %+v", left)
	}
	equal(t, "the entry about it", auditEntry(t, left[1]).Details, []audit.Detail{
		{Key: "removed", Value: "2"}, {Key: "to_hash", Value: rows[1].Hash.String()}, {Key: "to_sequence", Value: "2"},
	})
	if _, err := e.PruneAudit(t.Context(), left[1].Link(), operator); err != nil { // all entries
		t.Fatal(err)
	}
	equal(t, "rows after the whole log was pruned", len(auditRows(t, e)), 1)
	must(t, e.AppendAudit(t.Context(), event("d")))
	equal(t, "the next sequence number", auditRows(t, e)[1].Sequence, int64(6))
}

// testPutAudit copies a pruned log into an empty one.
func testPutAudit(t *testing.T, s Store) {
	e := open(t, s)
	anchor := audit.Link{Sequence: 7, Hash: audit.Hash{1}}
	pruned := event("a")
	pruned.Action, pruned.Details = audit.Prune, audit.PrunedTo(anchor)
	rows := []audit.Row{audit.Seal(anchor, pruned)}
	for last := rows[0].Link(); len(rows) < 4; last = rows[len(rows)-1].Link() {
		rows = append(rows, audit.Seal(last, event("a")))
	}
	must(t, e.PutAudit(t.Context(), anchor, nil))
	must(t, e.PutAudit(t.Context(), anchor, rows[:2]))
	changed := rows[2]
	changed.Text += " "
	for what, rows := range map[string][]audit.Row{"a gap": rows[3:], "again": rows[1:2], "changed": {changed}} {
		if err := e.PutAudit(t.Context(), anchor, rows); !errors.Is(err, store.ErrAuditFault) {
			t.Errorf("%s: %v, want %v", what, err, store.ErrAuditFault)
		}
	}
	must(t, e.PutAudit(t.Context(), anchor, rows[2:]))
	equal(t, "rows", auditRows(t, e), rows)
	ends, err := e.AuditEnds(t.Context())
	must(t, err)
	equal(t, "ends", ends, audit.Ends{Anchor: anchor, Head: rows[3].Link()})
	must(t, e.AppendAudit(t.Context(), event("b")))
	equal(t, "rows after an entry", len(auditRows(t, e)), 5)
}

// tampering is SQL that changes a log of the entries 3 to 6, and the fault that Verify then returns. The entries 1 and
// 2 were pruned.
var tampering = []struct {
	sql      string
	kind     error
	sequence int64
}{
	{"UPDATE plantstore_audit SET entry = replace(entry, 'root', 'boot') WHERE sequence = 4", audit.ErrChanged, 4},
	{"UPDATE plantstore_audit SET entry = replace(entry, '09:30', '09:31') WHERE sequence = 5", audit.ErrChanged, 5},
	{"UPDATE plantstore_audit SET entry = replace(entry, ',', ', ') WHERE sequence = 5", audit.ErrChanged, 5},
	{"UPDATE plantstore_audit SET entry = '' WHERE sequence = 3", audit.ErrChanged, 3},
	{
		"UPDATE plantstore_audit SET entry = replace(entry, '\"sequence\":4', '\"sequence\":3') WHERE sequence = 4",
		audit.ErrReordered, 4,
	},
	{"UPDATE plantstore_audit SET hash = previous WHERE sequence = 4", audit.ErrChanged, 4},
	{"UPDATE plantstore_audit SET hash = previous WHERE sequence = 6", audit.ErrChanged, 6},
	{"UPDATE plantstore_audit SET previous = hash WHERE sequence = 4", audit.ErrChanged, 4},
	{"UPDATE plantstore_audit SET sequence = 10 WHERE sequence = 4", audit.ErrMissing, 4},
	{"UPDATE plantstore_audit SET sequence = 7 WHERE sequence = 6", audit.ErrMissing, 6},
	{"DELETE FROM plantstore_audit WHERE sequence = 3", audit.ErrMissing, 3},
	{"DELETE FROM plantstore_audit WHERE sequence = 4", audit.ErrMissing, 4},
	{"DELETE FROM plantstore_audit WHERE sequence = 6", audit.ErrMissing, 6},
	{"DELETE FROM plantstore_audit", audit.ErrMissing, 3},
	{"UPDATE plantstore_audit SET sequence = -4 WHERE sequence = 4; " +
		"UPDATE plantstore_audit SET sequence = 4 WHERE sequence = 5; " +
		"UPDATE plantstore_audit SET sequence = 5 WHERE sequence = -4", audit.ErrReordered, 4},
	{
		"INSERT INTO plantstore_audit SELECT 1, entry, previous, hash FROM plantstore_audit WHERE sequence = 3",
		audit.ErrAdded, 1,
	},
	{
		"INSERT INTO plantstore_audit SELECT 7, entry, previous, hash FROM plantstore_audit WHERE sequence = 6",
		audit.ErrAdded, 7,
	},
	{"UPDATE plantstore SET audit_sequence = 5", audit.ErrAdded, 6},
	{"UPDATE plantstore SET audit_sequence = 7", audit.ErrMissing, 7},
	{"UPDATE plantstore SET audit_hash = pruned_hash", audit.ErrChanged, 6},
	{"UPDATE plantstore SET pruned_sequence = 3", audit.ErrAdded, 3},
	{"UPDATE plantstore SET pruned_sequence = 1", audit.ErrMissing, 2},
	{"UPDATE plantstore SET pruned_hash = audit_hash", audit.ErrChanged, 3},
	{"UPDATE plantstore SET pruned_sequence = NULL, pruned_hash = NULL", audit.ErrMissing, 1},
	{"UPDATE plantstore SET pruned_sequence = 4; DELETE FROM plantstore_audit WHERE sequence < 5", audit.ErrChanged, 5},
	{
		"UPDATE plantstore SET pruned_sequence = 4, pruned_hash = (SELECT hash FROM plantstore_audit WHERE sequence = 4); " +
			"DELETE FROM plantstore_audit WHERE sequence < 5",
		audit.ErrMissing, 4,
	},
	{
		"UPDATE plantstore SET pruned_sequence = audit_sequence, pruned_hash = audit_hash; DELETE FROM plantstore_audit",
		audit.ErrMissing, 6,
	},
}

func testTampering(t *testing.T, s Store) {
	e := open(t, s)
	for i := range 5 {
		must(t, e.AppendAudit(t.Context(), event(fmt.Sprint(i))))
	}
	if _, err := e.PruneAudit(t.Context(), auditRows(t, e)[1].Link(), operator); err != nil {
		t.Fatal(err)
	}
	equal(t, "rows", len(auditRows(t, e)), 4)
	s.Tamper(t, "CREATE TABLE saved AS SELECT * FROM plantstore_audit; "+
		"CREATE TABLE saved_state AS SELECT * FROM plantstore")
	for _, test := range tampering {
		s.Tamper(t, test.sql)
		err := verifyAudit(t, e)
		var fault *audit.Fault
		if !errors.As(err, &fault) || !errors.Is(err, test.kind) || fault.Sequence != test.sequence {
			t.Errorf("%s:\ngot  %v\nwant entry %d is %v", test.sql, err, test.sequence, test.kind)
		}
		s.Tamper(t, "DELETE FROM plantstore_audit; INSERT INTO plantstore_audit SELECT * FROM saved; "+
			"UPDATE plantstore SET audit_sequence = s.audit_sequence, audit_hash = s.audit_hash, "+
			"pruned_sequence = s.pruned_sequence, pruned_hash = s.pruned_hash FROM saved_state AS s")
		must(t, verifyAudit(t, e))
	}
	// An engine does not append to a log with an entry after its head, and still stores plants.
	s.Tamper(t, "INSERT INTO plantstore_audit SELECT 7, entry, previous, hash FROM plantstore_audit WHERE sequence = 6")
	if err := e.AppendAudit(t.Context(), event("x")); !errors.Is(err, store.ErrAuditFault) {
		t.Errorf("append: %v, want %v", err, store.ErrAuditFault)
	}
	if diff := cmp.Diff([]store.Outcome{{}}, mustInsert(t, e, create(1, "Rosa", plant.Tag{}))); diff != "" {
		t.Error(diff)
	}
}

// testUnrecorded shows that a log which accepts no entry does not stop a revocation, and that the entries can follow.
func testUnrecorded(t *testing.T, s Store) {
	e, other := open(t, s), open(t, s)
	mustCreateToken(t, e, token("a", createdAt))
	subject := mustPutSubject(t, e, subjectNamed("subject"))
	s.Tamper(t, "INSERT INTO plantstore_audit SELECT sequence + 1, entry, previous, hash FROM plantstore_audit")
	before := mustState(t, other).TokenChanges

	var events []audit.Event
	unrecorded := func(what string, err error) {
		t.Helper()
		var u *store.Unrecorded
		if !errors.As(err, &u) || !errors.Is(err, store.ErrAuditFault) || len(u.Events) != 1 {
			t.Fatalf("%s: %v, want one event that was not recorded", what, err)
		}
		events = append(events, u.Events...)
	}
	revoked, err := e.RevokeTokens(t.Context(), store.Selector{Name: "a"}, createdAt, operator)
	unrecorded("token", err)
	subject.RevokedAt = createdAt
	stored, err := e.RevokeIdentity(t.Context(), subject, 100, operator)
	unrecorded("subject", err)
	tokens := mustTokens(t, other)
	equal(t, "tokens", tokens, append(revoked, stored))
	for _, token := range tokens {
		if token.RevokedAt.IsZero() {
			t.Errorf("%+v is not revoked", token)
		}
	}
	equal(t, "changes of tokens", mustState(t, other).TokenChanges-before, 2)
	if _, err := e.CreateToken(t.Context(), token("b", createdAt), operator); !errors.Is(err, store.ErrAuditFault) {
		t.Errorf("a new token: %v, want %v", err, store.ErrAuditFault)
	}

	s.Tamper(t, "DELETE FROM plantstore_audit WHERE sequence > 1")
	must(t, e.AppendAudit(t.Context(), events...))
	rows := auditRows(t, other)
	equal(t, "entries", len(rows), 3)
	for _, row := range rows[1:] {
		equal(t, "action", auditEntry(t, row).Action, audit.TokenRevoke)
	}
}
