package console_test

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/server/browsertest"
	"plantstore/internal/store"
	"plantstore/internal/webhook"
)

// layoutWidths are the widths of windows in px: phones, tablets, halves of a screen, and screens.
var layoutWidths = []int64{360, 768, 900, 1024, 1280, 1440, 1920}

// startFull starts a server with long names, addresses and reasons on every page, as real ones are.
func startFull(t *testing.T) *harness {
	t.Helper()
	now := time.Now()
	h := start(t)
	h.mint("greenhouse_scanner_north_wing_2026", auth.ScopeCreate)
	plants := []store.Create{
		stored(1, "Rosa canina", plantTag("shrub")),
		stored(math.MinInt64, "Rosa × damascena 'Duchesse d’Angoulême', container grown, third year", plantTag("shrub")),
		stored(math.MaxInt64, "Rhododendron catawbiense", plantTag("shade-tolerant groundcover for north slopes")),
	}
	for i := range 55 {
		named := nurseryPlants[i%len(nurseryPlants)]
		p := stored(int64(4_000_000_000_000_000_000+i), fmt.Sprintf("%s, tray %d", named[0], i), plant.Tagged(named[1]))
		p.At, p.By = now.Add(-time.Duration(i*i)*time.Minute), int64(1+i%2)
		plants = append(plants, p)
	}
	if _, err := h.engine.Insert(t.Context(), plants); err != nil {
		t.Fatal(err)
	}
	scopes := []auth.Scopes{
		auth.ScopeCreate, auth.ScopeCreate | auth.ScopeRead, auth.ScopeMetrics,
		auth.ScopeAdmin | auth.ScopeRead | auth.ScopeCreate | auth.ScopeMetrics,
	}
	names := []string{
		"web-shop", "greenhouse_scanner_north_wing", "production-inventory-synchronisation-service-frankfurt",
	}
	for i := range 45 {
		h.create(auth.Token{
			Name: fmt.Sprintf("%s-%d", names[i%3], i), Hash: auth.HashOf(auth.Mint()), Scopes: scopes[i%len(scopes)],
			CreatedAt: now, ExpiresAt: now.Add(time.Duration(i) * 24 * time.Hour),
		})
	}
	receivers := []string{
		"https://shop.example/events",
		"https://inventory-and-label-printing.garden-centre-north.example/api/v2/integrations/plantstore/created?key=secret",
		"https://hooks.analytics-warehouse.internal.example:8443/ingest/0a1b2c3d4e5f60718293a4b5c6d7e8f9/plants",
		"http://[2001:db8:85a3:8d3:1319:8a2e:370:7348]:8080/plants",
		"https://new.example/",
	}
	h.deadLetters(receivers, 900_000, "status 503", "not delivered within 3 days", "unexpected EOF of the response body",
		"lookup hooks.analytics-warehouse.internal.example: no such host")
	h.deliveries = map[int64]webhook.Status{
		1: {Address: receivers[0], DeliveredAt: now.Add(-20 * time.Second)},
		2: {
			Address: strings.TrimSuffix(receivers[1], "?key=secret"), DeliveredAt: now.Add(-2 * time.Hour), FailedAt: now,
			Reason: "status 503", Failures: 1234, PausedUntil: now.Add(15 * time.Minute), Dead: 4,
		},
		3: {
			Address: receivers[2], DeliveredAt: now.Add(-50 * time.Hour), FailedAt: now, Failures: 1,
			Reason: "tls: failed to verify certificate: x509: certificate has expired or is not yet valid",
		},
		4: {Address: receivers[3], DeliveredAt: now.Add(-90 * 24 * time.Hour), Gone: true},
	}
	c := h.signIn(h.admin)
	for range 3 {
		c.post("/backups/start", url.Values{})
		h.awaitJobs()
	}
	list, err := h.backups.List(t.Context())
	if err != nil || len(list) < 3 {
		t.Fatalf("got %d backups, %v", len(list), err)
	}
	err = os.Truncate(list[0].Location, list[0].Bytes/2)
	damaged, err2 := os.ReadFile(list[1].Location)
	copy(damaged[len(damaged)/2:], "damaged")
	if err = errors.Join(err, err2, os.WriteFile(list[1].Location, damaged, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, operation := range []string{"verify", "drill"} {
		for _, b := range list[1:] {
			c.post("/backups/"+operation, url.Values{"name": {b.Name}})
			h.awaitJobs()
		}
	}
	c.post("/sign-in", url.Values{"credential": {"wrong"}})
	h.console.AddDay()
	h.console.AddSample(0.01)
	return h
}

// fullPages are the pages of the console, with a script that fills in the ones that start empty.
func (b *browser) fullPages() (pages []fullPage) {
	for _, path := range consolePages {
		pages = append(pages, fullPage{path: path})
	}
	return append(pages,
		fullPage{path: "/plants?tag=shrub"},
		fullPage{path: "/plants/9223372036854775807"},
		fullPage{path: "/credentials/2/erase?since=2026-01-01T00:00:00"},
		fullPage{"/plants", func() {
			b.Do(chromedp.SendKeys(chromedp.CSS("#name"), "tray"))
			b.Await(`/matches|found;/.test(document.querySelector("[data-progress]").textContent)`)
		}},
		fullPage{"/plants/new", func() {
			b.Do(chromedp.SendKeys(chromedp.CSS("#id"), "x"), chromedp.Click(chromedp.CSS("main button")))
			b.Await(`document.querySelector("#fault") !== null`)
		}},
		fullPage{"/credentials", func() {
			b.Do(
				chromedp.SendKeys(chromedp.CSS("#name"), "label-printing-service-of-the-northern-garden-centre"),
				chromedp.Click(chromedp.CSS("main form button")),
			)
			b.Await(`document.querySelector("#secret") !== null`)
		}},
		fullPage{"/import", func() {
			b.choose(plantsFile(b.t, "autumn-2026-propagation-and-container-stock-of-the-northern-nursery.csv", [][]string{
				{"60001", "Sorbus aucuparia", "tree"},
				{"9223372036854775807", "Rhododendron catawbiense 'Boursault'", "shrub"},
				{"x-17", "Fuchsia magellanica", "shrub"},
			}))
		}},
		fullPage{"", b.checkColumns},
		fullPage{"", func() {
			b.startImport()
			b.Await(`document.querySelector(".head .state") !== null`)
		}},
		fullPage{path: "/import"},
	)
}

// fullPage is a page, and what fills it in after it is open.
type fullPage struct {
	path string // empty: the page before leads to this one
	do   func()
}

// TestLayout shows that no page cuts an element, breaks a word, wraps a pill or a button, or scrolls sideways, at any
// width of a window, with its panels and dialogs open too.
func TestLayout(t *testing.T) {
	t.Parallel()
	h := startFull(t)
	b := startBrowser(t, h)
	check, err := os.ReadFile("testdata/layout.js")
	if err != nil {
		t.Fatal(err)
	}
	b.open("/sign-in")
	b.checkLayout("/sign-in", string(check))
	b.signIn()
	for _, page := range b.fullPages() {
		if page.path != "" {
			b.open(page.path)
		}
		if page.do != nil {
			page.do()
		}
		const isError = `document.querySelector(".error-page") !== null`
		if page.path != "/plants/999999" && browsertest.Evaluate[bool](b.Page, isError) {
			t.Errorf("%s is an error", page.path)
		}
		b.checkLayout(page.path, string(check))
	}
}

// checkLayout checks the open page at each width.
func (b *browser) checkLayout(page, check string) {
	b.t.Helper()
	const openAll = `[...document.querySelectorAll("details")].map(d => { d.open = true; }).length`
	const openDialog = `(i => {
		const kinds = [...document.querySelectorAll("dialog")].map(d => [d.querySelector("form").action, d]);
		const first = [...new Map(kinds).values()];
		first[i]?.showPopover();
		return first.length - i;
	})(%d)`
	for state := 0; ; state++ { // as the page is, with its panels open, and with each kind of dialog
		if state == 1 && browsertest.Evaluate[int](b.Page, openAll) == 0 {
			continue
		}
		if state > 1 && browsertest.Evaluate[int](b.Page, fmt.Sprintf(openDialog, state-2)) <= 0 {
			return
		}
		for _, width := range layoutWidths {
			b.Do(chromedp.EmulateViewport(width, 900))
			b.Await(fmt.Sprintf("innerWidth === %d", width))
			if faults := browsertest.Evaluate[[]string](b.Page, check); len(faults) > 0 {
				const most = 12
				b.t.Errorf("%s at %d px, state %d: %d faults\n\t%s", page, width, state, len(faults),
					strings.Join(faults[:min(most, len(faults))], "\n\t"))
			}
		}
	}
}

// TestMenuInBrowser opens the pages on a phone with the keyboard.
func TestMenuInBrowser(t *testing.T) {
	t.Parallel()
	h := start(t)
	b := startBrowser(t, h)
	b.Do(chromedp.EmulateViewport(360, 740))
	b.signIn()
	if browsertest.Evaluate[bool](b.Page, `document.querySelector(".bar nav").checkVisibility()`) {
		t.Error("the pages are visible without the menu")
	}
	b.Do(chromedp.Focus(chromedp.CSS(".menu summary")), chromedp.KeyEvent("\r"))
	b.Await(`document.querySelector(".menu").open`)
	for _, p := range browsertest.Evaluate[[]string](b.Page, `[...document.querySelectorAll(".bar nav a")].filter(a => {
		const box = a.getBoundingClientRect();
		return !a.checkVisibility() || box.bottom > innerHeight || box.right > innerWidth;
	}).map(a => a.href)`) {
		t.Errorf("%s is not visible in the menu", p)
	}
	b.Do(chromedp.Focus(chromedp.CSS(`.bar nav a[href="/webhooks"]`)), chromedp.KeyEvent("\r"))
	b.Await(`location.pathname === "/webhooks"`)
	b.check("menu")
}

// TestThemeInBrowser switches the theme. The choice stays on other pages and after the session, the server receives no
// cookie of it, and a choice that is the theme of the system follows the system.
func TestThemeInBrowser(t *testing.T) {
	t.Parallel()
	h := start(t)
	b := startBrowser(t, h)
	system := func(scheme string) {
		browsertest.Call(b.Page, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
	}
	const light, dark = "rgb(245, 244, 238)", "rgb(14, 21, 17)"
	want := func(colour string) {
		t.Helper()
		b.Await(`getComputedStyle(document.body).backgroundColor === "` + colour + `"`)
	}
	change := chromedp.Click(chromedp.CSS("[data-theme-switch]"))
	system("light")
	b.signIn()
	want(light)
	b.open("/settings") // the overview may load again
	b.Do(change)
	want(dark)
	b.open("/webhooks")
	want(dark)
	system("dark")
	want(dark)
	b.Do(change)
	want(light)
	b.open("/plants")
	want(light)
	b.Do(change)
	want(dark)
	system("light")
	want(light)
	if cookies := browsertest.Evaluate[string](b.Page, "document.cookie"); cookies != "" {
		t.Errorf("got the cookies %q", cookies)
	}
	b.check("theme")
	b.Do(change, chromedp.Click(chromedp.CSS(".who form button")))
	b.Await(`location.pathname === "/sign-in" && !document.querySelector("footer [data-theme-switch]").hidden`)
	want(dark)
}
