package console_test

import (
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/plant"
	"plantstore/internal/s3/s3test"
	"plantstore/internal/server/browsertest"
	"plantstore/internal/sqlite"
	"plantstore/internal/store"
	"plantstore/internal/store/storetest"
)

// plantsFile writes a CSV file of plants and returns its path. Every id below 0 is a row that is no plant.
func plantsFile(t *testing.T, name string, rows [][]string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := csv.NewWriter(f)
	if err := w.WriteAll(append([][]string{{"id", "name", "tag"}}, rows...)); err != nil {
		t.Fatal(err)
	}
	return path
}

// hostileRows returns rows with the hostile names: plants, conflicts with plants 1 and 2, and rows without an id.
func hostileRows() (rows [][]string) {
	for i, name := range hostileNames() {
		id := strconv.Itoa(i + 1)
		if i >= 100 {
			id = name
		}
		rows = append(rows, []string{id, name, name})
	}
	return rows
}

// choose sends a file by the form of the page, which is open, and waits for its columns.
func (b *browser) choose(path string) {
	b.t.Helper()
	b.Do(
		chromedp.SetUploadFiles(chromedp.CSS("#file"), []string{path}),
		chromedp.Click(chromedp.CSS("main .upload .primary")),
	)
	b.Await(`document.querySelector(".preview") !== null`)
}

// checkColumns checks the file with the columns of the page, which is open.
func (b *browser) checkColumns() {
	b.t.Helper()
	b.Do(chromedp.Click(chromedp.CSS("main .upload .primary")))
	b.Await(`document.querySelector("main form[action$='/start']") !== null`)
}

func (b *browser) startImport() {
	b.t.Helper()
	b.Do(chromedp.Click(chromedp.CSS("main form[action$='/start'] button")))
}

// A person imports a file of hostile names, accepted and rejected ones, in steps. No page runs a script, in light and
// dark, narrow and wide.
func TestImportInBrowser(t *testing.T) {
	t.Parallel()
	h := start(t, stored(1, "Rosa canina", plant.Tag{}), stored(2, "Quercus robur", plant.Tag{}))
	b := startBrowser(t, h)
	axe := installAxe(t)
	b.signIn()
	look := func(name, path string) {
		t.Helper()
		for _, form := range []struct {
			width  int64
			scheme string
		}{{1280, "light"}, {360, "dark"}} {
			b.Do(chromedp.EmulateViewport(form.width, 900))
			browsertest.Call(b.Page, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: form.scheme}},
			})
			b.Received()
			b.open(path)
			b.checkPage(name, axe, form.width, form.scheme)
		}
	}
	b.open("/import")
	b.choose(plantsFile(t, `<img src=x onerror=alert(1)>.csv`, hostileRows()))
	page := browsertest.Evaluate[string](b.Page, "location.pathname")
	look("/import/columns", page)
	look("/import/waiting", "/import")
	b.open(page)
	const counted = `document.querySelector("[data-count=created]").textContent === "98" &&
		document.querySelector("[data-count=conflicting]").textContent === "2" &&
		document.querySelector("[data-count=invalid]").textContent === "100" &&
		document.querySelectorAll(".rejects + .table tbody tr").length === 100`
	b.checkColumns()
	b.Await(counted)
	look("/import/checked", page)
	b.startImport()
	b.Await(`document.querySelector(".head .state")?.textContent === "98 stored, 102 not" && ` + counted)
	for _, path := range []string{page, "/import", "/plants", "/plants/50"} {
		look(strings.Replace(path, page, "/import/result", 1), path)
	}
	rows := h.signIn(h.admin).get(page + "/rejects").body
	if got := strings.Count(rows, "alert(101)"); got != 3 {
		t.Errorf("the download has a row %d times in three cells: %s", got, rows)
	}
}

// pausedEngine is an engine whose inserts wait after a number of batches for the test.
type pausedEngine struct {
	*sqlite.Engine

	batches int
	resume  chan struct{} // each value is for a batch
}

// Insert implements writepath.Engine.
func (e *pausedEngine) Insert(ctx context.Context, batch []store.Create) ([]store.Outcome, error) {
	if e.batches--; e.batches < 0 {
		<-e.resume
	}
	return e.Engine.Insert(ctx, batch)
}

// startPaused starts a server whose imports stop after two batches, with the plants of pausedRows.
func startPaused(t *testing.T) (*harness, *pausedEngine) {
	t.Helper()
	paused := &pausedEngine{batches: 2, resume: make(chan struct{})}
	file := filepath.Join(t.TempDir(), "plants.db")
	return startOn(t, file, func(metrics prometheus.Registerer) (storetest.Engine, error) {
		var err error
		paused.Engine, err = sqlite.Open(t.Context(), sqlite.Config{Path: file, Server: true, Metrics: metrics})
		return paused, err
	}), paused
}

// pausedRows returns the rows of more batches than pausedEngine stores.
func pausedRows() (rows [][]string) {
	for i := range 40_000 {
		rows = append(rows, []string{strconv.Itoa(i + 1), fmt.Sprintf("Rosa %d", i)})
	}
	return rows
}

// A dropped file is sent at once. The page of a running import counts the plants, cancels the import, and then shows
// the stored plants and the reason.
func TestCancelImportInBrowser(t *testing.T) {
	t.Parallel()
	h, paused := startPaused(t)
	b := startBrowser(t, h)
	b.signIn()
	b.open("/import")
	b.Do(chromedp.SetUploadFiles(chromedp.CSS("#file"), []string{plantsFile(t, "plants.csv", pausedRows())}))
	// The files of the input are those of a drop: a script cannot make other ones from a path.
	browsertest.Evaluate[bool](b.Page, `(() => {
		const data = new DataTransfer();
		data.items.add(document.querySelector("#file").files[0]);
		document.querySelector("#file").value = "";
		const at = document.querySelector("[data-drop]");
		for (const name of ["dragenter", "dragover", "drop"]) at.dispatchEvent(
			new DragEvent(name, { dataTransfer: data, bubbles: true, cancelable: true }));
		return true;
	})()`)
	b.Await(`document.querySelector(".preview") !== null`)
	b.checkColumns()
	b.startImport()
	b.Await(`document.querySelector("[data-count=created]").textContent.replace(/\D/g, "") === "2000"`)
	b.check("running")
	b.Screenshot("CONSOLE_SCREENSHOTS", "import-running")
	page := browsertest.Evaluate[string](b.Page, "location.pathname")
	b.Do(chromedp.Click(chromedp.CSS("main .danger")))
	c := h.signIn(h.admin)
	for strings.Contains(c.get(page+"/live").body, `"state":"running"`) { // until the cancellation arrives
		select {
		case paused.resume <- struct{}{}:
		default:
		}
	}
	b.Await(`document.body.innerText.includes("the import was canceled")`)
	b.check("canceled")
	if _, err := h.engine.Get(t.Context(), 1000); err != nil {
		t.Errorf("a stored plant: %v", err)
	}
}

// A lost connection leaves the page with the reason. A button sends the same file again, and another one stops the
// upload.
func TestLostUploadInBrowser(t *testing.T) {
	t.Parallel()
	h := start(t)
	proxy, err := s3test.NewProxy(t.Context(), h.host) // for TCP
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	opened := *h
	opened.host = strings.TrimPrefix(proxy.Endpoint, "http://")
	b := startBrowser(t, &opened)
	b.signIn()
	b.open("/import")
	rows := [][]string{}
	for i := range 8000 { // more than the buffers of a connection
		rows = append(rows, []string{strconv.Itoa(i), "Rosa", strings.Repeat("t", 1000)})
	}
	b.Do(chromedp.SetUploadFiles(chromedp.CSS("#file"), []string{plantsFile(t, "plants.csv", rows)}))
	send := func() { b.Do(chromedp.Click(chromedp.CSS("main .upload .primary"))) }
	c := h.signIn(h.admin)
	ended := func() { // a credential keeps one file
		for strings.Contains(c.get("/import").body, ">receiving<") {
		}
	}
	release := proxy.HoldAfter(1 << 20)
	send()
	b.Await(`/received|sent/.test(document.querySelector("[data-status]").textContent)`)
	b.Do(chromedp.Click(chromedp.CSS("[data-abort]")))
	b.Await(`document.querySelector("[data-running]").hidden && document.querySelector("[data-fault]").hidden`)
	release()
	ended()
	proxy.HoldAfter(1 << 20)
	send()
	b.Await(`document.querySelector("[data-running]").checkVisibility()`)
	proxy.CutAfter(0)
	release()
	b.Await(`document.querySelector("[data-fault]").textContent.includes("Nothing is stored")`)
	ended()
	proxy.Pass()
	send()
	b.Await(`document.querySelector(".preview") !== null`)
}
