package console_test

import (
	"bufio"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"plantstore/internal/console"
	"plantstore/internal/oidc/oidctest"
	"plantstore/internal/server/browsertest"
)

// startProvider installs oidc-provider from npm and starts it with a client of the console. It returns the issuer.
func startProvider(t *testing.T, redirect string) (issuer string) {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("npm is not installed; install the Debian packages nodejs and npm")
		}
		t.Skip("npm is not installed")
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../cmd/plantstore/testdata/provider")); err != nil {
		t.Fatal(err)
	}
	install := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), "node", "provider.js", "0", redirect)
	cmd.Dir = dir
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "http://") {
			return lines.Text()
		}
	}
	t.Fatalf("the provider ended: %v", lines.Err())
	return ""
}

// A person signs in with the pages of oidc-provider in a browser, comes back to the page that they wanted, creates a
// plant, and signs out. Another person has no access.
func TestSignInAtProviderInBrowser(t *testing.T) {
	t.Parallel()
	h := start(t)
	b := startBrowser(t, h)
	issuer := startProvider(t, console.RedirectURL(&url.URL{Scheme: "http", Host: h.host}))
	h.offerIssuer(t, issuer, oidctest.ClientSecret)
	host := strings.TrimPrefix(issuer, "http://")
	signIn := func(person string) {
		t.Helper()
		b.awaitMain("Sign in to the console " + signInForm + " or Sign in with " + host)
		b.Do(chromedp.Click(chromedp.CSS(`a[href*="/sign-in/oidc"]`)), chromedp.WaitVisible(chromedp.CSS("[name=login]")))
		if at := browsertest.Evaluate[string](b.Page, "location.origin"); at != issuer {
			t.Errorf("the browser is at %s", at)
		}
		b.Do(
			chromedp.SendKeys(chromedp.CSS("[name=login]"), person),
			chromedp.SendKeys(chromedp.CSS("[name=password]"), "any"),
			chromedp.Click(chromedp.CSS("button[type=submit]")),
		)
		b.Await(`document.querySelector("[name=prompt]")?.value === "consent"`)
		b.Do(chromedp.Click(chromedp.CSS("button[type=submit]")))
	}
	b.open("/plants/new")
	signIn("flora")
	b.Await(`location.href === "http://` + h.host + `/plants/new" &&
		document.querySelector(".who").textContent.includes("Signed in as flora")`)
	b.Do(
		chromedp.SendKeys(chromedp.CSS("#id"), "3"), chromedp.SendKeys(chromedp.CSS("#name"), "Acer"),
		chromedp.Click(chromedp.CSS("main button")),
	)
	b.Await(`location.pathname === "/plants/3" && document.querySelector("main").innerText.includes("flora")`)
	b.Do(chromedp.Click(chromedp.CSS(`form[action="/sign-out"] button`)))
	b.Await(`location.pathname === "/sign-in"`)

	b.Do(chromedp.Navigate(issuer + "/session/end"))
	b.Await(`document.querySelector("button[name=logout]") !== null`)
	b.Do(chromedp.Click(chromedp.CSS("button[name=logout]")))
	b.Await(`location.pathname === "/session/end/success"`)
	b.open("/settings")
	signIn("visitor")
	b.Await(`location.pathname === "/sign-in/oidc/callback"`)
	b.awaitMain("Sign in to the console You are signed in at " + host + " as visitor, but that account has no access to " +
		"this console: " + host + " sent no value of the claim groups to which oidc-console-grants gives access. " +
		signInForm + " or Sign in with " + host)
}
