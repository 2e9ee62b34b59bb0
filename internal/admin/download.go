package admin

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/backup"
	"plantstore/internal/plant"
)

const (
	// downloadsMax is the number of downloads at the same time.
	downloadsMax = 4
	// partTimeMax is the time in which a client must accept each part of a download.
	partTimeMax = 30 * time.Second
)

// SendBackup responds to a GET request with the content of a complete backup, and records the download in the audit
// log. The response to a HEAD request has the headers only; it is no download. It ignores Range, as RFC 9110 section
// 14.2 allows. The response ends early with Close. An error is a *plant.Error, and nothing was written then.
func (s *Service) SendBackup(w http.ResponseWriter, r *http.Request, name string, by audit.Origin) error {
	ctx, end, err := s.beginBackup(r.Context())
	if err != nil {
		return err
	}
	defer end()
	if r.Method == http.MethodHead {
		b, err := s.backups.Find(ctx, name)
		if err != nil {
			return s.backupError(err)
		}
		beginDownload(w, b)
		return nil
	}
	select {
	case s.downloads <- struct{}{}:
		defer func() { <-s.downloads }()
	default:
		return &plant.Error{
			Code:    plant.CodeBackupRunning,
			Message: fmt.Sprintf("%d downloads are in progress; try again when one has ended", downloadsMax),
		}
	}
	b, content, err := s.backups.Open(ctx, name, by)
	if err != nil {
		return s.backupError(err)
	}
	defer content.Close()
	beginDownload(w, b)
	to := &partWriter{ResponseWriter: w, control: http.NewResponseController(w), ctx: ctx, timeMax: s.partTime}
	if _, err = io.CopyN(to, content, b.Bytes); err != nil {
		if ctx.Err() == nil && !errors.Is(err, errNotAccepted) {
			s.log.Warn("download of a backup failed", "file", b.Location, "error", err)
		}
		panic(http.ErrAbortHandler) // the client must notice that the content is incomplete
	}
	return nil
}

// beginDownload writes the headers of a download.
func beginDownload(w http.ResponseWriter, b backup.Backup) {
	header := w.Header()
	header.Set("Content-Type", "application/vnd.sqlite3")
	header.Set("Content-Length", strconv.FormatInt(b.Bytes, 10))
	header.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": b.Name}))
	header.Set("Accept-Ranges", "none")
	if sum, err := hex.DecodeString(b.Manifest.SHA256); err == nil {
		header.Set("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum)+":") // RFC 9530
	}
	w.WriteHeader(http.StatusOK)
}

// partWriter is a response whose client must accept each part within a time, and which ends with a context.
type partWriter struct {
	http.ResponseWriter

	control *http.ResponseController
	ctx     context.Context //nolint:containedctx // of the response
	timeMax time.Duration
}

// errNotAccepted wraps the error of a write: the client has disconnected, or stalls.
var errNotAccepted = errors.New("the client accepts no more")

// Write implements io.Writer.
func (w *partWriter) Write(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	if err := w.control.SetWriteDeadline(time.Now().Add(w.timeMax)); err != nil {
		return 0, fmt.Errorf("extend the write deadline: %w", err)
	}
	n, err := w.ResponseWriter.Write(p)
	if err != nil {
		err = fmt.Errorf("%w: %w", errNotAccepted, err)
	}
	return n, err
}
