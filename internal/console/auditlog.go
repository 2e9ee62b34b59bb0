package console

import (
	"cmp"
	"context"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/plant"
	"plantstore/internal/server"
)

// auditLog is the content of the page of the audit log.
type auditLog struct {
	admin.AuditPage

	Pager        pager
	Actions      []choice
	Filtered     bool
	Action       string // as queried, like the fields below; empty: all
	Actor        string
	Since, Until string // days in UTC
}

func (c *Console) showAudit(call *server.Call) error {
	const entriesOnPage = 50
	q := call.URL.Query()
	log := auditLog{
		Action: q.Get("action"), Actor: q.Get("actor"), Since: q.Get("since"), Until: q.Get("until"),
		Actions: actionChoices(q.Get("action")),
	}
	log.Filtered = log.Action != "" || log.Actor != "" || log.Since != "" || log.Until != ""
	since, errSince := dayOf("the first day", log.Since)
	until, errUntil := dayOf("the last day", log.Until)
	if !until.IsZero() {
		until = until.Add(day)
	}
	v := view{Title: "Audit log", Fault: cmp.Or(errSince, errUntil)}
	if v.Fault == nil {
		c.Audit.Flush(context.WithoutCancel(call.Context())) // at most 5 s; a COMMIT without a result would be repeated
		var err error
		log.AuditPage, err = c.Operations.Audit(call.Context(), admin.AuditQuery{
			Cursor: cursorOf(call.Request), Limit: entriesOnPage, Action: log.Action, Actor: log.Actor,
			Since: since, Until: until,
		})
		if err != nil {
			return err
		}
	}
	log.Pager = newPager(call.Request, "entries", "/audit", len(log.Entries), log.Next)
	v.Content = log
	return c.render(call, v.status(), "audit", v)
}

// dayOf returns the start of a day in UTC; the zero time for the empty text.
func dayOf(name, text string) (t time.Time, fault *plant.Error) {
	if text == "" {
		return t, nil
	}
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return t, plant.InvalidQuery("%s must have the form 2026-11-22; got %.100q", name, text)
	}
	return t, nil
}

// folded are the details of an entry. The page shows the rest only after another click.
type folded struct{ Shown, Rest []audit.Detail }

func fold(e admin.AuditEntry) (f folded) {
	f.Shown, f.Rest = e.Notable()
	return f
}

// areaNames are the names of audit.Areas.
var areaNames = map[string]string{
	"admin": "Sign-ins", "audit": "Audit log", "backup": "Backups", "plants": "Plants", "scope": "Refused requests",
	"server": "Server and settings", "store": "Store", "token": "Credentials", "webhook": "Webhooks",
}

// actionChoices returns the choices of the form, also the action of the query.
func actionChoices(queried string) []choice {
	list := []choice{{"", "All"}}
	for _, area := range audit.Areas {
		list = append(list, choice{area, areaNames[area]})
	}
	if queried != "" && areaNames[queried] == "" {
		list = append(list, choice{queried, queried})
	}
	return list
}
