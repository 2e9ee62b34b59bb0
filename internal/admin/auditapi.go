package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/server"
)

// auditRoutes returns the routes of the audit log.
func (a api) auditRoutes() []server.Route {
	return []server.Route{
		{Method: "GET", Path: base + "/audit", Scope: auth.ScopeAdmin, Handle: a.listAudit},
		{Method: "GET", Path: base + "/audit/verify", Scope: auth.ScopeAdmin, Untimed: true, Handle: a.verifyAudit},
	}
}

func (a api) listAudit(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
	values, err := parameters(r, "limit", "cursor", "since", "actor", "order")
	if err != nil {
		return err
	}
	q := AuditQuery{Cursor: values.Get("cursor"), Actor: values.Get("actor"), Oldest: values.Get("order") == "oldest"}
	if order := values.Get("order"); values.Has("order") && order != "oldest" && order != "newest" {
		return invalid(fmt.Sprintf("order must be oldest or newest; got %q", server.Shorten(order)))
	}
	if values.Has("since") {
		if q.Since, err = time.Parse(time.RFC3339, values.Get("since")); err != nil {
			return invalid(fmt.Sprintf("since must be a time of the form 2026-11-22T09:30:00Z; got %q",
				server.Shorten(values.Get("since"))))
		}
	}
	if q.Limit, err = intParameter(values, "limit", limitDefault, 1, PageMax); err != nil {
		return err
	}
	page, err := a.service.Audit(r.Context(), q)
	if err != nil {
		return err
	}
	body := []byte(`{"entries":[`)
	for i, e := range page.Entries {
		if i > 0 {
			body = append(body, ',')
		}
		body = e.appendJSON(body)
	}
	body = append(body, ']')
	if page.Next != "" {
		body = append(append(body, `,"next":`...), strconv.Quote(page.Next)...)
	}
	server.WriteJSON(w, http.StatusOK, append(body, '}', '\n'))
	return nil
}

func (a api) verifyAudit(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
	values, err := parameters(r, "expect")
	if err != nil {
		return err
	}
	var expected audit.Link
	if values.Has("expect") {
		if expected, err = audit.ParseLink(values.Get("expect")); err != nil {
			return invalid("expect: " + err.Error())
		}
	}
	if err := untimed(w); err != nil {
		return err
	}
	v, err := a.service.VerifyAudit(r.Context(), expected)
	if err != nil {
		return err
	}
	return respond(w, v)
}

func appendString(dst []byte, text string) []byte {
	quoted, _ := json.Marshal(text) // cannot fail for a string
	return append(dst, quoted...)
}
