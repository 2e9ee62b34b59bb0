package console

import (
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/server"
	"plantstore/internal/store"
)

// operatorRoutes returns the routes of credentials, backups, the audit log and settings.
func (c *Console) operatorRoutes() []server.Route {
	page := func(path string, handle server.HandlerFunc) server.Route {
		return server.Route{Method: "GET", Path: path, Scope: auth.ScopeAdmin, Page: true, Linked: true, Handle: handle}
	}
	change := func(path string, handle server.HandlerFunc) server.Route {
		return server.Route{Method: "POST", Path: path, Scope: auth.ScopeAdmin, Page: true, Handle: handle}
	}
	download := page("/backups/{name}", c.downloadBackup)
	download.Untimed, download.Linked = true, false
	return []server.Route{
		page("/credentials", c.showCredentials),
		change("/credentials/mint", c.mintCredential),
		change("/credentials/rotate", c.rotateCredential),
		change("/credentials/revoke", c.revokeCredential),
		page("/backups", c.showBackups),
		change("/backups/start", c.startBackup),
		change("/backups/verify", c.checkBackup(c.Operations.VerifyBackup)),
		change("/backups/drill", c.checkBackup(c.Operations.DrillBackup)),
		change("/backups/delete", c.deleteBackup),
		download,
		page("/audit", c.showAudit),
		page("/settings", c.showSettings),
	}
}

// credentials is the content of the page of credentials.
type credentials struct {
	List   []admin.Credential
	Next   int64 // id before which the next page begins; 0: this is the last page
	First  bool
	All    bool          // also expired and revoked ones
	Minted *admin.Minted // with the secret, which no other page shows
	Fault  string
	Name   string // of the form that was refused
	Scopes []string
	Lives  []lifetime
	Overs  []lifetime
}

// lifetime is a choice of a form.
type lifetime struct {
	Value, Name string
	time        time.Duration
}

const day = 24 * time.Hour

// lifetimes are the lifetimes of a new token; 0: no expiry.
var lifetimes = []lifetime{
	{"1d", "1 day", day},
	{"7d", "7 days", 7 * day},
	{"30d", "30 days", 30 * day},
	{"90d", "90 days", 90 * day},
	{"365d", "1 year", 365 * day},
	{"none", "No expiry", 0},
}

// overlaps are the times for which a rotated token stays valid.
var overlaps = []lifetime{
	{"0", "End it at once", 0}, {"1h", "1 hour", time.Hour}, {"1d", "1 day", day}, {"7d", "7 days", 7 * day},
}

// chosen returns the time of a choice.
func chosen(list []lifetime, value string) (time.Duration, error) {
	i := slices.IndexFunc(list, func(l lifetime) bool { return l.Value == value })
	if i < 0 {
		return 0, &plant.Error{Code: plant.CodeInputInvalid, Message: "choose one of the times of the form"}
	}
	return list[i].time, nil
}

func (c *Console) showCredentials(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
	v := view{Notice: map[string]string{
		"revoked": "The credential is revoked. It ends within a second on every server.",
	}[r.URL.Query().Get("done")]}
	return c.renderCredentials(w, r, http.StatusOK, v, credentials{})
}

// renderCredentials responds with the page of credentials, and adds the list to its content.
func (c *Console) renderCredentials(
	w http.ResponseWriter, r *http.Request, status int, v view, content credentials,
) error {
	const credentialsOnPage = 40
	q := r.URL.Query()
	before, err := strconv.ParseInt(q.Get("before"), 10, 64)
	if content.First = err != nil; content.First {
		before = math.MaxInt64
	}
	all, err := c.Operations.Credentials(r.Context(), admin.CredentialQuery{})
	if err != nil {
		return err
	}
	content.All = q.Has("all")
	for _, credential := range slices.Backward(all.Credentials) { // the newest first
		ended := credential.State == auth.StateExpired || credential.State == auth.StateRevoked
		if credential.ID >= before || ended && !content.All {
			continue
		}
		if len(content.List) == credentialsOnPage {
			content.Next = content.List[credentialsOnPage-1].ID
			break
		}
		content.List = append(content.List, credential)
	}
	content.Scopes, content.Lives, content.Overs = strings.Fields(auth.Grantable.String()), lifetimes, overlaps
	v.Title, v.Content = "Credentials", content
	return c.render(w, r, status, "credentials", v)
}

func (c *Console) mintCredential(w http.ResponseWriter, r *http.Request, principal auth.Principal) error {
	form, err := c.form(w, r)
	if err != nil {
		return err
	}
	n := admin.NewToken{Name: form.Get("name")}
	for _, name := range form["scope"] {
		scope, errScope := auth.ParseScopes(name)
		n.Scopes, err = n.Scopes|scope, errors.Join(err, errScope)
	}
	if err != nil {
		return &plant.Error{Code: plant.CodeInputInvalid, Message: "choose one or more of the scopes of the form"}
	}
	if n.Lifetime, err = chosen(lifetimes, form.Get("lifetime")); err != nil {
		return c.refusedCredential(w, r, n.Name, err)
	}
	minted, err := c.Operations.Mint(r.Context(), n, server.OriginOf(w, r, principal))
	if err != nil {
		return c.refusedCredential(w, r, n.Name, err)
	}
	return c.renderCredentials(w, r, http.StatusOK, view{}, credentials{Minted: &minted})
}

// refusedCredential responds with the form and the message about its values.
func (c *Console) refusedCredential(w http.ResponseWriter, r *http.Request, name string, err error) error {
	refusal := (*plant.Error)(nil)
	if !errors.As(err, &refusal) {
		return err
	}
	return c.renderCredentials(w, r, refusal.Code.Status(), view{}, credentials{Fault: refusal.Message, Name: name})
}

func (c *Console) rotateCredential(w http.ResponseWriter, r *http.Request, principal auth.Principal) error {
	form, err := c.form(w, r)
	if err != nil {
		return err
	}
	overlap, err := chosen(overlaps, form.Get("overlap"))
	if err != nil {
		return err
	}
	minted, err := c.Operations.Rotate(
		r.Context(), admin.Rotation{Name: form.Get("name"), Overlap: overlap}, server.OriginOf(w, r, principal),
	)
	if err != nil {
		return err
	}
	return c.renderCredentials(w, r, http.StatusOK, view{}, credentials{Minted: &minted})
}

func (c *Console) revokeCredential(w http.ResponseWriter, r *http.Request, principal auth.Principal) error {
	form, err := c.form(w, r)
	if err != nil {
		return err
	}
	id, err := strconv.ParseInt(form.Get("id"), 10, 64)
	if err != nil || id == 0 {
		return &plant.Error{Code: plant.CodeInputInvalid, Message: "id must be that of a credential"}
	}
	_, err = c.Operations.Revoke(
		r.Context(), admin.Revocation{Tokens: store.Selector{ID: id}}, server.OriginOf(w, r, principal),
	)
	if err != nil {
		return err
	}
	redirect(w, "/credentials?done=revoked")
	return nil
}

// backups is the content of the page of backups.
type backups struct {
	Off  bool // the server makes no backups
	List []admin.BackupRecord
	Jobs []admin.BackupJob
	Busy bool // a job runs, so the script loads the page again
}

func (c *Console) showBackups(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
	v := view{Title: "Backups", Notice: map[string]string{
		"started": "The job has started.", "deleted": "The backup is deleted.",
	}[r.URL.Query().Get("done")]}
	list, err := c.Operations.Backups(r.Context(), admin.BackupQuery{Limit: admin.PageMax})
	refusal, ok := errors.AsType[*plant.Error](err)
	content := backups{List: list.Backups, Off: ok && refusal.Code == plant.CodeBackupsOff}
	if err != nil && !content.Off {
		return err
	}
	content.Jobs, _ = c.Operations.BackupJobs() // an error means that the server makes no backups
	content.Busy = slices.ContainsFunc(content.Jobs, func(j admin.BackupJob) bool { return j.State == admin.JobRunning })
	v.Content = content
	return c.render(w, r, http.StatusOK, "backups", v)
}

func (c *Console) startBackup(w http.ResponseWriter, r *http.Request, principal auth.Principal) error {
	return c.changeBackup(w, r, principal, "started", func(ctx context.Context, _ string, by audit.Origin) error {
		_, err := c.Operations.StartBackup(ctx, by)
		return err
	})
}

// checkBackup returns the function of a route that starts a job with the backup of a form.
func (c *Console) checkBackup(
	start func(context.Context, string, audit.Origin) (admin.BackupJob, error),
) server.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, principal auth.Principal) error {
		return c.changeBackup(w, r, principal, "started", func(ctx context.Context, name string, by audit.Origin) error {
			_, err := start(ctx, name, by)
			return err
		})
	}
}

func (c *Console) deleteBackup(w http.ResponseWriter, r *http.Request, principal auth.Principal) error {
	return c.changeBackup(w, r, principal, "deleted", c.Operations.DeleteBackup)
}

// changeBackup runs an operation on the backup that a form names.
func (c *Console) changeBackup(
	w http.ResponseWriter, r *http.Request, principal auth.Principal, done string,
	do func(ctx context.Context, name string, by audit.Origin) error,
) error {
	form, err := c.form(w, r)
	if err != nil {
		return err
	}
	if err := do(r.Context(), form.Get("name"), server.OriginOf(w, r, principal)); err != nil {
		return err
	}
	redirect(w, "/backups?done="+done)
	return nil
}

func (c *Console) downloadBackup(w http.ResponseWriter, r *http.Request, principal auth.Principal) error {
	return c.Operations.SendBackup(w, r, r.PathValue("name"), server.OriginOf(w, r, principal))
}

// auditPage is the content of the page of the audit log.
type auditPage struct {
	admin.AuditPage

	First bool
}

func (c *Console) showAudit(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
	const entriesOnPage = 50
	if c.Audit != nil {
		c.Audit.Flush(context.WithoutCancel(r.Context())) // at most 5 s; a COMMIT without a result would be repeated
	}
	cursor := r.URL.Query().Get("cursor")
	page, err := c.Operations.Audit(r.Context(), admin.AuditQuery{Cursor: cursor, Limit: entriesOnPage})
	if err != nil {
		return err
	}
	return c.render(w, r, http.StatusOK, "audit", view{Title: "Audit log", Content: auditPage{page, cursor == ""}})
}

func (c *Console) showSettings(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
	return c.render(w, r, http.StatusOK, "settings", view{Title: "Settings", Content: c.Operations.Settings()})
}
