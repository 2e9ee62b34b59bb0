package console_test

import (
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/admin"
	"plantstore/internal/importer"
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

// choose selects a file in the form of the page, which is open.
func (b *browser) choose(path string) {
	b.t.Helper()
	b.Do(
		chromedp.SetUploadFiles(chromedp.CSS("#file"), []string{path}),
		chromedp.Click(chromedp.CSS("main .upload .primary")),
	)
}

// An import of hostile names, accepted and rejected ones, runs no script, in light and dark, narrow and wide.
func TestImportInBrowser(t *testing.T) {
	t.Parallel()
	h := start(t, stored(1, "Rosa canina", plant.Tag{}), stored(2, "Quercus robur", plant.Tag{}))
	b := startBrowser(t, h)
	axe := installAxe(t)
	b.signIn()
	b.open("/import")
	b.choose(plantsFile(t, `<img src=x onerror=alert(1)>.csv`, hostileRows()))
	b.Await(`location.pathname.startsWith("/import/") &&
		document.querySelectorAll("[data-rejects] tbody tr").length === 100`)
	b.Await(`document.querySelector("[data-count=created]").textContent === "98" &&
		document.querySelector("[data-count=conflicting]").textContent === "2" &&
		document.querySelector("[data-count=invalid]").textContent === "100"`)
	page := browsertest.Evaluate[string](b.Page, "location.pathname")
	for _, path := range []string{page, "/import", "/plants", "/plants/50"} {
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
			name := path
			if path == page {
				name = "/import/result"
			}
			b.checkPage(name, axe, form.width, form.scheme)
		}
	}
	rows := h.signIn(h.admin).get(page + "/rejects").body
	if got := strings.Count(rows, "alert(101)"); got != 3 {
		t.Errorf("the download has a row %d times in three cells: %s", got, rows)
	}
}

// pausedEngine is an engine whose inserts wait after a number of batches, until the test resumes them.
type pausedEngine struct {
	*sqlite.Engine

	batches int
	resume  chan struct{} // closed to resume
}

// Insert implements writepath.Engine.
func (e *pausedEngine) Insert(ctx context.Context, batch []store.Create) ([]store.Outcome, error) {
	if e.batches--; e.batches < 0 {
		<-e.resume
	}
	return e.Engine.Insert(ctx, batch)
}

// longPlants is the number of plants in longRows.
const longPlants = 16_000

// longRows returns rows of more batches than pausedEngine stores, and of more bytes than the buffers of a connection.
func longRows() (rows [][]string) {
	rows = append(rows, []string{"x", "<script>alert(1)</script>"})
	for i := range longPlants {
		rows = append(rows, []string{strconv.Itoa(i + 1), fmt.Sprintf("Rosa %d", i), strings.Repeat("t", 960)})
	}
	return rows
}

// startPaused starts a server whose imports stop after two batches, and an import by a dropped file.
func startPaused(t *testing.T) (*harness, *browser, *pausedEngine) {
	t.Helper()
	return startPausedAt(t, func(string) string { return "" })
}

// startPausedAt is startPaused for a browser that opens another address of the server, unless that is empty.
func startPausedAt(t *testing.T, address func(host string) string) (*harness, *browser, *pausedEngine) {
	t.Helper()
	paused := &pausedEngine{batches: 2, resume: make(chan struct{})}
	file := filepath.Join(t.TempDir(), "plants.db")
	h := startOn(t, file, func(metrics prometheus.Registerer) (storetest.Engine, error) {
		var err error
		paused.Engine, err = sqlite.Open(t.Context(), sqlite.Config{Path: file, Server: true, Metrics: metrics})
		return paused, err
	})
	opened := *h
	opened.host = cmp.Or(address(h.host), h.host)
	b := startBrowser(t, &opened)
	b.signIn()
	b.open("/import")
	path := plantsFile(t, "plants.csv", longRows())
	b.Do(chromedp.SetUploadFiles(chromedp.CSS("#file"), []string{path}))
	// The files of the input are those of a drop: a script cannot make other ones from a path.
	browsertest.Evaluate[bool](b.Page, `(() => {
		const data = new DataTransfer();
		data.items.add(document.querySelector("#file").files[0]);
		const at = document.querySelector("[data-drop]");
		for (const name of ["dragenter", "dragover", "drop"]) at.dispatchEvent(
			new DragEvent(name, { dataTransfer: data, bubbles: true, cancelable: true }));
		return true;
	})()`)
	b.Await(`document.querySelector("[data-count=created]").textContent.replace(/\D/g, "") === "1999" &&
		document.querySelectorAll("[data-rejects] tbody tr").length === 1`)
	return h, b, paused
}

// The button cancels an import of a dropped file. The page shows the stored plants and the reason.
func TestCancelImportInBrowser(t *testing.T) {
	t.Parallel()
	h, b, paused := startPaused(t)
	b.check("running")
	b.Screenshot("CONSOLE_SCREENSHOTS", "import-running")
	b.Do(chromedp.Click(chromedp.CSS("[data-cancel] button")))
	b.Await(`document.body.innerText.includes("Canceling…")`)
	close(paused.resume)
	b.Await(`location.pathname.startsWith("/import/") && document.body.innerText.includes("the import was canceled")`)
	b.check("canceled")
	if _, err := h.engine.Get(t.Context(), 1000); err != nil {
		t.Errorf("a stored plant: %v", err)
	}
}

// A server that ends in the middle of an import leaves a page with advice. The same page continues the import when the
// server has started again.
func TestServerEndsDuringImportInBrowser(t *testing.T) {
	t.Parallel()
	h, b, paused := startPaused(t)
	h.down()
	close(paused.resume)
	b.Await(`document.querySelector("[data-lost]").checkVisibility()`)
	text := browsertest.Evaluate[string](b.Page, `document.querySelector("[data-lost]").textContent`)
	if !strings.Contains(text, "Import the same file again") {
		t.Errorf("got %s", text)
	}
	b.Screenshot("CONSOLE_SCREENSHOTS", "import-lost")
}

// After a lost connection the button imports the same file again, without another choice of the file.
func TestImportAgainInBrowser(t *testing.T) {
	t.Parallel()
	var proxy *s3test.Proxy // for TCP
	var release func()
	h, b, paused := startPausedAt(t, func(host string) string {
		var err error
		if proxy, err = s3test.NewProxy(t.Context(), host); err != nil {
			t.Fatal(err)
		}
		release = proxy.HoldAfter(8 << 20) // the server never has the whole file
		return strings.TrimPrefix(proxy.Endpoint, "http://")
	})
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	proxy.CutAfter(0)
	release()
	close(paused.resume)
	b.Await(`document.querySelector("[data-again]").checkVisibility()`)
	c := h.signIn(h.admin)
	first := regexp.MustCompile(`href="(/import/[^"/]+)"`).FindStringSubmatch(c.get("/import").body)
	if first == nil {
		t.Fatal("the page has no import")
	}
	var state admin.Import
	for state.EndedAt.IsZero() { // one import of a credential runs at a time
		if err := json.Unmarshal([]byte(c.get(first[1]+"/live").body), &state); err != nil {
			t.Fatal(err)
		}
	}
	proxy.Pass()
	b.Do(chromedp.Click(chromedp.CSS("[data-again]")))
	b.Await(`location.pathname.startsWith("/import/") && location.pathname !== "` + first[1] + `"`)
	again := browsertest.Evaluate[string](b.Page, "location.pathname")
	var whole admin.Import
	if err := json.Unmarshal([]byte(c.get(again+"/live").body), &whole); err != nil {
		t.Fatal(err)
	}
	want := importer.Counts{Created: longPlants - state.Created, Existing: state.Created, Invalid: 1}
	if state.State != admin.JobFailed || whole.State != admin.JobComplete || whole.Counts != want ||
		whole.Name != "plants.csv" {
		t.Errorf("got %+v and then %+v, want %+v", state, whole, want)
	}
}
