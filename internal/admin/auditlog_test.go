package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/store/storetest"
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

// The pages of a log that the store reads slowly reach its end, also without an entry.
func TestAuditOfSlowStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine := slowLog{rows: make([]audit.Row, 250)}
		var last audit.Link
		for i := range engine.rows {
			engine.rows[i] = audit.Seal(last, audit.Event{Action: audit.ServerStart})
			last = engine.rows[i].Link()
		}
		service, err := admin.New(admin.Config{Engine: engine})
		if err != nil {
			t.Fatal(err)
		}
		defer service.Close()
		for _, oldest := range []bool{true, false} {
			for actor, want := range map[string]int{"": 250, "nobody": 0} {
				q, found, pages := admin.AuditQuery{Oldest: oldest, Actor: actor, Limit: admin.PageMax}, 0, 0
				for more := true; more && pages < 10; pages++ {
					page, err := service.Audit(t.Context(), q)
					if err != nil {
						t.Fatal(err)
					}
					found += len(page.Entries)
					q.Cursor, more = page.Next, page.Next != ""
				}
				if found != want || pages != 3 {
					t.Errorf("oldest %t, actor %q: got %d entries on %d pages, want %d on 3", oldest, actor, found, pages, want)
				}
			}
		}
	})
}

// slowLog is an engine with an audit log, each read of which takes six seconds.
type slowLog struct {
	storetest.Engine

	rows []audit.Row
}

func (e slowLog) AuditEnds(context.Context) (audit.Ends, error) {
	return audit.Ends{Head: e.rows[len(e.rows)-1].Link()}, nil
}

func (e slowLog) AuditRows(ctx context.Context, after int64, limit int) ([]audit.Row, error) {
	select {
	case <-time.After(6 * time.Second):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	rows := e.rows[after:]
	return rows[:min(limit, len(rows))], nil
}

// A page of a log whose newest rows are missing ends after its time, and the next page continues below it.
func TestAuditWithoutNewestRows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service, err := admin.New(admin.Config{Engine: cutLog{}})
		if err != nil {
			t.Fatal(err)
		}
		defer service.Close()
		var q admin.AuditQuery
		for range 3 {
			page, err := service.Audit(t.Context(), q)
			if err != nil || len(page.Entries) != 0 || page.Next == "" || page.Next == q.Cursor {
				t.Fatalf("got %+v, %v", page, err)
			}
			q.Cursor = page.Next
		}
	})
}

// cutLog is an engine with an audit log without rows.
type cutLog struct{ storetest.Engine }

func (cutLog) AuditEnds(context.Context) (audit.Ends, error) {
	return audit.Ends{Head: audit.Link{Sequence: 1e12}}, nil
}

func (cutLog) AuditRows(ctx context.Context, _ int64, _ int) ([]audit.Row, error) {
	time.Sleep(time.Millisecond) //nolint:forbidigo // in a bubble of synctest
	return nil, ctx.Err()
}
