package console

import (
	"context"
	"net/http"

	"plantstore/internal/admin"
	"plantstore/internal/auth"
)

// auditPage is the content of the page of the audit log.
type auditPage struct {
	admin.AuditPage

	First bool
}

func (c *Console) showAudit(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
	const entriesOnPage = 50
	c.Audit.Flush(context.WithoutCancel(r.Context())) // at most 5 s; a COMMIT without a result would be repeated
	cursor := r.URL.Query().Get("cursor")
	page, err := c.Operations.Audit(r.Context(), admin.AuditQuery{Cursor: cursor, Limit: entriesOnPage})
	if err != nil {
		return err
	}
	return c.render(w, r, http.StatusOK, "audit", view{Title: "Audit log", Content: auditPage{page, cursor == ""}})
}
