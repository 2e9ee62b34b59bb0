package adminapi

import (
	"cmp"
	"fmt"
	"net/http"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/plant"
)

func (a *API) listAudit(c *call) (any, error) {
	q := admin.AuditQuery{
		Cursor: c.query.Get("cursor"), Actor: c.query.Get("actor"), Action: c.query.Get("action"),
	}
	switch order := c.query.Get("order"); {
	case order == "oldest":
		q.Oldest = true
	case c.query.Has("order") && order != "newest":
		return nil, mustBe("order", "oldest or newest", order)
	}
	var errSince, errUntil, errLimit error
	q.Since, errSince = c.query.moment("since")
	q.Until, errUntil = c.query.moment("until")
	q.Limit, errLimit = c.query.limit(admin.PageMax)
	if err := cmp.Or(errSince, errUntil, errLimit); err != nil {
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
	if err := http.NewResponseController(c).SetWriteDeadline(time.Time{}); err != nil { // a long log takes long
		return nil, fmt.Errorf("remove the write deadline: %w", err)
	}
	return a.service.VerifyAudit(c.Context(), expected)
}
