// Package site_test builds the documentation as static pages and reads it as a browser does.
package site_test

import (
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
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
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

// reader is a Chromium with a page of the site.
type reader struct {
	*browsertest.Page

	t    *testing.T
	base string // URL of the versions
}

// look checks the width of the open page, and writes its image to the directory that SITE_SCREENSHOTS names.
func (r *reader) look(name string, width int64) {
	r.t.Helper()
	if got := browsertest.Evaluate[int64](r.Page, "document.documentElement.scrollWidth"); got > width {
		r.t.Errorf("%s: the page is %d px wide, want %d", name, got, width)
	}
	const images = `[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)`
	if broken := browsertest.Evaluate[[]string](r.Page, images); len(broken) > 0 {
		r.t.Errorf("%s: these images are broken: %q", name, broken)
	}
	r.Screenshot("SITE_SCREENSHOTS", name)
}

// read opens the landing page and a how-to guide, searches, and changes the theme and the version.
func read(t *testing.T, out string) {
	t.Helper()
	server := httptest.NewServer(http.FileServer(http.Dir(out)))
	defer server.Close()
	r := &reader{browsertest.Open(t, 6*wait), t, server.URL}
	r.openPages()
	r.search()
	r.changeTheme()
	r.changeVersion()
	for _, text := range r.Logs() {
		if !strings.Contains(text, r.base+absentPage) {
			t.Errorf("the browser logged %s", text)
		}
	}
	r.Check(r.base, strings.TrimPrefix(r.base, "http://"))
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
		browsertest.Call(r.Page, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: form.scheme}},
		})
		r.Do(chromedp.EmulateViewport(form.width, 900))
		for _, name := range pages {
			r.Do(chromedp.Navigate(r.base + "/main/" + name + ".html"))
			r.Await(`document.querySelector("main h1") && siteVersions`)
			r.look(fmt.Sprintf("%s-%d-%s", strings.ReplaceAll(name, "/", "-"), form.width, form.scheme), form.width)
		}
	}
	r.Do(chromedp.Navigate(r.base + "/main/index.html"))
	r.Await(`document.querySelector(".figures .result")?.innerText.includes("plants a second") && siteVersions`)
	r.Do(chromedp.Click(chromedp.CSS("#site-menu")), chromedp.WaitVisible(chromedp.CSS("#site-pages")))
	r.look("menu", 360)
}

func (r *reader) search() {
	r.t.Helper()
	r.Do(chromedp.EmulateViewport(1360, 900), chromedp.Navigate(r.base+"/main/docs/how-to/upgrade.html"))
	r.Await(`siteVersions`)
	r.Do(chromedp.SendKeys(chromedp.CSS("#site-query"), "restore backup"))
	r.Await(`document.querySelector("#site-results a")?.innerText.startsWith("Restore a backup")`)
	r.look("search", 1360)
	r.Do(chromedp.SendKeys(chromedp.CSS("#site-query"), "\r"))
	r.Await(`location.pathname === "/main/docs/how-to/restore-a-backup.html"`)
}

func (r *reader) changeTheme() {
	r.t.Helper()
	const scheme = `getComputedStyle(document.documentElement).colorScheme`
	r.Do(chromedp.Navigate(r.base + "/main/index.html"))
	r.Await(`siteVersions`)
	r.Do(chromedp.Click(chromedp.CSS("#site-theme"))) // the system is dark
	r.Await(scheme + ` === "light"`)
	r.look("theme-light", 1360)
	r.Do(chromedp.Click(chromedp.CSS("#site-theme")))
	r.Await(scheme + ` === "dark"`)
	r.Do(chromedp.Navigate(r.base + "/main/docs/README.html"))
	r.Await(scheme + ` === "dark"`)
}

func (r *reader) changeVersion() {
	r.t.Helper()
	r.Await(`document.querySelectorAll("#site-version option").length === 2`)
	browsertest.Evaluate[bool](r.Page, `(menu => {menu.value = "v0.9.0"; return menu.dispatchEvent(new Event("change"))})(
		document.getElementById("site-version"))`)
	r.Await(`document.title === "An older version"`)
}
