package audit_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/audit"
)

var at = time.Date(2026, 11, 22, 9, 30, 0, 123456789, time.FixedZone("", 3600))

// TestSeal compares an entry with texts and hashes that another program has computed, see docs/reference/audit.md.
func TestSeal(t *testing.T) {
	t.Parallel()
	origin := audit.Origin{
		Actor:     audit.Actor{Kind: audit.User, ID: "0", Name: "root", SudoUser: "alice"},
		Address:   "127.0.0.1",
		RequestID: "r1",
	}
	details := []audit.Detail{{Key: "b", Value: `"\é`}, {Key: "a", Value: ""}}
	first := audit.Seal(audit.Link{}, audit.Event{Time: at, Action: audit.TokenCreate, Origin: origin, Details: details})
	second := audit.Seal(first.Link(), audit.Event{Time: at, Action: "x"})
	for i, test := range []struct {
		row        audit.Row
		text, hash string
	}{
		{
			first,
			`{"action":"token.create","actor":{"id":"0","kind":"user","name":"root","sudo_user":"alice"},` +
				`"address":"127.0.0.1","details":{"a":"","b":"\"\\é"},"request_id":"r1","sequence":1,` +
				`"time":"2026-11-22T08:30:00.123456Z"}`,
			"771af88600efa03e114ff354c4c7ba93f62697031151179c898016cb8b715662",
		},
		{
			second,
			`{"action":"x","actor":{},"details":{},"sequence":2,"time":"2026-11-22T08:30:00.123456Z"}`,
			"e470f40391200902458379e4b485eb378e033413ab284fb69f5083f55ea9be11",
		},
	} {
		if test.row.Sequence != int64(i+1) || test.row.Text != test.text || test.row.Hash.String() != test.hash {
			t.Errorf("got  %d %s %s\nwant %d %s %s",
				test.row.Sequence, test.row.Text, test.row.Hash, i+1, test.text, test.hash)
		}
	}
	if second.Previous != first.Hash || first.Previous != (audit.Hash{}) {
		t.Errorf("previous hashes %s, %s", first.Previous, second.Previous)
	}
	got, err := first.Entry()
	want := audit.Entry{
		Event: audit.Event{
			Time: at.UTC().Truncate(time.Microsecond), Action: audit.TokenCreate, Origin: origin,
			Details: []audit.Detail{{Key: "a", Value: ""}, {Key: "b", Value: `"\é`}},
		},
		Sequence: 1, Hash: first.Hash,
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("Entry: %v (-want +got):\n%s", err, diff)
	}
	if got.Text() != first.Text {
		t.Errorf("Text: %s", got.Text())
	}
}

// TestSealCharacters seals a text with characters that JSON encoders treat differently.
func TestSealCharacters(t *testing.T) {
	t.Parallel()
	row := audit.Seal(audit.Link{}, audit.Event{Time: at, Action: "x", Details: []audit.Detail{
		{Key: "v", Value: "<&>/\x7f\u2028\u2029\n\xff水"},
	}})
	want := "\"details\":{\"v\":\"<&>/\ufffd\ufffd\ufffd\ufffd\ufffd水\"}"
	if !strings.Contains(row.Text, want) {
		t.Errorf("got %s, want %s", row.Text, want)
	}
	if _, err := row.Entry(); err != nil {
		t.Errorf("%s: %v", row.Text, err)
	}
}

// TestSealLimits seals an event with texts that exceed each limit. The entry has the longest allowed texts.
func TestSealLimits(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 2000)
	text, value := strings.Repeat("é", 126)+"…", strings.Repeat("é", 510)+"…"
	e := audit.Event{
		Time: time.Date(12345, 1, 1, 0, 0, 0, 0, time.UTC), Action: audit.Action(long),
		Origin: audit.Origin{
			Actor:   audit.Actor{Kind: audit.Kind(long), ID: long, Name: long, SudoUser: long},
			Address: long, RequestID: long,
		},
	}
	for i := range 300 {
		e.Details = append(e.Details, audit.Detail{Key: fmt.Sprintf("k%03d", i), Value: long})
	}
	e.Details = append([]audit.Detail{
		{Key: "K", Value: "an invalid key"},
		{Key: "", Value: "none"},
		{Key: "k000", Value: "first"},
		{Key: strings.Repeat("k", 65), Value: "a long key"},
	}, e.Details...)
	row := audit.Seal(audit.Link{}, e)
	got, err := row.Entry()
	if err != nil {
		t.Fatal(err)
	}
	want := audit.Event{
		Action: audit.Action(text),
		Origin: audit.Origin{
			Actor:   audit.Actor{Kind: audit.Kind(text), ID: text, Name: text, SudoUser: text},
			Address: text, RequestID: text,
		},
		Details: []audit.Detail{{Key: "k000", Value: "first"}},
	}
	for i := 1; i < 256; i++ {
		want.Details = append(want.Details, audit.Detail{Key: fmt.Sprintf("k%03d", i), Value: value})
	}
	if diff := cmp.Diff(want, got.Event); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(row.Text) > audit.EntryBytesMax {
		t.Errorf("the text has %d bytes", len(row.Text))
	}
	e.Details = nil
	for i := range 300 {
		e.Details = append(e.Details, audit.Detail{Key: fmt.Sprintf("k%063d", i), Value: strings.Repeat(`"`, 2000)})
	}
	if row := audit.Seal(audit.Link{}, e); len(row.Text) > audit.EntryBytesMax {
		t.Errorf("the longest text has %d bytes", len(row.Text))
	}
	for name, text := range map[string]string{
		"longer than the limit": `{"action":"` + strings.Repeat("x", audit.EntryBytesMax) + `"}`,
		"no JSON":               "x",
		"no time":               `{"action":"x","actor":{},"details":{},"sequence":1}`,
		"no action":             `{"actor":{},"details":{},"sequence":1,"time":"2026-11-22T08:30:00.123456Z"}`,
		"an unknown member": `{"action":"x","actor":{},"details":{},"more":1,"sequence":1,` +
			`"time":"2026-11-22T08:30:00.123456Z"}`,
		"a null": `{"action":"x","actor":{},"details":null,"sequence":1,"time":"2026-11-22T08:30:00.123456Z"}`,
	} {
		if _, err := (audit.Row{Sequence: 1, Text: text}).Entry(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// chain returns a chain of n entries after an entry, and its ends. If the entry was pruned, the first one says so.
func chain(anchor audit.Link, n int) ([]audit.Row, audit.Ends) {
	var rows []audit.Row
	ends := audit.Ends{Anchor: anchor, Head: anchor}
	for i := range n {
		e := audit.Event{Time: at, Action: "x"}
		if i == 0 && anchor.Sequence > 0 {
			e.Action, e.Details = audit.Prune, audit.PrunedTo(anchor)
		}
		row := audit.Seal(ends.Head, e)
		rows, ends.Head = append(rows, row), row.Link()
	}
	return rows, ends
}

func all(rows []audit.Row) iter.Seq2[audit.Row, error] {
	return audit.Rows(0, func(after int64, limit int) (page []audit.Row, _ error) {
		for _, row := range rows {
			if row.Sequence > after && len(page) < limit {
				page = append(page, row)
			}
		}
		return page, nil
	})
}

// TestVerify verifies chains of more than a page. storetest has the tests of changed chains.
func TestVerify(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 99, 100, 101, 250} {
		for _, anchor := range []audit.Link{{}, {Sequence: 7, Hash: audit.Hash{1}}} {
			rows, ends := chain(anchor, n)
			if err := audit.Verify(ends, all(rows)); err != nil && (n > 0 || anchor.Sequence == 0) {
				t.Errorf("%d entries: %v", n, err)
			}
			if n == 0 {
				continue
			}
			err := audit.Verify(ends, all(rows[:n-1]))
			if !errors.Is(err, audit.ErrMissing) {
				t.Errorf("%d of %d entries: %v", n-1, n, err)
			}
		}
	}
	broken := errors.New("broken")
	read := func(int64, int) ([]audit.Row, error) { return nil, broken }
	if err := audit.Verify(audit.Ends{}, audit.Rows(0, read)); !errors.Is(err, broken) {
		t.Errorf("an error of the rows: %v", err)
	}
}

// TestFaultMessages compares the messages of faults.
func TestFaultMessages(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(rows []audit.Row) []audit.Row
		want   string
	}{
		"changed": {
			func(rows []audit.Row) []audit.Row {
				rows[1].Text = strings.Replace(rows[1].Text, `"x"`, `"y"`, 1)
				return rows
			},
			"entry 2 (2026-11-22T08:30:00.123456Z) is changed: its hash is not the hash of its content",
		},
		"rewritten": {
			func(rows []audit.Row) []audit.Row {
				rows[0] = audit.Seal(audit.Link{}, audit.Event{Time: at, Action: "y"})
				return rows
			},
			"entry 2 (2026-11-22T08:30:00.123456Z) is changed: " +
				"its previous hash is not the hash of entry 1; one of the two was changed",
		},
		"missing": {
			func(rows []audit.Row) []audit.Row { return append(rows[:1], rows[2:]...) },
			"entry 2 (after 2026-11-22T08:30:00.123456Z) is missing: the next entry is 3",
		},
		"the newest missing": {
			func(rows []audit.Row) []audit.Row { return rows[:1] },
			"entry 2 (after 2026-11-22T08:30:00.123456Z) is missing: the newest entry must be 3",
		},
		"reordered": {
			func(rows []audit.Row) []audit.Row {
				rows[1], rows[2] = rows[2], rows[1]
				rows[1].Sequence, rows[2].Sequence = 2, 3
				return rows
			},
			"entry 2 (2026-11-22T08:30:00.123456Z) is reordered: its text has another sequence number: 3",
		},
		"added": {
			func(rows []audit.Row) []audit.Row {
				return append(rows, audit.Seal(rows[2].Link(), audit.Event{Time: at, Action: "x"}))
			},
			"entry 4 is added: the newest entry is 3",
		},
	} {
		rows, ends := chain(audit.Link{}, 3)
		err := audit.Verify(ends, all(test.change(rows)))
		if err == nil || err.Error() != test.want {
			t.Errorf("%s:\ngot  %v\nwant %s", name, err, test.want)
		}
	}
}

// TestActionsAreDocumented compares the actions with the events of the page.
func TestActionsAreDocumented(t *testing.T) {
	t.Parallel()
	find := func(path, pattern string) (names []string) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
			names = append(names, match[1])
		}
		slices.Sort(names)
		return names
	}
	actions := find("audit.go", ` Action = "(.*)"`)
	var areas []string
	for _, action := range actions {
		area, _, _ := strings.Cut(action, ".")
		areas = append(areas, area)
	}
	if diff := cmp.Diff(slices.Compact(areas), audit.Areas); diff != "" {
		t.Errorf("the areas of the actions (-want +got):\n%s", diff)
	}
	events := find("../../docs/reference/audit.md", "(?m)^\\| `([a-z]+[.][a-z_]+)` \\|")
	if diff := cmp.Diff(actions, events); diff != "" || len(actions) == 0 {
		t.Errorf("actions of audit.go and events of the page (-actions +events):\n%s", diff)
	}
}

func TestHashFrom(t *testing.T) {
	t.Parallel()
	column, _ := hex.DecodeString(strings.Repeat("ab", 32))
	if got := audit.HashFrom(column).String(); got != strings.Repeat("ab", 32) {
		t.Errorf("got %s", got)
	}
	for _, column := range [][]byte{nil, column[:31], append(column, 0)} {
		if got := audit.HashFrom(column); got != (audit.Hash{}) {
			t.Errorf("%d bytes: %s", len(column), got)
		}
	}
}

// FuzzEntry decodes arbitrary texts. A text that the decoder accepts is the one that Seal writes for its entry.
func FuzzEntry(f *testing.F) {
	f.Add(`{"action":"x","actor":{},"details":{},"sequence":1,"time":"2026-11-22T08:30:00.123456Z"}`, int64(1))
	f.Add(`{"action":"x","actor":{"id":"1","kind":"user"},"address":"::1","details":{"a":"\"\\"},"request_id":"r",`+
		`"sequence":2,"time":"0000-01-01T00:00:00.000000Z"}`, int64(2))
	f.Fuzz(func(t *testing.T, text string, sequence int64) {
		row := audit.Row{Sequence: sequence, Text: text}
		e, err := row.Entry()
		if err != nil {
			return
		}
		if again := audit.Seal(audit.Link{Sequence: sequence - 1}, e.Event); again.Text != text || e.Text() != text {
			t.Errorf("accepted %q, which Seal writes as %q", text, again.Text)
		}
	})
}

// FuzzSeal seals arbitrary texts. The decoder accepts each entry, and Verify detects a changed byte.
func FuzzSeal(f *testing.F) {
	f.Add("token.create", "root", "details", "value", int64(0), uint(3))
	f.Add("\xff", "\x00\n", "k", strings.Repeat("é", 600), int64(-1), uint(9))
	f.Fuzz(func(t *testing.T, action, name, key, value string, unix int64, change uint) {
		if action == "" {
			action = "x"
		}
		row := audit.Seal(audit.Link{}, audit.Event{
			Time: time.UnixMicro(unix), Action: audit.Action(action),
			Origin: audit.Origin{Actor: audit.Actor{Name: name}}, Details: []audit.Detail{{Key: key, Value: value}},
		})
		ends := audit.Ends{Head: row.Link()}
		if err := audit.Verify(ends, all([]audit.Row{row})); err != nil {
			t.Fatalf("%q: %v", row.Text, err)
		}
		text := []byte(row.Text)
		text[change%uint(len(text))] ^= 1
		row.Text = string(text)
		if err := audit.Verify(ends, all([]audit.Row{row})); err == nil {
			t.Errorf("Verify accepts the changed text %q", row.Text)
		}
	})
}
