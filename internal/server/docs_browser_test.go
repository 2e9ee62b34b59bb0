package server_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"plantstore/internal/server/browsertest"
)

// In Chromium, the page of the API document fits a screen of 360 px, logs no error and sends no request to another
// host.
func TestDocsPageInBrowser(t *testing.T) {
	t.Parallel()
	h := start(t)
	b := browsertest.Open(t, 3*wait)
	for _, width := range []int64{360, 1280} {
		b.Do(
			chromedp.EmulateViewport(width, 800),
			chromedp.Navigate("http://"+h.public+"/docs"),
			chromedp.WaitVisible(chromedp.CSS("#schema-Error table")),
		)
		browsertest.Evaluate[int](b, expandExamples)
		if got := browsertest.Evaluate[int64](b, "document.documentElement.scrollWidth"); got > width {
			t.Errorf(
				"%d px: the page is %d px wide, by %s", width, got,
				strings.Join(browsertest.Evaluate[[]string](b, widerThanPage), ", "),
			)
		}
		if missing := browsertest.Evaluate[[]string](b, withoutTarget); len(missing) > 0 {
			t.Errorf("%d px: the links %q have no target", width, missing)
		}
		const border = "getComputedStyle(document.querySelector('.card')).borderTopStyle"
		if got := browsertest.Evaluate[string](b, border); got != "solid" {
			t.Errorf("%d px: the style sheet has no effect", width)
		}
	}
	b.Check("/docs", h.public)
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
