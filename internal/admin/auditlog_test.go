package admin_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
)

// The JSON of an entry is its canonical text. The JSON of a damaged row has the reason. Both can be read again.
func TestAuditEntryJSON(t *testing.T) {
	t.Parallel()
	entry, err := audit.Seal(audit.Link{}, audit.Event{Time: time.Unix(1, 0), Action: "x"}).Entry()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []admin.AuditEntry{
		{Entry: entry}, {Entry: audit.Entry{Sequence: 7}, Damage: errors.New(`its text is "x"`)},
	} {
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got admin.AuditEntry
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got.Text() != want.Text() || got.Hash != want.Hash || (got.Damage == nil) != (want.Damage == nil) ||
			got.Damage != nil && got.Damage.Error() != want.Damage.Error() {
			t.Errorf("%s: got %+v, want %+v", text, got, want)
		}
	}
	var none admin.AuditEntry
	if err := json.Unmarshal([]byte(`{"sequence":3,"previous":"","hash":""}`), &none); err == nil {
		t.Errorf("no entry: got %+v", none)
	}
}
