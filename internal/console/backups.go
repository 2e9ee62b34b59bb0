package console

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/server"
)

// backups is the content of the page of backups.
type backups struct {
	Off      bool // the server makes no backups
	Schedule admin.BackupSchedule
	Due      bool // the scheduled backup runs, or waits for another one
	List     []admin.BackupRecord
	Jobs     []admin.BackupJob
	Busy     bool // a job runs, so the script loads the page again
}

func (c *Console) showBackups(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
	return c.backupsWith(w, r, nil)
}

func (c *Console) backupsWith(w http.ResponseWriter, r *http.Request, fault *plant.Error) error {
	list, err := c.Operations.Backups(r.Context(), admin.ListQuery{Limit: admin.PageMax})
	refusal, ok := errors.AsType[*plant.Error](err)
	content := backups{List: list.Backups, Off: ok && refusal.Code == plant.CodeBackupsOff}
	if err != nil && !content.Off {
		return err
	}
	content.Jobs, _ = c.Operations.BackupJobs() // an error means that the server makes no backups
	content.Schedule = c.Operations.BackupSchedule()
	content.Due = !content.Schedule.Next.After(c.now())
	content.Busy = slices.ContainsFunc(content.Jobs, func(j admin.BackupJob) bool { return j.State == admin.JobRunning })
	v := view{Title: "Backups", Address: "/backups", Content: content, Fault: fault}
	return c.render(w, r, v.status(), "backups", v)
}

func (c *Console) startBackup(w http.ResponseWriter, r *http.Request, form form) error {
	_, err := c.Operations.StartBackup(r.Context(), form.by)
	return redirectAfter(w, err, "/backups?done=started")
}

// checkBackup returns a function that starts a job with the backup of a form.
func checkBackup(start func(context.Context, string, audit.Origin) (admin.BackupJob, error)) formHandler {
	return func(w http.ResponseWriter, r *http.Request, form form) error {
		_, err := start(r.Context(), form.Get("name"), form.by)
		return redirectAfter(w, err, "/backups?done=started")
	}
}

func (c *Console) deleteBackup(w http.ResponseWriter, r *http.Request, form form) error {
	err := c.Operations.DeleteBackup(r.Context(), form.Get("name"), form.by)
	return redirectAfter(w, err, "/backups?done=deleted")
}

func (c *Console) downloadBackup(w http.ResponseWriter, r *http.Request, principal auth.Principal) error {
	return c.api.SendBackup(w, r, r.PathValue("name"), server.OriginOf(w, r, principal))
}
