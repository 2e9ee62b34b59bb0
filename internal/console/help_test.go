package console_test

import (
	"regexp"
	"strings"
	"testing"

	"plantstore/internal/auth"
	"plantstore/internal/webhook"
)

// TestHelp shows that each runbook is a page, that a warning leads to its one, and that no link of a page is dead.
func TestHelp(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.deliveries = map[int64]webhook.Status{1: {Address: "https://shop.example/", Failures: 1, Reason: "status 503"}}
	c := h.signIn(h.admin)
	c.get("/").want(t, 200, `<a href="/help/events-late">What to do</a>`)
	list := c.get("/help")
	list.want(t, 200, `<a href="/help/wal-grows">WAL grows</a>`,
		`<a href="/help/backup-disk-too-small">Backup disk too small</a>`)
	target := regexp.MustCompile(`href="(/help/[^"]*)"`)
	pages := target.FindAllStringSubmatch(list.body, -1)
	if len(pages) < 20 {
		t.Errorf("got %d pages", len(pages))
	}
	for _, page := range pages {
		shown := c.get(page[1])
		shown.want(t, 200, "<h2>What to do now</h2>", `<pre tabindex="0">`)
		for _, l := range regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(shown.body, -1) {
			if l := l[1]; strings.Contains(l, ".md") || target.MatchString(`href="`+l+`"`) && c.get(l).status != 200 {
				t.Errorf("%s has the dead link %s", page[1], l)
			}
		}
	}
	c.get("/help/disk-fills").want(t, 200, "Free a full disk (docs/how-to/free-a-full-disk.md)",
		`<a href="/help/wal-grows">`)
	for _, id := range []string{"none", "..%2Frunbooks.go", "runbooks.go", "x%2Fdown"} {
		if got := c.get("/help/" + id); got.status == 200 {
			t.Errorf("%s: got %d", id, got.status)
		}
	}
	h.signIn(h.mint("reader", auth.ScopeRead)).get("/help/down").want(t, 403)
}
