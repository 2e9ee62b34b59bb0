package admin

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/server"
)

// backupRoutes returns the routes of the backups.
func (a api) backupRoutes() []server.Route {
	const one = base + "/backups/{name}"
	return []server.Route{
		{Method: "GET", Path: base + "/backups", Scope: auth.ScopeAdmin, Handle: a.listBackups},
		{Method: "POST", Path: base + "/backups", Scope: auth.ScopeAdmin, Handle: a.startBackup},
		{Method: "GET", Path: base + "/backup-jobs", Scope: auth.ScopeAdmin, Handle: a.listJobs},
		{Method: "GET", Path: base + "/backup-jobs/{id}", Scope: auth.ScopeAdmin, Handle: a.getJob},
		{
			Method: "GET", Path: one + "/content", Scope: auth.ScopeAdmin, Guarded: true, Untimed: true,
			Handle: a.downloadBackup,
		},
		{Method: "POST", Path: one + "/verify", Scope: auth.ScopeAdmin, Handle: a.check((*Service).VerifyBackup)},
		{Method: "POST", Path: one + "/drill", Scope: auth.ScopeAdmin, Handle: a.check((*Service).DrillBackup)},
		{Method: "DELETE", Path: one, Scope: auth.ScopeAdmin, Handle: a.deleteBackup},
	}
}

func (a api) listBackups(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
	values, err := parameters(r, "limit", "cursor")
	if err != nil {
		return err
	}
	q := BackupQuery{Cursor: values.Get("cursor")}
	if q.Limit, err = intParameter(values, "limit", limitDefault, 1, PageMax); err != nil {
		return err
	}
	page, err := a.service.Backups(r.Context(), q)
	if err != nil {
		return err
	}
	return respond(w, page)
}

func (a api) startBackup(w http.ResponseWriter, r *http.Request, p auth.Principal) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	j, err := a.service.StartBackup(r.Context(), server.OriginOf(w, r, p))
	if err != nil {
		return err
	}
	return respond(w, j)
}

// check returns the function of a route that starts a job with a backup.
func (a api) check(
	start func(*Service, context.Context, string, audit.Origin) (BackupJob, error),
) server.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, p auth.Principal) error {
		if _, err := parameters(r); err != nil {
			return err
		}
		j, err := start(a.service, r.Context(), r.PathValue("name"), server.OriginOf(w, r, p))
		if err != nil {
			return err
		}
		return respond(w, j)
	}
}

func (a api) listJobs(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	jobs, err := a.service.BackupJobs()
	if err != nil {
		return err
	}
	return respond(w, struct {
		Jobs []BackupJob `json:"jobs"`
	}{jobs})
}

func (a api) getJob(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		return invalid(fmt.Sprintf("the id in the path must be a 64-bit integer; got %q",
			server.Shorten(r.PathValue("id"))))
	}
	j, err := a.service.BackupJob(id)
	if err != nil {
		return err
	}
	return respond(w, j)
}

func (a api) deleteBackup(w http.ResponseWriter, r *http.Request, p auth.Principal) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	name := r.PathValue("name")
	if err := a.service.DeleteBackup(r.Context(), name, server.OriginOf(w, r, p)); err != nil {
		return err
	}
	return respond(w, struct {
		Deleted string `json:"deleted"`
	}{name})
}

func (a api) downloadBackup(w http.ResponseWriter, r *http.Request, p auth.Principal) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	return a.service.SendBackup(w, r, r.PathValue("name"), server.OriginOf(w, r, p))
}
