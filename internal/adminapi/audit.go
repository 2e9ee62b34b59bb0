package adminapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
)

func (a *API) listAudit(c *call) (any, error) {
	q := admin.AuditQuery{Cursor: c.query.Get("cursor"), Actor: c.query.Get("actor")}
	switch order := c.query.Get("order"); {
	case order == "oldest":
		q.Oldest = true
	case c.query.Has("order") && order != "newest":
		return nil, mustBe("order", "oldest or newest", order)
	}
	var err error
	if since := c.query.Get("since"); c.query.Has("since") {
		if q.Since, err = time.Parse(time.RFC3339, since); err != nil {
			return nil, mustBe("since", "a time of the form 2026-11-22T09:30:00Z", since)
		}
	}
	if q.Limit, err = c.query.limit(admin.PageMax); err != nil {
		return nil, err
	}
	page, err := a.service.Audit(c.Context(), q)
	entries := []any{}
	for _, e := range page.Entries {
		if e.Damage != nil {
			entries = append(entries, damagedEntry{e.Sequence, e.Damage.Error()})
		} else {
			entries = append(entries, json.RawMessage(e.AppendJSON(nil)))
		}
	}
	return struct {
		Entries []any  `json:"entries"`
		Next    string `json:"next,omitempty"`
	}{entries, page.Next}, err
}

// damagedEntry is a row of the audit log that is not an entry.
type damagedEntry struct {
	Sequence int64  `json:"sequence"`
	Damaged  string `json:"damaged"`
}

func (a *API) verifyAudit(c *call) (_ any, err error) {
	var expected audit.Link
	if c.query.Has("expect") {
		if expected, err = audit.ParseLink(c.query.Get("expect")); err != nil {
			return nil, invalidQuery("expect: %v", err)
		}
	}
	if err := http.NewResponseController(c.w).SetWriteDeadline(time.Time{}); err != nil { // a long log takes long
		return nil, fmt.Errorf("remove the write deadline: %w", err)
	}
	return a.service.VerifyAudit(c.Context(), expected)
}
