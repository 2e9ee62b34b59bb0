package adminapi

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strconv"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/server"
)

func (a *API) startBackup(c *call) (any, error) {
	return a.service.StartBackup(c.Context(), c.Origin())
}

// startJob returns the function of a route that starts a job with a backup.
func startJob(start func(context.Context, string, audit.Origin) (admin.BackupJob, error)) func(*call) (any, error) {
	return func(c *call) (any, error) { return start(c.Context(), c.PathValue("name"), c.Origin()) }
}

func (a *API) deleteBackup(c *call) (any, error) {
	name := c.PathValue("name")
	return map[string]any{"deleted": name}, a.service.DeleteBackup(c.Context(), name, c.Origin())
}

func (a *API) listJobs(*call) (any, error) {
	jobs, err := a.service.BackupJobs()
	return map[string]any{"jobs": jobs}, err
}

func (a *API) getJob(c *call) (any, error) {
	id, err := c.id()
	if err != nil {
		return nil, err
	}
	return a.service.BackupJob(c.Context(), id)
}

func (a *API) downloadBackup(c *call) error {
	return a.SendBackup(c.Call, c.PathValue("name"))
}

// SendBackup responds with the content of a complete backup, or to HEAD with the headers only. It ignores Range, as RFC
// 9110 section 14.2 allows. If it returns an error, it has written nothing.
func (a *API) SendBackup(c *server.Call, name string) error {
	if c.Method == http.MethodHead {
		b, err := a.service.FindBackup(c.Context(), name)
		if err == nil {
			beginDownload(c, b)
		}
		return err
	}
	return a.service.ReadBackup(c.Context(), name, c.Origin(),
		func(ctx context.Context, b admin.BackupRecord, content io.Reader) {
			beginDownload(c, b)
			if _, err := io.CopyN(a.Stream(ctx, c), content, b.Bytes); err != nil {
				if ctx.Err() == nil && !errors.Is(err, errNotAccepted) {
					a.log.Warn("download of a backup failed", "file", b.Location, "error", err)
				}
				panic(http.ErrAbortHandler) // the client must notice that the content is incomplete
			}
		})
}

// beginDownload writes the headers of a download.
func beginDownload(w http.ResponseWriter, b admin.BackupRecord) {
	h := w.Header()
	attach(h, "application/vnd.sqlite3", b.Name)
	h.Set("Content-Length", strconv.FormatInt(b.Bytes, 10))
	h.Set("Accept-Ranges", "none")
	if sum, err := hex.DecodeString(b.SHA256); err == nil {
		h.Set("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum)+":") // RFC 9530
	}
	w.WriteHeader(http.StatusOK)
}
