package adminapi_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// job returns the job in a response when it has ended.
func (h *harness) job(r response) (j admin.BackupJob) {
	h.t.Helper()
	for deadline := time.Now().Add(wait); ; r = h.get(fmt.Sprint("/backup-jobs/", j.ID)) {
		if err := json.Unmarshal([]byte(r.body), &j); err != nil || r.status != http.StatusOK {
			h.t.Fatalf("no job: %+v: %v", r, err)
		}
		if j.State != admin.JobRunning {
			return j
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("job %d still runs", j.ID)
		}
	}
}

// TestBackups makes a backup, lists, downloads, verifies, drills and deletes it.
func TestBackups(t *testing.T) {
	t.Parallel()
	h := start(t, setup{backups: true, plants: []store.Create{create(1, "Acer", plant.Tag{})}})
	made := h.job(h.post("/backups", ""))
	if made.State != admin.JobComplete || made.Kind != "backup" || made.By != "operator" || made.Manifest.Plants != 1 {
		t.Fatalf("got %+v", made)
	}
	list := h.get("/backups")
	for _, want := range []string{`"name":"` + made.Backup, `"manual":true`, `"complete":true`, made.Manifest.SHA256} {
		if !strings.Contains(list.body, want) {
			t.Errorf("the list %s lacks %s", list.body, want)
		}
	}
	if state := h.get("/state"); !strings.Contains(state.body, `"last_backup":{"name":"`+made.Backup) {
		t.Errorf("the state %s lacks the backup", state.body)
	}
	one := "/backups/" + made.Backup
	h.checkDownload(one+"/content", made)
	for _, kind := range []string{"verify", "drill"} {
		if got := h.job(h.post(one+"/"+kind, "")); got.State != admin.JobComplete || string(got.Kind) != kind {
			t.Errorf("%s: got %+v", kind, got)
		}
	}
	if jobs := h.get("/backup-jobs"); strings.Count(jobs.body, `"state":"complete"`) != 3 {
		t.Errorf("jobs: got %s", jobs.body)
	}
	remove := func() response {
		res := h.send(http.MethodDelete, one, "")
		defer res.Body.Close()
		return h.read(res)
	}
	check(t, "delete", remove(), ok(`{"deleted":"`+made.Backup+`"}`))
	check(t, "delete again", remove(), refused(40404, "no backup has this name"))
	for _, target := range []string{one + "/content", "/backups/plants.db/content"} {
		if got := h.get(target); got.status != http.StatusNotFound {
			t.Errorf("%s: got %+v", target, got)
		}
	}
	check(t, "no job", h.get("/backup-jobs/99"), refused(40404, "no job has this id"))
	check(t, "bad job", h.get("/backup-jobs/x"), refused(40061, `the id in the path must be a 64-bit integer; got "x"`))
	if got, _ := h.sequencesOf("actor=operator"); len(got) != 5 { // start, end, download, drill, delete
		t.Errorf("got %d entries in the audit log", len(got))
	}
}

// checkDownload downloads a backup and compares it with its manifest.
func (h *harness) checkDownload(target string, made admin.BackupJob) {
	h.t.Helper()
	res := h.send(http.MethodGet, target, "")
	defer res.Body.Close()
	content, err := io.ReadAll(res.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	h.validate(res, content)
	sum := sha256.Sum256(content)
	if got := fmt.Sprintf("%x", sum); got != made.Manifest.SHA256 || int64(len(content)) != made.Manifest.Bytes {
		h.t.Errorf("got %d bytes with the sum %s, want %+v", len(content), got, made.Manifest)
	}
	for name, want := range map[string]string{
		"Repr-Digest":         "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":",
		"Content-Disposition": "attachment; filename=" + made.Backup, "Content-Type": "application/vnd.sqlite3",
	} {
		if got := res.Header.Get(name); got != want {
			h.t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// TestBackupPages lists complete and incomplete backups in pages.
func TestBackupPages(t *testing.T) {
	t.Parallel()
	h := start(t, setup{backups: true})
	made := h.job(h.post("/backups", ""))
	var list admin.BackupPage
	if err := json.Unmarshal([]byte(h.get("/backups").body), &list); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"plants-20260101T000000Z.db", "plants-20260102T000000Z.db"} {
		if err := os.WriteFile(strings.Replace(list.Backups[0].Location, made.Backup, name, 1), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	for cursor := ""; ; {
		var page admin.BackupPage
		got := h.get("/backups?limit=1" + cursor)
		if err := json.Unmarshal([]byte(got.body), &page); err != nil {
			t.Fatalf("%+v: %v", got, err)
		}
		names = append(names, page.Backups[0].Name)
		if page.Next == "" {
			break
		}
		cursor = "&cursor=" + page.Next
	}
	want := made.Backup + " plants-20260102T000000Z.db plants-20260101T000000Z.db"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, target := range []string{"/verify", "/drill"} {
		if got := h.post("/backups/"+names[1]+target, ""); got.status != 409 || !strings.Contains(got.body, "40906") {
			t.Errorf("%s of an incomplete backup: got %+v", target, got)
		}
	}
	if got := h.get("/backups?cursor=AQ"); got.status != http.StatusBadRequest {
		t.Errorf("cursor: got %+v", got)
	}
}

func TestNoBackups(t *testing.T) {
	t.Parallel()
	h := start(t, setup{})
	want := refused(40904, "the server makes no backups; start it with --backup-dir, or use the tools of PostgreSQL")
	for _, target := range []string{"/backups", "/backup-jobs", "/backup-jobs/1", "/backups/a.db/content"} {
		check(t, target, h.get(target), want)
	}
	for _, target := range []string{"/backups", "/backups/a.db/verify", "/backups/a.db/drill"} {
		check(t, target, h.post(target, ""), want)
	}
}
