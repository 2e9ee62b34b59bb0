package server_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"plantstore/internal/server/browsertest"
)

// In Chromium, the page of the API document fits a screen of 360 px, logs no error
// and sends no request to another host.
func TestDocsPageInBrowser(t *testing.T) {
	t.Parallel()
	h := start(t)
	b := startBrowser(t)
	for _, width := range []int64{360, 1280} {
		if err := chromedp.Do(b.ctx,
			chromedp.EmulateViewport(width, 800),
			chromedp.Navigate("http://"+h.public+"/docs"),
			chromedp.WaitVisible(chromedp.CSS("#schema-Error table")),
		); err != nil {
			t.Fatalf("%d px: %v", width, err)
		}
		evaluate[int](t, b, expandExamples)
		if got := evaluate[int64](t, b, "document.documentElement.scrollWidth"); got > width {
			t.Errorf(
				"%d px: the page is %d px wide, by %s", width, got,
				strings.Join(evaluate[[]string](t, b, widerThanPage), ", "),
			)
		}
		if missing := evaluate[[]string](t, b, withoutTarget); len(missing) > 0 {
			t.Errorf("%d px: the links %q have no target", width, missing)
		}
		if got := evaluate[string](t, b, "getComputedStyle(document.querySelector('.card')).borderTopStyle"); got != "solid" {
			t.Errorf("%d px: the style sheet has no effect", width)
		}
	}
	b.check(t, h.public)
}

// expandExamples expands all examples.
const expandExamples = `document.querySelectorAll("details").forEach(d => { d.open = true }), 1`

// withoutTarget returns the links within the page whose target is not one element.
const withoutTarget = `[...document.querySelectorAll("a[href^='#']")].map(a => a.getAttribute("href").slice(1))
	.filter(id => document.querySelectorAll("[id='" + id + "']").length !== 1)`

// widerThanPage returns the elements that are wider than the page.
const widerThanPage = `[...document.querySelectorAll("body *")]
	.filter(e => e.getBoundingClientRect().right > window.innerWidth + 0.5)
	.slice(0, 20).map(e => e.tagName.toLowerCase() + "." + e.className)`

func evaluate[T any](t *testing.T, b *browser, expression string) T {
	t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// browser is a Chromium with one page.
type browser struct {
	ctx context.Context // of chromedp; ends with the test

	mu     sync.Mutex
	hosts  []string // of the requests; guarded by mu
	errors []string // from the log of the browser; guarded by mu
}

// startBrowser starts Chromium. Without Chromium the test fails if CI=true, and is
// skipped otherwise.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatal(err)
	} else if err != nil {
		t.Skip("this test requires Chromium:", err)
	}
	ctx, stop, err := browsertest.Start(t.Context(), program, 3*wait)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	b := &browser{ctx: ctx}
	if err := chromedp.Listen(ctx, b.record); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, log.Enable, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
	return b
}

// record records an event of the page. chromedp calls it for each event.
func (b *browser) record(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		u, err := url.Parse(e.Request.URL)
		if err == nil && u.Scheme != "data" && !slices.Contains(b.hosts, u.Host) {
			b.hosts = append(b.hosts, u.Host)
		}
	case *log.EventEntryAdded:
		b.errors = append(b.errors, fmt.Sprintf("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL))
	}
}

// check fails the test if the page sent a request to another host or the browser
// logged anything.
func (b *browser) check(t *testing.T, host string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.hosts) != 1 || b.hosts[0] != host {
		t.Errorf("the page sent requests to %q, want only %q", b.hosts, host)
	}
	if len(b.errors) > 0 {
		t.Errorf("the browser logged %q", b.errors)
	}
}
