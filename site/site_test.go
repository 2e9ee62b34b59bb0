// Package site_test builds the documentation as static pages and reads it as a browser does.
package site_test

import (
	"context"
	"fmt"
	"html"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"plantstore/internal/server/browsertest"
)

const (
	wait       = time.Minute                // the longest time for a page
	absentPage = "/v0.9.0/docs/README.html" // the menu of the versions asks for it
)

// need returns the path of a program. Without it the test fails if CI is true, and is skipped elsewhere.
func need(t *testing.T, program string) string {
	t.Helper()
	name, err := exec.LookPath(program)
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatal(err)
	} else if err != nil {
		t.Skip("this test requires ", program)
	}
	return name
}

// build builds the version main beside a version v0.9.0 that has only a landing page.
func build(t *testing.T) (out string) {
	t.Helper()
	if testing.Short() {
		t.Skip("it runs Hugo and a browser")
	}
	need(t, "hugo")
	out = t.TempDir()
	if err := os.Mkdir(filepath.Join(out, "v0.9.0"), 0o755); err != nil {
		t.Fatal(err)
	}
	page := []byte(`<link rel="icon" href="data:,"><title>An older version</title>`)
	if err := os.WriteFile(filepath.Join(out, "v0.9.0", "index.html"), page, 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := exec.CommandContext(t.Context(), "./build.sh", out, "main").CombinedOutput(); err != nil {
		t.Fatalf("build.sh: %v\n%s", err, text)
	}
	return out
}

// TestSite checks the pages of one build: every link, and the work of a reader in Chromium.
func TestSite(t *testing.T) {
	t.Parallel()
	out := build(t)
	t.Run("links", func(t *testing.T) { checkLinks(t, filepath.Join(out, "main")) })
	t.Run("Markdown", func(t *testing.T) { checkPages(t, filepath.Join(out, "main")) })
	t.Run("browser", func(t *testing.T) { read(t, out) })
}

// Each published page of docs/ is a page of the site, and the ids of the API documents are exact.
func checkPages(t *testing.T, site string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS("../docs"), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == "test": // for contributors
			return fs.SkipDir
		case path.Ext(name) != ".md":
			return nil
		}
		_, err = os.Stat(filepath.Join(site, "docs", strings.TrimSuffix(name, ".md")+".html"))
		return err
	})
	if err != nil {
		t.Error(err)
	}
	document, err := os.ReadFile(filepath.Join(site, "api", "public.html"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(document), "9223372036854775000") {
		t.Error("the page of the API has no exact id of 64 bits")
	}
}

var (
	reference = regexp.MustCompile(`\s(?:href|src)="?([^"\s>]*)`)
	anchor    = regexp.MustCompile(`\sid="?([^"\s>]*)`)
	scheme    = regexp.MustCompile(`^[a-z]+:`)
	loaded    = regexp.MustCompile(`<(?:script|img|link|iframe)\s[^>]*(?:src|href)="?(?:https?:)?//`)
)

// checkLinks checks that each link and each anchor of each page exists, and that no page loads a file of another host.
func checkLinks(t *testing.T, site string) {
	t.Helper()
	files := map[string]map[string]bool{} // the anchors of each file
	pages := map[string]string{}
	err := fs.WalkDir(os.DirFS(site), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files[name] = map[string]bool{}
		if path.Ext(name) != ".html" {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(site, name))
		pages[name] = string(text)
		for _, match := range anchor.FindAllStringSubmatch(pages[name], -1) {
			id := html.UnescapeString(match[1])
			if files[name][id] {
				t.Errorf("%s has two elements with the id %s", name, id)
			}
			files[name][id] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range pages {
		if match := loaded.FindString(text); match != "" {
			t.Errorf("%s loads a file of another host: %s", name, match)
		}
		for _, match := range reference.FindAllStringSubmatch(text, -1) {
			checkLink(t, files, name, html.UnescapeString(match[1]))
		}
	}
	t.Logf("%d pages", len(pages))
}

func checkLink(t *testing.T, files map[string]map[string]bool, page, link string) {
	t.Helper()
	if scheme.MatchString(link) {
		return
	}
	target, err := url.Parse(link)
	if err != nil {
		t.Errorf("%s: %v", page, err)
		return
	}
	name := page
	if target.Path != "" {
		name = path.Join(path.Dir(page), target.Path)
	}
	anchors, ok := files[name]
	if !ok {
		t.Errorf("%s links to %s, which does not exist", page, link)
	} else if target.Fragment != "" && !anchors[target.Fragment] {
		t.Errorf("%s links to %s, but %s has no such anchor", page, link, name)
	}
}

// reader is a Chromium with one page of the site.
type reader struct {
	t      *testing.T
	ctx    context.Context // of chromedp; ends with the test
	base   string          // URL of the versions
	mu     sync.Mutex
	faults []string // errors of the browser, and requests to other hosts; guarded by mu
}

// record records an event of the page. chromedp calls it for each event.
func (r *reader) record(event any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, r.base) && !strings.HasPrefix(e.Request.URL, "data:") {
			r.faults = append(r.faults, "the page sent a request to "+e.Request.URL)
		}
	case *log.EventEntryAdded:
		if e.Entry.URL == r.base+absentPage {
			return
		}
		r.faults = append(r.faults, fmt.Sprintf("the browser logged %s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL))
	}
}

func (r *reader) do(actions ...chromedp.Action[chromedp.Void]) {
	r.t.Helper()
	if err := chromedp.Do(r.ctx, actions...); err != nil {
		r.t.Fatal(err)
	}
}

func evaluate[T any](r *reader, expression string) T {
	r.t.Helper()
	value, err := chromedp.Run(r.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		r.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// await waits until an expression is true, also on the next page.
func (r *reader) await(expression string) {
	r.t.Helper()
	for end := time.Now().Add(wait); time.Now().Before(end); <-time.After(20 * time.Millisecond) {
		isTrue, err := chromedp.Run(r.ctx, chromedp.Evaluate[bool](`!!document.body && !!(`+expression+`)`))
		if err == nil && isTrue {
			return
		}
	}
	r.t.Fatalf("%s: not true; the page is %s", expression, evaluate[string](r, "location.href"))
}

// look checks the width of the open page, and writes its image to the directory that SITE_SCREENSHOTS names.
func (r *reader) look(name string, width int64) {
	r.t.Helper()
	if got := evaluate[int64](r, "document.documentElement.scrollWidth"); got > width {
		r.t.Errorf("%s: the page is %d px wide, want %d", name, got, width)
	}
	const images = `[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)`
	if broken := evaluate[[]string](r, images); len(broken) > 0 {
		r.t.Errorf("%s: these images are broken: %q", name, broken)
	}
	if dir := os.Getenv("SITE_SCREENSHOTS"); dir != "" {
		image, err := chromedp.Run(r.ctx, chromedp.CaptureScreenshot())
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name+".png"), image, 0o600)
		}
		if err != nil {
			r.t.Error(err)
		}
	}
}

// read opens the landing page and a how-to guide, searches, and changes the theme and the version.
func read(t *testing.T, out string) {
	t.Helper()
	server := httptest.NewServer(http.FileServer(http.Dir(out)))
	defer server.Close()
	ctx, stop, err := browsertest.Start(t.Context(), need(t, "chromium"), 6*wait)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	r := &reader{t: t, ctx: ctx, base: server.URL}
	if err := chromedp.Listen(ctx, r.record); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		call(ctx, network.Enable, network.EnableParams{}), call(ctx, log.Enable, cdp.Empty{}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	r.openPages()
	r.search()
	r.changeTheme()
	r.changeVersion()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, fault := range r.faults {
		t.Error(fault)
	}
}

func call[P, R any](ctx context.Context, method cdp.Command[P, R], params P) error {
	_, err := chromedp.Call(ctx, method, params)
	return err
}

func (r *reader) openPages() {
	r.t.Helper()
	pages := []string{
		"index", "docs/how-to/restore-a-backup", "api/public", "api/admin", "docs/explanation/performance",
		"docs/explanation/comparison", "docs/reference/settings", "docs/README",
	}
	for _, form := range []struct {
		width  int64
		scheme string
	}{{1360, "light"}, {360, "dark"}} {
		err := call(r.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: form.scheme}},
		})
		if err != nil {
			r.t.Fatal(err)
		}
		r.do(chromedp.EmulateViewport(form.width, 900))
		for _, name := range pages {
			r.do(chromedp.Navigate(r.base + "/main/" + name + ".html"))
			r.await(`document.querySelector("main h1") && siteVersions`)
			r.look(fmt.Sprintf("%s-%d-%s", strings.ReplaceAll(name, "/", "-"), form.width, form.scheme), form.width)
		}
	}
	r.do(chromedp.Navigate(r.base + "/main/index.html"))
	r.await(`document.querySelectorAll(".charts img").length === 4 && siteVersions`)
	r.do(chromedp.Click(chromedp.CSS("#site-menu")), chromedp.WaitVisible(chromedp.CSS("#site-pages")))
	r.look("menu", 360)
}

func (r *reader) search() {
	r.t.Helper()
	r.do(chromedp.EmulateViewport(1360, 900), chromedp.Navigate(r.base+"/main/docs/how-to/upgrade.html"))
	r.await(`siteVersions`)
	r.do(chromedp.SendKeys(chromedp.CSS("#site-query"), "restore backup"))
	r.await(`document.querySelector("#site-results a")?.innerText.startsWith("Restore a backup")`)
	r.look("search", 1360)
	r.do(chromedp.SendKeys(chromedp.CSS("#site-query"), "\r"))
	r.await(`location.pathname === "/main/docs/how-to/restore-a-backup.html"`)
}

func (r *reader) changeTheme() {
	r.t.Helper()
	const scheme = `getComputedStyle(document.documentElement).colorScheme`
	r.do(chromedp.Navigate(r.base + "/main/index.html"))
	r.await(`siteVersions`)
	r.do(chromedp.Click(chromedp.CSS("#site-theme"))) // the system is dark
	r.await(scheme + ` === "light"`)
	r.look("theme-light", 1360)
	r.do(chromedp.Click(chromedp.CSS("#site-theme")))
	r.await(scheme + ` === "dark"`)
	r.do(chromedp.Navigate(r.base + "/main/docs/README.html"))
	r.await(scheme + ` === "dark"`)
}

func (r *reader) changeVersion() {
	r.t.Helper()
	r.await(`document.querySelectorAll("#site-version option").length === 2`)
	evaluate[bool](r, `(menu => {menu.value = "v0.9.0"; return menu.dispatchEvent(new Event("change"))})(
		document.getElementById("site-version"))`)
	r.await(`document.title === "An older version"`)
}
