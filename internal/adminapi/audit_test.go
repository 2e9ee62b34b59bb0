package adminapi_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/audit"
)

// auditPage is the body of a page of the audit log.
type auditPage struct {
	Entries []json.RawMessage
	Next    string
}

func (h *harness) auditPage(query string) (page auditPage) {
	h.t.Helper()
	got := h.get("/audit?" + query)
	if err := json.Unmarshal([]byte(got.body), &page); err != nil || got.status != 200 {
		h.t.Fatalf("%s: got %+v: %v", query, got, err)
	}
	return page
}

// sequencesOf returns the sequence numbers of all pages of a query.
func (h *harness) sequencesOf(query string) (all []int64, pages int) {
	h.t.Helper()
	for cursor := ""; ; pages++ {
		page := h.auditPage(query + cursor)
		for _, text := range page.Entries {
			e, err := audit.ParseJSON(string(text))
			if err != nil {
				h.t.Fatalf("%s: %v", text, err)
			}
			all = append(all, e.Sequence)
		}
		if page.Next == "" {
			return all, pages + 1
		}
		cursor = "&cursor=" + page.Next
	}
}

// TestAudit reads the log in both orders, page by page and filtered.
func TestAudit(t *testing.T) {
	t.Parallel()
	h := start(t, setup{})
	early := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i := range 5 {
		event := audit.Event{Time: early, Action: audit.ServerStart, Origin: audit.Origin{
			Actor: audit.Actor{Kind: audit.User, ID: fmt.Sprint(1000 + i%2), Name: "alice"},
		}, Details: []audit.Detail{{Key: "file", Value: `a"},"previous":"b`}}}
		if err := h.engine.AppendAudit(t.Context(), event); err != nil {
			t.Fatal(err)
		}
	}
	up, down := []int64{1, 2, 3, 4, 5, 6, 7}, []int64{7, 6, 5, 4, 3, 2, 1}
	for query, want := range map[string][]int64{
		"order=oldest": up, "order=newest&limit=2": down, "limit=3": down, "order=oldest&limit=1": up,
		"actor=1001": {6, 4}, "actor=alice&order=oldest&limit=4": {3, 4, 5, 6, 7}, "actor=bob": nil,
		"since=2026-01-02T03:04:06Z": {2, 1}, "since=" + url.QueryEscape("2026-01-02T05:04:05+02:00"): down,
		"until=2026-01-02T03:04:06Z": {7, 6, 5, 4, 3}, "until=2026-01-02T03:04:05Z&order=oldest": nil,
		"action=server.start&limit=2": {7, 6, 5, 4, 3}, "action=token": {2, 1}, "action=tok": nil,
		"action=server&actor=1001": {6, 4},
	} {
		if got, _ := h.sequencesOf(query); !cmp.Equal(want, got) {
			t.Errorf("%s: got %v, want %v", query, got, want)
		}
	}
	row := h.auditPage("limit=1").Entries[0]
	got, err := audit.ParseJSON(string(row))
	rows, errRows := h.engine.AuditRows(t.Context(), 6, 1)
	if err != nil || errRows != nil {
		t.Fatal(err, errRows)
	}
	want, err := rows[0].Entry()
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("entry (-want +got):\n%s%v", diff, err)
	}
	for query, message := range map[string]string{
		"order=up":      `order must be oldest or newest; got "up"`,
		"since=monday":  `since must be a time of the form 2026-11-22T09:30:00Z; got "monday"`,
		"until=friday":  `until must be a time of the form 2026-11-22T09:30:00Z; got "friday"`,
		"limit=1001":    `limit must be an integer from 1 to 1000; got "1001"`,
		"cursor=AAAA":   "cursor must be the next of an earlier page; send the request without it for the first page",
		"sequence=1":    `unknown query parameter "sequence"; use limit, cursor, since, until, action, actor, order`,
		"actor=%ff":     "query parameter actor must be UTF-8 with percent-encoding",
		"since=&limit=": "",
	} {
		if got := h.get("/audit?" + query); message != "" {
			check(t, query, got, refused(40061, message))
		} else if got.status != 400 {
			t.Errorf("%s: got %+v", query, got)
		}
	}
}

// TestAuditVerification verifies the log, and compares it with heads that it has and that it lacks.
func TestAuditVerification(t *testing.T) {
	t.Parallel()
	h := start(t, setup{})
	verify := func(query string) (v struct {
		DB, Head string
		Whole    bool
		Entries  int64
		Fault    struct{ Kind string }
	},
	) {
		t.Helper()
		got := h.get("/audit/verify" + query)
		if err := json.Unmarshal([]byte(got.body), &v); err != nil || got.status != 200 {
			t.Fatalf("got %+v: %v", got, err)
		}
		return v
	}
	first := verify("")
	if !first.Whole || first.Entries != 2 || first.DB != "plants.db" || !strings.HasPrefix(first.Head, "2:") {
		t.Errorf("got %+v", first)
	}
	if got := verify("?expect=" + first.Head); !got.Whole {
		t.Errorf("the same head: got %+v", got)
	}
	if got := verify("?expect=9" + first.Head); got.Whole || got.Fault.Kind != "missing" {
		t.Errorf("a later head: got %+v", got)
	}
	check(t, "no head", h.get("/audit/verify?expect=x"), refused(40061,
		`expect: "x" is not a head; use the form 42: and 64 hexadecimal digits, as audit verify prints it`))
}

// A forged cursor selects entries as another number does, and does not make the server look for entries that cannot
// exist.
func TestAuditCursorForged(t *testing.T) {
	t.Parallel()
	h := start(t, setup{})
	all := h.auditPage("")
	if len(all.Entries) < 2 || all.Next != "" {
		t.Fatalf("got %d entries", len(all.Entries))
	}
	for _, row := range []struct {
		at             int64
		newest, oldest int
	}{
		{math.MaxInt64, len(all.Entries), 0},
		{math.MinInt64, 0, len(all.Entries)},
		{math.MinInt64 + 1, 0, len(all.Entries)},
		{-1, 0, len(all.Entries)},
		{0, 0, len(all.Entries)},
	} {
		cursor := base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64([]byte{1}, uint64(row.at)))
		for order, want := range map[string]int{"newest": row.newest, "oldest": row.oldest} {
			got := h.auditPage("order=" + order + "&cursor=" + cursor)
			if len(got.Entries) != want || got.Next != "" {
				t.Errorf("%d, %s: got %d entries, next %q, want %d", row.at, order, len(got.Entries), got.Next, want)
			}
		}
	}
}
