package console

import (
	"context"
	"net/http"

	"plantstore/internal/admin"
	"plantstore/internal/auth"
)

func (c *Console) showAudit(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
	const entriesOnPage = 50
	c.Audit.Flush(context.WithoutCancel(r.Context())) // at most 5 s; a COMMIT without a result would be repeated
	page, err := c.Operations.Audit(
		r.Context(), admin.AuditQuery{Cursor: r.URL.Query().Get("cursor"), Limit: entriesOnPage},
	)
	if err != nil {
		return err
	}
	return c.render(w, r, http.StatusOK, "audit", view{Title: "Audit log", Content: page})
}
