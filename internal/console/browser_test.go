package console_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/server/browsertest"
	"plantstore/internal/store"
)

// browser is a Chromium with one page.
type browser struct {
	t    *testing.T
	h    *harness
	ctx  context.Context // of chromedp; ends with the test
	mu   sync.Mutex
	host map[string]bool // of the requests; guarded by mu
	logs []string        // errors of the browser; guarded by mu
	sent float64         // bytes that the page received; guarded by mu
}

// startBrowser starts Chromium. The test is skipped in the short form.
func startBrowser(t *testing.T, h *harness) *browser {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts a browser")
	}
	ctx, stop, err := browsertest.Start(t.Context(), chromium(t), 6*wait)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	b := &browser{t: t, h: h, ctx: ctx, host: map[string]bool{}}
	if err := chromedp.Listen(ctx, b.record); err != nil {
		t.Fatal(err)
	}
	call(b, network.Enable, network.EnableParams{})
	call(b, log.Enable, cdp.Empty{})
	// A page reports a violation of its policy before any other script runs.
	call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: reportViolations})
	return b
}

// chromium returns the path of Chromium. Without it the test fails if CI=true, and is skipped
// otherwise.
func chromium(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatal(err)
	} else if err != nil {
		t.Skip("this test requires Chromium:", err)
	}
	return program
}

// reportViolations writes the violations of the Content-Security-Policy, the errors of
// scripts and the calls of alert to the title of the page.
const reportViolations = `window.faults = [];
addEventListener("securitypolicyviolation",
	e => faults.push("policy: " + e.violatedDirective + " " + e.blockedURI + " " + e.sample));
addEventListener("error", e => faults.push("error: " + e.message));
addEventListener("unhandledrejection", e => faults.push("rejection: " + e.reason));
window.alert = text => faults.push("script of a plant: " + text);`

func call[P, R any](b *browser, method cdp.Command[P, R], params P) R {
	b.t.Helper()
	result, err := chromedp.Call(b.ctx, method, params)
	if err != nil {
		b.t.Fatal(err)
	}
	return result
}

// record records an event of the page. chromedp calls it for each event.
func (b *browser) record(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err == nil && u.Scheme != "data" {
			b.host[u.Host] = true
		}
	case *network.EventLoadingFinished:
		b.sent += e.EncodedDataLength
	case *log.EventEntryAdded:
		b.logs = append(b.logs, fmt.Sprintf("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL))
	}
}

func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

func (b *browser) open(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate("http://" + b.h.host + path))
}

func evaluate[T any](b *browser, expression string) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// await waits until an expression is true for a whole document. A navigation ends an evaluation, so await
// evaluates it again. Until the document is complete, the end of its load makes the browser forget the elements that
// chromedp has just found.
func (b *browser) await(expression string) {
	b.t.Helper()
	for end := time.Now().Add(wait); time.Now().Before(end); <-time.After(20 * time.Millisecond) {
		isTrue, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](`document.readyState === "complete" && (`+expression+`)`))
		if err == nil && isTrue {
			return
		}
	}
	b.t.Fatalf("%s: not true; the page has %q", expression, evaluate[string](b, "String(document.body?.innerText)"))
}

// signIn signs in with a link, as the operator does.
func (b *browser) signIn() {
	b.t.Helper()
	b.open("/sign-in?code=" + b.h.code(time.Now()))
	b.do(chromedp.Click(chromedp.CSS("main button")), chromedp.WaitVisible(chromedp.CSS(".hero")))
}

// check fails the test if a page logged an error, ran a script of a plant, violated its
// policy or sent a request to another host.
func (b *browser) check(where string) {
	b.t.Helper()
	for _, fault := range evaluate[[]string](b, "window.faults") {
		b.t.Errorf("%s: %s", where, fault)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, text := range b.logs {
		b.t.Errorf("%s: the browser logged %s", where, text)
	}
	for host := range b.host {
		if host != b.h.host {
			b.t.Errorf("%s: the page sent a request to %s", where, host)
		}
	}
	b.logs = nil
}

// hostileNames returns 200 texts that break out of HTML, attributes, scripts and layouts if a
// page does not encode them.
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
	"/", "/plants", "/plants?name=alert", "/plants/1", "/plants/new", "/import", "/credentials?all=1",
	"/backups", "/webhooks", "/audit", "/settings", "/reference", "/reference/admin", "/reference/try", "/plants/999999",
}

// startHostile starts a server whose plants, tags, creators and tokens have hostile names.
func startHostile(t *testing.T) *harness {
	t.Helper()
	var plants []store.Create
	for i, name := range hostileNames() {
		plants = append(plants, stored(int64(i+1), name, plant.Tagged(name)))
	}
	h := start(t, plants...)
	for _, name := range hostileNames() {
		h.mint(name, auth.ScopeRead)
	}
	h.startHostileWebhooks()
	return h
}

// On every page, light and dark, narrow and wide, no hostile name runs a script, violates the
// policy or widens the page, axe-core finds nothing serious, and the page stays small.
func TestPagesInBrowser(t *testing.T) {
	t.Parallel()
	h := startHostile(t)
	b := startBrowser(t, h)
	axe := installAxe(t)
	b.do(chromedp.EmulateViewport(360, 900))
	b.open("/sign-in")
	b.checkPage("/sign-in", axe, 360, "light")
	b.signIn()
	for _, path := range consolePages {
		for _, form := range []struct {
			width  int64
			scheme string
		}{{1280, "light"}, {360, "dark"}} {
			b.do(chromedp.EmulateViewport(form.width, 900))
			call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: form.scheme}},
			})
			b.mu.Lock()
			b.sent = 0
			b.mu.Unlock()
			b.open(path)
			b.checkPage(path, axe, form.width, form.scheme)
		}
	}
}

// checkPage checks the open page.
func (b *browser) checkPage(path, axe string, width int64, scheme string) {
	b.t.Helper()
	where := fmt.Sprintf("%s at %d px, %s", path, width, scheme)
	b.mu.Lock()
	b.t.Logf("%s: %.0f bytes", where, b.sent)
	if sent := b.sent; sent > 150<<10 {
		b.t.Errorf("%s: the page has %.0f bytes, want at most 150 KiB", where, sent)
	}
	if path == "/plants/999999" {
		b.logs = nil // the status 404
	}
	b.mu.Unlock()
	b.check(where)
	if got := evaluate[int64](b, "document.documentElement.scrollWidth"); got > width {
		b.t.Errorf("%s: the page is %d px wide", where, got)
	}
	file := strings.Trim(strings.NewReplacer("/", "-", "?", "-").Replace(path), "-")
	b.screenshot(fmt.Sprintf("%s-%d-%s", file, width, scheme))
	if axe == "" {
		return
	}
	violations, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]string](
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

// installNPM copies a directory with a lock file, installs its packages, and returns the
// copy; empty without npm.
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

// screenshot writes an image of the page to the directory that CONSOLE_SCREENSHOTS names.
func (b *browser) screenshot(name string) {
	b.t.Helper()
	dir := os.Getenv("CONSOLE_SCREENSHOTS")
	if dir == "" {
		return
	}
	image, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), image, 0o600)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// An operator searches while typing, creates a plant, mints a token and revokes it.
func TestWorkInBrowser(t *testing.T) {
	t.Parallel()
	h := start(t, stored(1, "Rosa canina", plant.Tagged("shrub")), stored(2, "Quercus robur", plant.Tag{}))
	b := startBrowser(t, h)
	b.signIn()
	b.open("/plants")
	b.do(chromedp.SendKeys(chromedp.CSS("#name"), "QUERC"))
	b.await(`document.querySelectorAll("tbody tr").length === 1 && document.body.innerText.includes("1 found")`)
	b.await(`document.querySelector("a[download]").href.endsWith("/plants/export?format=csv&name=QUERC&tag=") &&
		location.search === "?name=QUERC&tag="`)
	b.open("/plants/new")
	b.do(
		chromedp.SendKeys(chromedp.CSS("#id"), "9223372036854775807"), chromedp.SendKeys(chromedp.CSS("#name"), "ورد"),
		chromedp.Click(chromedp.CSS("main button")),
	)
	b.await(`location.pathname === "/plants/9223372036854775807"`)
	b.await(`document.body.innerText.includes("The plant is stored.")`)
	b.open("/credentials")
	b.do(chromedp.SendKeys(chromedp.CSS("#name"), "web-shop"), chromedp.Click(chromedp.CSS("main form button")))
	b.await(`document.querySelector("#secret") !== null`)
	secret := evaluate[string](b, `document.querySelector("#secret").textContent`)
	p, err := h.store.Authenticate(t.Context(), secret)
	if err != nil || p.Name != "web-shop" || p.Scopes != auth.ScopeCreate {
		t.Fatalf("the new token: got %v, %v", p, err)
	}
	b.open("/credentials")
	if evaluate[bool](b, `document.body.innerText.includes("`+secret+`")`) {
		t.Error("the secret is shown again")
	}
	// Escape and Cancel close a dialog without a change.
	const opened = `document.querySelector("dialog:modal") !== null`
	for _, key := range []string{kb.Escape, "\r"} { // the focus is on Cancel
		b.do(chromedp.Click(chromedp.CSS(`button[aria-label="Revoke web-shop"]`)))
		b.await(opened + ` && document.activeElement.textContent === "Cancel"`)
		b.do(chromedp.KeyEvent(key))
		b.await("!(" + opened + ")")
	}
	b.do(
		chromedp.Click(chromedp.CSS(`button[aria-label="Revoke web-shop"]`)),
		chromedp.Click(chromedp.CSS(`dialog[open] button.danger`)),
	)
	b.await(`document.body.innerText.includes("The credential is revoked.")`)
	h.awaitInvalid(secret)
	b.open("/settings")
	b.do(chromedp.SendKeys(chromedp.CSS("#filter"), "BACKUP default"))
	b.await(`[...document.querySelectorAll("tbody tr")].filter(r => r.checkVisibility()).map(r => r.id).join() ===
		"backup-every"`)
	b.await(`!document.getElementById("changed").checkVisibility()`)
	b.open("/plants")
	b.do(chromedp.Click(chromedp.CSS(".more summary")))
	b.await(`document.querySelector(".more a").checkVisibility()`)
	b.do(chromedp.KeyEvent(kb.Escape))
	b.await(`!document.querySelector(".more").open`)
	b.check("work")
}

// The overview returns to the sign-in page after a revocation, without a request of the user.
func TestRevocationInBrowser(t *testing.T) {
	t.Parallel()
	h := start(t)
	b := startBrowser(t, h)
	b.open("/sign-in")
	b.do(chromedp.SendKeys(chromedp.CSS("#credential"), h.admin), chromedp.Click(chromedp.CSS("main button")))
	b.await(`document.querySelector(".hero") !== null`)
	h.revoke(store.Selector{Name: "operator"})
	b.await(`location.pathname === "/sign-in"`)
}
