package console_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"plantstore/internal/plant"
	"plantstore/internal/server/browsertest"
	"plantstore/internal/store"
)

// main returns the text of the page, with a space between its parts.
func (b *browser) main() string {
	b.t.Helper()
	return browsertest.Evaluate[string](b.Page, `document.querySelector("main").innerText.split(/\s+/).join(" ").trim()`)
}

// awaitMain waits until a complete page has this text: the elements of a page that is loading may be replaced.
func (b *browser) awaitMain(want string) {
	b.t.Helper()
	for end := time.Now().Add(wait); time.Now().Before(end); <-time.After(20 * time.Millisecond) {
		text, err := chromedp.Run(b.Ctx, chromedp.Evaluate[string](
			`document.readyState === "complete" ? document.querySelector("main").innerText.split(/\s+/).join(" ").trim() : ""`))
		if err == nil && text == want {
			return
		}
	}
	b.t.Fatalf("the page has %q, want %q", b.main(), want)
}

const (
	signInForm = "Token or sign-in code A token with the scope admin or plants:read. Without one, run plantstore " +
		"console on the server and open the link that it prints. Sign in"
	badCode = "Sign in to the console This token or code is not valid. A code works once, for 15 minutes; " +
		"run plantstore console on the server for another one. " + signInForm
	endedSession = "Sign in to the console Your session has ended. Sign in again. " + signInForm
	codeLink     = "Sign in to the console This link signs you in once. It does not work a second time. Sign in"
)

// clickIfThere clicks an element of the page. A page whose session has ended may have led to the sign-in by itself.
func (b *browser) clickIfThere(selector string) {
	b.t.Helper()
	b.Do(chromedp.Evaluate[chromedp.Void]("void document.querySelector(`" + selector + "`)?.click()"))
}

// A wrong, used or expired code has a page with the reason and the remedy, and the next sign-in leads to the page that
// the person wanted.
func TestBadCodesInBrowser(t *testing.T) {
	t.Parallel()
	h := start(t)
	b := startBrowser(t, h)
	b.open("/settings")
	b.awaitMain("Sign in to the console " + signInForm)
	b.Do(chromedp.SendKeys(chromedp.CSS("#credential"), "rosa-canina"), chromedp.Click(chromedp.CSS("main button")))
	b.awaitMain(badCode)
	b.Await(`document.activeElement.id === "credential"`)

	used := h.code(time.Now())
	h.signIn(used)
	for _, code := range []string{used, h.code(time.Now().Add(-16 * time.Minute))} {
		b.open("/sign-in?next=/settings&code=" + code)
		b.awaitMain(codeLink)
		b.Do(chromedp.Click(chromedp.CSS("main button")))
		b.awaitMain(badCode)
	}
	b.Do(chromedp.SendKeys(chromedp.CSS("#credential"), h.code(time.Now())), chromedp.Click(chromedp.CSS("main button")))
	b.Await(`location.pathname === "/settings" && document.querySelector("h1").innerText === "Settings"`)
}

// A session ends after 12 hours. A page without input leads to the sign-in by itself, and from there back to where it
// was.
func TestExpiredSessionInBrowser(t *testing.T) {
	t.Parallel()
	h := start(t)
	b := startBrowser(t, h)
	b.signIn()
	b.open("/audit")
	b.Await(`document.querySelector("h1").innerText === "Audit log"`)
	h.console.SetClock(func() time.Time { return time.Now().Add(12*time.Hour + time.Second) })
	b.clickIfThere(`nav a[href="/settings"]`)
	b.awaitMain(endedSession)
	b.Do(chromedp.SendKeys(chromedp.CSS("#credential"), h.admin), chromedp.Click(chromedp.CSS("main button")))
	b.Await(`location.pathname === "/settings" && document.querySelector("h1").innerText === "Settings"`)

	b.open("/audit")
	h.console.SetClock(func() time.Time { return time.Now().Add(25 * time.Hour) })
	b.awaitMain(endedSession)
	if next := browsertest.Evaluate[string](b.Page, `document.querySelector("[name=next]").value`); next != "/audit" {
		t.Errorf("the next page is %q", next)
	}
}

// After a revocation, the next click leads to the sign-in page.
func TestClickAfterRevocationInBrowser(t *testing.T) {
	t.Parallel()
	h := start(t)
	b := startBrowser(t, h)
	b.open("/sign-in?next=/settings")
	b.Do(chromedp.SendKeys(chromedp.CSS("#credential"), h.admin), chromedp.Click(chromedp.CSS("main button")))
	b.Await(`location.pathname === "/settings"`)
	h.revoke(store.Selector{Name: "operator"})
	h.awaitInvalid(h.admin)
	b.clickIfThere(`nav a[href="/backups"]`)
	b.awaitMain(endedSession)
}

// A person follows a link in a mail or a dashboard on another site: with a session to the page, else to the sign-in
// page and then to the page.
func TestLinkFromOtherSiteInBrowser(t *testing.T) {
	t.Parallel()
	h := start(t, stored(1, "Rosa canina", plant.Tagged("shrub")))
	b := startBrowser(t, h)
	mail := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<body><a id="plant" href="http://` + h.host + `/plants/1">a plant</a>
<a id="file" href="http://` + h.host + `/plants/export?format=csv">a file</a>
<form method="post" action="http://` + h.host + `/sign-out"><button>a form</button></form></body>`))
	}))
	defer mail.Close()
	u, err := url.Parse(mail.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = "localhost:" + u.Port() // another site than 127.0.0.1
	follow := func(selector string) {
		t.Helper()
		b.Do(chromedp.Navigate(u.String()), chromedp.Click(chromedp.CSS(selector)))
	}
	follow("#plant")
	b.awaitMain("Sign in to the console " + signInForm)
	b.Do(chromedp.SendKeys(chromedp.CSS("#credential"), h.admin), chromedp.Click(chromedp.CSS("main button")))
	b.Await(`location.pathname === "/plants/1" && document.body.innerText.includes("Rosa canina")`)
	follow("#plant")
	b.Await(`location.href === "http://` + h.host + `/plants/1" && document.body.innerText.includes("Rosa canina")`)
	for _, selector := range []string{"#file", "button"} {
		follow(selector)
		b.Await(`location.host === "` + h.host + `"`)
		const refused = "403 Forbidden Sec-Fetch-Site must be same-origin or none; got \"cross-site\" Error 40302, request "
		if text := b.main(); !strings.HasPrefix(text, refused) || !strings.HasSuffix(text, " Go to the console") {
			t.Errorf("%s: the page has %q", selector, text)
		}
	}
	b.open("/") // the sign-out of the other site had no effect
	b.Await(`document.querySelector(".hero") !== null`)
	b.open("/none")
	if text := b.main(); !strings.HasPrefix(text, "404 Not Found this path does not exist on the admin listener") {
		t.Errorf("an unknown path: the page has %q", text)
	}
}

const (
	lostText = "The server does not respond. Your input stays here, and the page continues when the server responds."
	goneText = "Your session has ended. Your input stays here: sign in again in another tab, and the page continues. " +
		"Sign in"
)

// connection returns an expression that is true if the page has a text about the connection.
func connection(text string) string {
	return `document.querySelector("[data-connection]").textContent === "` + text + `"`
}

// The server goes away while a person types. The page says so, keeps the input, and sends the form once when the server
// is back.
func TestServerReturnsInBrowser(t *testing.T) {
	t.Parallel()
	h := start(t)
	g := startGate(t, h)
	b := startBrowser(t, h)
	b.signIn()
	b.open("/plants/new")
	b.Do(chromedp.SendKeys(chromedp.CSS("#id"), "7"))
	g.lock()
	b.Do(chromedp.SendKeys(chromedp.CSS("#name"), "Rosa gallica"), chromedp.Click(chromedp.CSS("main button")))
	b.Await(connection(lostText))
	b.Do(chromedp.Click(chromedp.CSS("main button"))) // again: it must not be sent twice
	b.Await(connection(lostText) + ` && document.querySelector("#name").value === "Rosa gallica"`)
	g.unlock()
	b.Await(`location.pathname === "/plants/7" && document.body.innerText.includes("The plant is stored.")`)

	b.open("/plants")
	g.lock()
	b.Do(chromedp.SendKeys(chromedp.CSS("#name"), "gallica"))
	b.Await(`document.body.innerText.includes("It starts again when the server responds.")`)
	b.Await(connection(lostText))
	g.unlock()
	b.Await(`document.body.innerText.includes("1 found") && document.querySelector("#name").value === "gallica"`)
	b.Await(connection(""))

	b.open("/audit")
	g.lock()
	b.Await(connection(lostText)) // without input
	b.Do(chromedp.Click(chromedp.CSS(`nav a[href="/settings"]`)))
	g.unlock()
	b.Await(`location.pathname === "/settings" && document.querySelector("h1").innerText === "Settings"`)
}

// The server restarts while a person types, so the session has ended. The page keeps the input, and sends it after a
// sign-in in another tab.
func TestRestartKeepsInputInBrowser(t *testing.T) {
	t.Parallel()
	h := start(t)
	g := startGate(t, h)
	b := startBrowser(t, h)
	b.signIn()
	b.open("/plants/new")
	b.Do(chromedp.SendKeys(chromedp.CSS("#id"), "8"), chromedp.SendKeys(chromedp.CSS("#name"), "Acer"))
	g.lock()
	b.Await(connection(lostText))
	h.console.EndSessions()
	g.unlock()
	b.Await(connection(goneText))
	b.Do(chromedp.Click(chromedp.CSS("main button")))
	b.Await(connection(goneText) + ` && document.querySelector("#name").value === "Acer"`)
	// The other tab shares the cookies.
	b.Do(chromedp.Evaluate[chromedp.Void](`void fetch("/sign-in", {method: "POST", redirect: "manual",
		body: new URLSearchParams({credential: "` + h.admin + `"})})`))
	b.Await(`location.pathname === "/plants/8" && document.body.innerText.includes("The plant is stored.")`)
}

// The overview goes on by itself.
func TestOverviewReturnsInBrowser(t *testing.T) {
	t.Parallel()
	h := start(t)
	g := startGate(t, h)
	b := startBrowser(t, h)
	b.signIn()
	g.lock()
	b.Await(`document.querySelector(".state").innerText.includes("The server does not respond")`)
	b.Await(connection(lostText))
	g.unlock()
	b.Await(`document.querySelector(".state").innerText === "Needs attention" && ` + connection(""))
}
