package adminapi_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"plantstore/internal/listen"
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

// A credential that holds downloads of rejects on all connections is refused beyond its requests, and the operator and
// health checks find a connection.
func TestSlowDownloads(t *testing.T) {
	t.Parallel()
	const connections, atOnce = 512, 64 // on the admin listener
	h := start(t, setup{limits: listen.Limits{Connections: connections, IdleTimeout: wait, Incomplete: 64}})
	h.api.SetPartTime(wait) // a download that ends for its slow client gives up its place
	c := h.importing("nursery", 0)
	file := "id,name\n" + strings.Repeat("none,"+strings.Repeat("x", 1000)+"\n", 8000)
	if got := c.put("/imports/spring?name=plants.csv", file); got.status != http.StatusOK {
		t.Fatalf("import: got %+v", got)
	}
	base, err := url.Parse(h.url)
	if err != nil {
		t.Fatal(err)
	}
	statuses := map[int]int{}
	for range connections + 10 {
		download, err := net.Dial("tcp", base.Host)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = download.Close() })
		_ = download.(*net.TCPConn).SetReadBuffer(4 << 10)
		_, _ = fmt.Fprintf(download, "GET %s/imports/spring/rejects HTTP/1.1\r\nHost: localhost\r\n"+
			"Authorization: Bearer %s\r\n\r\n", base.Path, c.token)
		res, err := http.ReadResponse(bufio.NewReader(download), nil) //nolint:bodyclose // the end of the test closes it
		if err != nil {
			t.Fatalf("after %v: %v", statuses, err)
		}
		if statuses[res.StatusCode]++; res.StatusCode == http.StatusTooManyRequests {
			body, err := io.ReadAll(res.Body)
			const want = `{"error":42903,"message":"64 requests with this credential are in progress; ` +
				"wait for the end of one\"}\n"
			if string(body) != want || err != nil || res.Header.Get("Retry-After") != "1" {
				t.Fatalf("beyond the limit: got %s, %v, %v", body, res.Header, err)
			}
		}
	}
	if want := map[int]int{200: atOnce, 429: connections + 10 - atOnce}; !maps.Equal(statuses, want) {
		t.Errorf("downloads: got %v, want %v", statuses, want)
	}
	h.url = "http://" + base.Host
	for range 20 {
		h.client.CloseIdleConnections()
		for _, target := range []string{"/api/v1/state", "/api/v1/imports/spring", "/livez", "/readyz"} {
			res := h.send(http.MethodGet, target, "")
			_ = res.Body.Close()
			if res.StatusCode != http.StatusOK {
				t.Errorf("%s: got %d", target, res.StatusCode)
			}
		}
	}
}
