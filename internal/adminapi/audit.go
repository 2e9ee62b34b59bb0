package adminapi

import (
	"fmt"
	"net/http"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/plant"
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
	return a.service.Audit(c.Context(), q)
}

func (a *API) verifyAudit(c *call) (_ any, err error) {
	var expected audit.Link
	if c.query.Has("expect") {
		if expected, err = audit.ParseLink(c.query.Get("expect")); err != nil {
			return nil, plant.InvalidQuery("expect: %v", err)
		}
	}
	if err := http.NewResponseController(c.w).SetWriteDeadline(time.Time{}); err != nil { // a long log takes long
		return nil, fmt.Errorf("remove the write deadline: %w", err)
	}
	return a.service.VerifyAudit(c.Context(), expected)
}
