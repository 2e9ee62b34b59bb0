package console_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/server/browsertest"
	"plantstore/internal/store"
)

// browser is a Chromium with a page of the console.
type browser struct {
	*browsertest.Page

	t *testing.T
	h *harness
}

// startBrowser starts Chromium. The test is skipped in the short form.
func startBrowser(t *testing.T, h *harness) *browser {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts a browser")
	}
	b := &browser{browsertest.Open(t, 6*wait), t, h}
	// A page reports a violation of its policy before any other script runs.
	browsertest.Call(b.Page, page.AddScriptToEvaluateOnNewDocument,
		page.AddScriptToEvaluateOnNewDocumentParams{Source: reportViolations})
	return b
}

// reportViolations writes the violations of the Content-Security-Policy, the errors of scripts and the calls of alert
// to the title of the page.
const reportViolations = `window.faults = [];
addEventListener("securitypolicyviolation",
	e => faults.push("policy: " + e.violatedDirective + " " + e.blockedURI + " " + e.sample));
addEventListener("error", e => faults.push("error: " + e.message));
addEventListener("unhandledrejection", e => faults.push("rejection: " + e.reason));
window.alert = text => faults.push("script of a plant: " + text);`

func (b *browser) open(path string) {
	b.t.Helper()
	b.Do(chromedp.Navigate("http://" + b.h.host + path))
}

// signIn signs in with a link, as the operator does.
func (b *browser) signIn() {
	b.t.Helper()
	b.open("/sign-in?code=" + b.h.code(time.Now()))
	b.Do(chromedp.Click(chromedp.CSS("main button")), chromedp.WaitVisible(chromedp.CSS(".hero")))
}

// check fails the test if a page logged an error, ran a script of a plant, violated its policy or sent a request to
// another host.
func (b *browser) check(where string) {
	b.t.Helper()
	for _, fault := range browsertest.Evaluate[[]string](b.Page, "window.faults") {
		b.t.Errorf("%s: %s", where, fault)
	}
	b.Check(where, b.h.host)
}

// hostileNames returns 200 texts that break out of HTML, attributes, scripts and layouts if a page does not encode
// them.
func hostileNames() (names []string) {
	payloads := []string{
		`<script>alert(%d)</script>`, `"><img src=x onerror=alert(%d)>`, `' onmouseover='alert(%d)`,
		`</td></tr></table><svg onload=alert(%d)>`, `javascript:alert(%d)`, `{{alert(%d)}}`, `${alert(%d)}`,
		`</title><script>alert(%d)</script>`, `--><iframe src=javascript:alert(%d)>`, `<a href=//evil.example>%d`,
		`<style>*{display:none}</style>%d`, `<base href=//evil.example/>%d`, `&lt;script&gt;alert(%d)&lt;/script&gt;`,
		"\u202e txet desrever %d", "وردة جورية %d", "שושנה %d", "バラ %d \U0001F339", "zalgo\u0301\u0301\u0301\u0301 %d",
		"%d" + strings.Repeat("W", 300), "line\nbreak\t%d",
	}
	for i := range 200 {
		names = append(names, fmt.Sprintf(payloads[i%len(payloads)], i))
	}
	return names
}

// consolePages are the pages that a session can open.
var consolePages = []string{
	"/", "/plants", "/plants?name=alert", "/plants/1", "/plants/new", "/import", "/credentials?state=all",
	"/credentials/2/erase?since=2026-01-01T00:00:00", "/backups", "/webhooks", "/audit", "/settings", "/reference",
	"/reference/admin", "/plants/999999", "/help", "/help/disk-fills",
}

// startHostile starts a server whose plants, tags, creators and tokens have hostile names.
func startHostile(t *testing.T) *harness {
	t.Helper()
	var plants []store.Create
	for i, name := range hostileNames() {
		plants = append(plants, stored(int64(i+1), name, plant.Tagged(name)))
		plants[i].By = 2 // the first of the tokens below
	}
	h := start(t, plants...)
	for _, name := range hostileNames() {
		h.mint(name, auth.ScopeRead)
	}
	h.startHostileWebhooks()
	return h
}

// On every page, light and dark, narrow and wide, no hostile name runs a script, violates the policy or widens the
// page, axe-core finds nothing serious, and the page stays small.
func TestPagesInBrowser(t *testing.T) {
	t.Parallel()
	h := startHostile(t)
	b := startBrowser(t, h)
	axe := installAxe(t)
	b.Do(chromedp.EmulateViewport(360, 900))
	b.open("/sign-in")
	b.checkPage("/sign-in", axe, 360, "light")
	b.signIn()
	for _, path := range consolePages {
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
			b.checkPage(path, axe, form.width, form.scheme)
		}
	}
}

// checkPage checks the open page.
func (b *browser) checkPage(path, axe string, width int64, scheme string) {
	b.t.Helper()
	where := fmt.Sprintf("%s at %d px, %s", path, width, scheme)
	received := b.Received()
	b.t.Logf("%s: %.0f bytes", where, received)
	if received > 150<<10 {
		b.t.Errorf("%s: the page has %.0f bytes, want at most 150 KiB", where, received)
	}
	if path == "/plants/999999" {
		b.Logs() // the status 404
	}
	b.check(where)
	if got := browsertest.Evaluate[int64](b.Page, "document.documentElement.scrollWidth"); got > width {
		b.t.Errorf("%s: the page is %d px wide", where, got)
	}
	file := strings.Trim(strings.NewReplacer("/", "-", "?", "-").Replace(path), "-")
	b.Screenshot("CONSOLE_SCREENSHOTS", fmt.Sprintf("%s-%d-%s", file, width, scheme))
	if axe == "" {
		return
	}
	violations, err := chromedp.Run(b.Ctx, chromedp.Evaluate[[]string](
		axe+`; axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations
			.filter(v => v.impact === "serious" || v.impact === "critical")
			.map(v => v.id + ": " + v.nodes.slice(0, 3).map(n => n.html + " " + n.failureSummary).join("; ")))`,
		chromedp.EvalAwaitPromise,
	))
	if err != nil {
		b.t.Fatalf("%s: axe: %v", where, err)
	}
	for _, v := range violations {
		b.t.Errorf("%s: axe: %s", where, v)
	}
}

// installAxe installs axe-core from npm and returns its source; empty without npm.
func installAxe(t *testing.T) string {
	t.Helper()
	dir := installNPM(t, "testdata/axe")
	if dir == "" {
		return ""
	}
	source, err := os.ReadFile(filepath.Join(dir, "node_modules/axe-core/axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	return string(source)
}

// installNPM copies a directory with a lock file, installs its packages, and returns the copy; empty without npm.
func installNPM(t *testing.T, from string) (dir string) {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("npm is not installed; install the Debian packages nodejs and npm")
		}
		t.Log(from, "does not run: npm is not installed")
		return ""
	}
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	return dir
}

// An operator searches while typing, creates a plant, mints a token and revokes it.
func TestWorkInBrowser(t *testing.T) {
	t.Parallel()
	h := start(t, stored(1, "Rosa canina", plant.Tagged("shrub")), stored(2, "Quercus robur", plant.Tag{}))
	b := startBrowser(t, h)
	b.signIn()
	b.open("/plants")
	b.Await(`document.querySelector(".more summary").textContent === "Export all"`)
	b.Do(chromedp.SendKeys(chromedp.CSS("#name"), "QUERC"))
	b.Await(`document.querySelectorAll("tbody tr").length === 1 && document.body.innerText.includes("1 found")`)
	b.Await(`document.querySelector("a[download]").href.endsWith("/plants/export?format=csv&name=QUERC&tag=") &&
		location.search === "?name=QUERC&tag=" && document.querySelector(".more summary").textContent === "Export these"`)
	b.open("/plants/new")
	b.Do(
		chromedp.SendKeys(chromedp.CSS("#id"), "9223372036854775807"), chromedp.SendKeys(chromedp.CSS("#name"), "ورد"),
		chromedp.Click(chromedp.CSS("main button")),
	)
	b.Await(`location.pathname === "/plants/9223372036854775807"`)
	b.Await(`document.body.innerText.includes("The plant is stored.")`)
	b.open("/credentials")
	b.Do(chromedp.SendKeys(chromedp.CSS("#name"), "web-shop"), chromedp.Click(chromedp.CSS("main form button")))
	b.Await(`document.querySelector("#secret") !== null`)
	secret := browsertest.Evaluate[string](b.Page, `document.querySelector("#secret").textContent`)
	p, err := h.writePath.Authenticate(t.Context(), secret)
	if err != nil || p.Name != "web-shop" || p.Scopes != auth.ScopeCreate {
		t.Fatalf("the new token: got %v, %v", p, err)
	}
	b.open("/credentials")
	if browsertest.Evaluate[bool](b.Page, `document.body.innerText.includes("`+secret+`")`) {
		t.Error("the secret is shown again")
	}
	// Escape and Cancel close a dialog without a change.
	const opened = `document.querySelector("dialog:modal") !== null`
	for _, key := range []string{kb.Escape, "\r"} { // the focus is on Cancel
		b.Do(chromedp.Click(chromedp.CSS(`button[aria-label="Revoke web-shop"]`)))
		b.Await(opened + ` && document.activeElement.textContent === "Cancel"`)
		b.Do(chromedp.KeyEvent(key))
		b.Await("!(" + opened + ")")
	}
	b.Do(
		chromedp.Click(chromedp.CSS(`button[aria-label="Revoke web-shop"]`)),
		chromedp.Click(chromedp.CSS(`dialog[open] button.danger`)),
	)
	b.Await(`document.body.innerText.includes("The credential is revoked.")`)
	h.awaitInvalid(secret)
	b.open("/settings")
	b.Do(chromedp.SendKeys(chromedp.CSS("#filter"), "BACKUP default"))
	b.Await(`[...document.querySelectorAll("tbody tr")].filter(r => r.checkVisibility()).map(r => r.id).join() ===
		"backup-every"`)
	b.Await(`!document.getElementById("changed").checkVisibility()`)
	b.open("/plants")
	b.Do(chromedp.Click(chromedp.CSS(".more summary")))
	b.Await(`document.querySelector(".more a").checkVisibility()`)
	b.Do(chromedp.KeyEvent(kb.Escape))
	b.Await(`!document.querySelector(".more").open`)
	b.check("work")
}

// The overview returns to the sign-in page after a revocation, without a request of the user.
func TestRevocationInBrowser(t *testing.T) {
	t.Parallel()
	h := start(t)
	b := startBrowser(t, h)
	b.open("/sign-in")
	b.Do(chromedp.SendKeys(chromedp.CSS("#credential"), h.admin), chromedp.Click(chromedp.CSS("main button")))
	b.Await(`document.querySelector(".hero") !== null`)
	h.revoke(store.Selector{Name: "operator"})
	b.Await(`location.pathname === "/sign-in"`)
}
