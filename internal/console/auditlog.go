package console

import (
	"cmp"
	"context"
	"slices"
	"time"
	"unicode/utf8"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/plant"
	"plantstore/internal/server"
)

// auditLog is the content of the page of the audit log.
type auditLog struct {
	admin.AuditPage

	Pager        pager
	Actions      []string // the choices of the form
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
		Actions: audit.Areas,
	}
	log.Filtered = log.Action != "" || log.Actor != "" || log.Since != "" || log.Until != ""
	if log.Action != "" && !slices.Contains(audit.Areas, log.Action) {
		log.Actions = slices.Concat([]string{log.Action}, audit.Areas)
	}
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

// folded are the details of an entry. The page shows the rest only after a click.
type folded struct{ Shown, Rest []audit.Detail }

// fold returns the details of an entry. It shows the first one, and more while they are short together.
func fold(details []audit.Detail) folded {
	const charactersMax = 160
	n, length := 0, 0
	for ; n < len(details); n++ {
		length += utf8.RuneCountInString(details[n].Key) + utf8.RuneCountInString(details[n].Value)
		if n > 0 && length > charactersMax {
			break
		}
	}
	return folded{details[:n], details[n:]}
}
