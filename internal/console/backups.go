package console

import (
	"context"
	"errors"
	"slices"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/plant"
	"plantstore/internal/server"
	"plantstore/internal/store"
)

// backups is the content of the page of backups.
type backups struct {
	Off      bool // the server makes no backups
	Follower bool // because it is a standby
	Schedule admin.BackupSchedule
	Since    time.Time           // a restore has the state of every second since then; zero: only those of List
	Last     *admin.BackupRecord // the newest complete one of List; nil: none
	Stored   *int64              // plants in the store; nil: unknown
	Due      bool                // the scheduled backup runs, or waits for another one
	List     []admin.BackupRecord
	Unlisted string // why there is no List; empty: there is one
	Jobs     []admin.BackupJob
	Busy     bool // a job runs, so the script loads the page again
	Delete   *deletion
}

// deletion is a question before a backup is deleted that a restore needs.
type deletion struct {
	Name string
	Loss string // what cannot be restored without it
	Last bool   // so that a restore of the newest state needs it
}

func (c *Console) showBackups(call *server.Call, fault *plant.Error) error {
	return c.renderBackups(call, fault, nil)
}

func (c *Console) renderBackups(call *server.Call, fault *plant.Error, question *deletion) error {
	list, err := c.Operations.Backups(call.Context(), admin.ListQuery{Limit: admin.PageMax})
	refusal, ok := errors.AsType[*plant.Error](err)
	content := backups{List: list.Backups, Delete: question, Follower: errors.Is(err, store.ErrStandby)}
	switch {
	case err == nil:
	case content.Follower, ok && refusal.Code == plant.CodeBackupsOff:
		content.Off = true
	case ok && refusal.Code == plant.CodeBackupIncomplete:
		content.Unlisted = refusal.Message
	default:
		return err
	}
	content.Jobs, _ = c.Operations.BackupJobs() // an error means that the server makes no backups
	content.Schedule = c.Operations.BackupSchedule()
	content.Since, _ = c.Operations.RestorableSince(call.Context()) // an error means that it is not known
	content.Stored = c.Operations.Gauges().Plants
	isComplete := func(b admin.BackupRecord) bool { return b.Complete }
	if i := slices.IndexFunc(list.Backups, isComplete); i >= 0 {
		content.Last = &list.Backups[i]
	}
	content.Due = !content.Schedule.Next.After(c.now())
	content.Busy = slices.ContainsFunc(content.Jobs, func(j admin.BackupJob) bool { return j.State == admin.JobRunning })
	v := view{Title: "Backups", Address: "/backups", Content: content, Fault: fault}
	return c.render(call, v.status(), "backups", v)
}

// jobResult tells as a sentence what a complete job has done.
func jobResult(j admin.BackupJob) string {
	const readable = 100 * time.Millisecond // a shorter time is in milliseconds
	took := j.Ended.Sub(j.Started)
	in := number(took.Seconds()) + " s"
	if took < readable {
		in = formatSeconds(took.Seconds())
	}
	switch j.Kind {
	case "drill":
		return "Restored and verified " + formatPlants(j.Plants) + " in " + in
	case "verify":
		return "Verified " + formatPlants(j.Manifest.Plants) + " in " + in
	}
	return "Saved " + formatPlants(j.Manifest.Plants) + " in " + in
}

func (c *Console) startBackup(call *server.Call) error {
	_, err := c.Operations.StartBackup(call.Context(), call.Origin())
	return redirectAfter(call, err, "/backups?done=started")
}

// checkBackup returns a function that starts a job with the backup of a form.
func checkBackup(start func(context.Context, string, audit.Origin) (admin.BackupJob, error)) server.HandlerFunc {
	return func(call *server.Call) error {
		_, err := start(call.Context(), call.Form.Get("name"), call.Origin())
		return redirectAfter(call, err, "/backups?done=started")
	}
}

// deleteBackup deletes a backup. Before it deletes one that a restore needs, the form must repeat what is lost.
func (c *Console) deleteBackup(call *server.Call) error {
	name := call.Form.Get("name")
	loss, err := c.Operations.BackupLoss(call.Context(), name)
	if err != nil {
		return err
	}
	question := deletion{name, lossText(loss), loss.Some && loss.Before.IsZero()}
	if question.Loss != call.Form.Get("loss") || question.Last && call.Form.Get("last") == "" {
		return c.renderBackups(call, nil, &question)
	}
	err = c.Operations.DeleteBackup(call.Context(), name, call.Origin())
	return redirectAfter(call, err, "/backups?done=deleted")
}

func (c *Console) downloadBackup(call *server.Call) error {
	return c.api.SendBackup(call, call.PathValue("name"))
}

// lossText tells what cannot be restored without a backup; empty: there is nothing.
func lossText(l admin.BackupLoss) string {
	const untilNext = ", until the server has made another backup"
	at := func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
	switch {
	case !l.Some:
		return ""
	case l.After.IsZero() && l.Before.IsZero():
		return "nothing" + untilNext
	case l.After.IsZero():
		return "nothing from before " + at(l.Before)
	case l.Before.IsZero():
		return "nothing from after " + at(l.After) + untilNext
	}
	return "nothing from after " + at(l.After) + " and before " + at(l.Before)
}
