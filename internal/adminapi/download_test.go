package adminapi_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// startLarge starts a server with a backup that is larger than the buffers of a connection, and returns the path of its
// content.
func startLarge(t *testing.T) (h *harness, target string) {
	t.Helper()
	var plants []store.Create
	for id := range int64(4) {
		plants = append(plants, create(id, strings.Repeat("x", store.PlantsBytes), plant.Tag{}))
	}
	h = start(t, setup{backups: true, plants: plants})
	return h, "/backups/" + h.job(h.post("/backups", "")).Backup + "/content"
}

// stall begins a large response that the client does not read.
func (h *harness) stall(target string) *http.Response {
	h.t.Helper()
	res := h.send(http.MethodGet, target, "")
	h.t.Cleanup(func() { _ = res.Body.Close() })
	if res.StatusCode != http.StatusOK {
		h.t.Fatalf("got %d", res.StatusCode)
	}
	return res
}

// awaitDownload waits until a download can begin.
func (h *harness) awaitDownload(target string) {
	h.t.Helper()
	for deadline := time.Now().Add(wait); ; {
		res := h.send(http.MethodGet, target, "")
		_ = res.Body.Close()
		if res.StatusCode == http.StatusOK {
			return
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("no download has ended: got %d", res.StatusCode)
		}
	}
}

// A download beyond the limit is refused, until a client of another one disconnects.
func TestDownloadLimit(t *testing.T) {
	t.Parallel()
	h, target := startLarge(t)
	var downloads []*http.Response
	for range 4 {
		downloads = append(downloads, h.stall(target)) //nolint:bodyclose // stall closes it
	}
	busy := refused(40905, "4 downloads are in progress; try again when one has ended")
	check(t, "a fifth download", h.get(target), busy)
	res := h.send(http.MethodHead, target, "")
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("HEAD beside the downloads: got %d", res.StatusCode)
	}
	_ = downloads[0].Body.Close()
	h.awaitDownload(target)
}

// A download ends when its client does not read, and releases its place.
func TestDownloadOfStalledClient(t *testing.T) {
	t.Parallel()
	h, target := startLarge(t)
	h.api.SetPartTime(100 * time.Millisecond)
	var downloads []*http.Response
	for range 4 {
		downloads = append(downloads, h.stall(target)) //nolint:bodyclose // stall closes it
	}
	h.awaitDownload(target)
	var whole int
	for _, res := range downloads {
		if _, err := io.Copy(io.Discard, res.Body); err == nil {
			whole++
		} else if !errors.Is(err, io.ErrUnexpectedEOF) && !strings.Contains(err.Error(), "reset") {
			t.Error(err)
		}
	}
	if whole == len(downloads) { // one that reads before its time ends receives all
		t.Error("no download has ended")
	}
}

// HEAD has the headers of the download, and no entry in the audit log.
func TestDownloadHead(t *testing.T) {
	t.Parallel()
	h := start(t, setup{backups: true})
	made := h.job(h.post("/backups", ""))
	target := "/backups/" + made.Backup + "/content"
	head := h.send(http.MethodHead, target, "")
	_ = head.Body.Close()
	if head.StatusCode != http.StatusOK || head.ContentLength != made.Manifest.Bytes {
		t.Errorf("got %d, %d bytes", head.StatusCode, head.ContentLength)
	}
	none := h.send(http.MethodHead, "/backups/none.db/content", "")
	_ = none.Body.Close()
	if none.StatusCode != http.StatusNotFound {
		t.Errorf("no backup: got %d", none.StatusCode)
	}
	if got := h.auditPage("").Entries; strings.Contains(join(got), "backup.download") {
		t.Errorf("the audit log has a download: %s", got)
	}
	res := h.send(http.MethodGet, target, "", "Range: bytes=1-2")
	defer res.Body.Close()
	content, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || int64(len(content)) != made.Manifest.Bytes {
		t.Errorf("Range: got %d, %d bytes, %v", res.StatusCode, len(content), err)
	}
	for _, name := range []string{"Content-Disposition", "Content-Type", "Repr-Digest", "Accept-Ranges"} {
		if got := head.Header.Get(name); got == "" || got != res.Header.Get(name) {
			t.Errorf("%s: HEAD has %q, GET %q", name, got, res.Header.Get(name))
		}
	}
	if got := res.Header.Get("Accept-Ranges"); got != "none" {
		t.Errorf("Accept-Ranges: got %q", got)
	}
	if got := h.auditPage("").Entries; strings.Count(join(got), "backup.download") != 1 {
		t.Errorf("the audit log has not one download: %s", got)
	}
}

func join[T ~[]byte](list []T) string {
	var text strings.Builder
	for _, item := range list {
		text.Write(item)
	}
	return text.String()
}
