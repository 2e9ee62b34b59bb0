// Package browsertest opens pages in Chromium for tests.
package browsertest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// awaitMax is the longest time until a page is as expected.
const awaitMax = time.Minute

// Page is the page of a Chromium. Its methods fail the test.
type Page struct {
	Ctx context.Context // for chromedp; ends with the test

	t     testing.TB
	mu    sync.Mutex
	hosts map[string]bool // hosts of the requests; guarded by mu
	logs  []string        // what the browser logged; guarded by mu
	bytes float64         // that the page received; guarded by mu
}

// Open starts Chromium, which sends no requests of its own, with one page. It ends with the test, at the latest after
// timeMax. Without Chromium the test fails if CI is true, and is skipped elsewhere.
func Open(t testing.TB, timeMax time.Duration) *Page {
	t.Helper()
	program := Program(t)
	dir, err := os.MkdirTemp("/tmp", "browser") // TMPDIR may be too long for the path of a socket, 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // ignore the error: a process of the browser may still write files
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(program), chromedp.Headless, chromedp.UserDataDir(dir + "/profile"),
		chromedp.Env("HOME="+dir, "TMPDIR="+dir),
	}
	for _, flag := range []string{
		"no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "no-default-browser-check",
		"disable-background-networking", "disable-component-update", "disable-sync", "disable-dev-shm-usage",
		"disable-extensions", "disable-breakpad", "no-proxy-server", "hide-scrollbars",
	} {
		options = append(options, chromedp.Flag(flag, true))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), timeMax) // the cleanup closes the browser
	t.Cleanup(cancel)
	ctx, end := chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(end)
	ctx, _ = chromedp.NewContext(ctx)
	t.Cleanup(func() { _ = chromedp.Cancel(ctx) }) // waits for the process
	p := &Page{Ctx: ctx, t: t, hosts: map[string]bool{}}
	if err := chromedp.Listen(ctx, p.record); err != nil {
		t.Fatal(err)
	}
	Call(p, network.Enable, network.EnableParams{})
	Call(p, log.Enable, cdp.Empty{})
	return p
}

// Program returns the path of Chromium. Without it the test fails if CI is true, and is skipped elsewhere.
func Program(t testing.TB) string {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatal(err)
	} else if err != nil {
		t.Skip("this test requires Chromium:", err)
	}
	return program
}

// record records an event of the page. chromedp calls it for each event.
func (p *Page) record(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err == nil && u.Scheme != "data" {
			p.hosts[u.Host] = true
		}
	case *network.EventLoadingFinished:
		p.bytes += e.EncodedDataLength
	case *log.EventEntryAdded:
		p.logs = append(p.logs, fmt.Sprintf("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL))
	}
}

// Do performs actions.
func (p *Page) Do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.Ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

// Call calls a method of the protocol of the browser.
func Call[P, R any](p *Page, method cdp.Command[P, R], params P) R {
	p.t.Helper()
	result, err := chromedp.Call(p.Ctx, method, params)
	if err != nil {
		p.t.Fatal(err)
	}
	return result
}

// Evaluate returns the value of an expression in the page.
func Evaluate[T any](p *Page, expression string) T {
	p.t.Helper()
	value, err := chromedp.Run(p.Ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// Await waits until an expression is true for a whole document. A navigation ends an evaluation, so Await evaluates it
// again. Until the document is complete, the end of its load makes the browser forget the elements that chromedp has
// just found.
func (p *Page) Await(expression string) {
	p.t.Helper()
	for end := time.Now().Add(awaitMax); time.Now().Before(end); <-time.After(20 * time.Millisecond) {
		isTrue, err := chromedp.Run(p.Ctx,
			chromedp.Evaluate[bool](`document.readyState === "complete" && !!(`+expression+`)`))
		if err == nil && isTrue {
			return
		}
	}
	p.t.Fatalf("%s: not true; the page %s has %q", expression,
		Evaluate[string](p, "location.href"), Evaluate[string](p, "String(document.body?.innerText)"))
}

// Check fails the test if the browser has logged anything since the last call of Logs, or the page has sent a request
// to another host.
func (p *Page) Check(where, host string) {
	p.t.Helper()
	for _, text := range p.Logs() {
		p.t.Errorf("%s: the browser logged %s", where, text)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for other := range p.hosts {
		if other != host {
			p.t.Errorf("%s: the page sent a request to %s", where, other)
		}
	}
}

// Logs returns what the browser has logged since the last call.
func (p *Page) Logs() (logs []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	logs, p.logs = p.logs, nil
	return logs
}

// Received returns the bytes that the page has received since the last call.
func (p *Page) Received() (bytes float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	bytes, p.bytes = p.bytes, 0
	return bytes
}

// Screenshot writes an image of the page to the directory that an environment variable names; without it, nothing.
func (p *Page) Screenshot(variable, name string) {
	p.t.Helper()
	dir := os.Getenv(variable)
	if dir == "" {
		return
	}
	image, err := chromedp.Run(p.Ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), image, 0o600)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}
