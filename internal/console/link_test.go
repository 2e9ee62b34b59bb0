package console_test

import (
	"net/http"
	"strings"
	"testing"
)

// navigation returns the headers of a browser that opens a page from a site.
func navigation(site string) http.Header {
	return http.Header{
		"Sec-Fetch-Site": {site}, "Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"document"},
		"Accept": {"text/html,application/xhtml+xml,*/*;q=0.8"},
	}
}

// A link on another site leads to every page, but to no download and no stream.
func TestLinksFromOtherSites(t *testing.T) {
	t.Parallel()
	h := start(t)
	c := &client{h: h}
	pages := 0
	for _, r := range h.routes {
		if r.Method != http.MethodGet || strings.HasPrefix(r.Path, "/static/") {
			continue
		}
		path := strings.NewReplacer("{id}", "1", "{name}", "none").Replace(r.Path)
		for _, site := range []string{"cross-site", "same-site"} {
			c.header = navigation(site)
			res := c.get(path + "?range=1h&name=%22a%22")
			kind := res.Header.Get("Content-Type")
			refresh := res.Header.Get("Refresh")
			switch {
			case r.AllowLinks && !r.Open:
				pages++
				want := "0; url=/continue?next=" + strings.ReplaceAll(path, "/", "%2F") + "%3Frange%3D1h%26name%3D%2522a%2522"
				if res.status != 200 || refresh != want || len(res.Cookies()) > 0 {
					t.Errorf("%s: got %d with %q, want %q", path, res.status, refresh, want)
				}
			case r.AllowLinks:
				if res.status == 403 {
					t.Errorf("%s: got 403", path)
				}
			case res.status != 403 || !strings.HasPrefix(kind, "text/html") ||
				!strings.Contains(res.body, "Error <code>40302</code>"):
				t.Errorf("%s: got %d %s, want a page with the error", path, res.status, kind)
			}
		}
	}
	if pages < 16 {
		t.Errorf("only %d pages", pages)
	}
}

// Everything but a plain link from another site is refused: frames, scripts, forms and images.
func TestNoOtherRequestsFromOtherSites(t *testing.T) {
	t.Parallel()
	h := start(t)
	c := h.signIn(h.admin)
	for name, change := range map[string]http.Header{
		"frame":      {"Sec-Fetch-Dest": {"iframe"}},
		"object":     {"Sec-Fetch-Dest": {"object"}},
		"script":     {"Sec-Fetch-Mode": {"no-cors"}, "Sec-Fetch-Dest": {"script"}},
		"fetch":      {"Sec-Fetch-Mode": {"cors"}, "Sec-Fetch-Dest": {"empty"}},
		"origin":     {"Origin": {"https://evil.example"}},
		"no dest":    {"Sec-Fetch-Dest": nil},
		"two dests":  {"Sec-Fetch-Dest": {"document", "iframe"}},
		"two modes":  {"Sec-Fetch-Mode": {"navigate", "cors"}},
		"upper case": {"Sec-Fetch-Mode": {"Navigate"}},
	} {
		c.header = navigation("cross-site")
		for key, value := range change {
			c.header[key] = value
		}
		for _, path := range []string{"/", "/sign-in", "/plants"} {
			if res := c.get(path); res.status != 403 || res.Header.Get("Refresh") != "" {
				t.Errorf("%s of %s: got %d", name, path, res.status)
			}
		}
	}
	c.header = navigation("cross-site")
	if res := c.do(http.MethodHead, "/", nil); res.status != 403 {
		t.Errorf("HEAD: got %d", res.status)
	}
}

// A browser receives a page for each error, and a program a JSON body.
func TestErrorPages(t *testing.T) {
	t.Parallel()
	h := start(t)
	for target, row := range map[string]struct {
		method, host string
		status       int
		text         string
	}{
		"/none":           {"GET", "", 404, "this path does not exist on the admin listener"},
		"/plants/1/2":     {"GET", "", 404, "this path does not exist on the admin listener"},
		"/settings":       {"POST", "", 405, "method must be GET or HEAD"},
		"/":               {"GET", "evil.example", 421, "Host must be the address of the admin listener"},
		"/credentials/x/": {"PUT", "", 404, "this path does not exist"},
	} {
		for _, page := range []bool{true, false} {
			c := &client{h: h, header: http.Header{"Accept": {"*/*"}}, host: row.host}
			kind := "application/json"
			if page {
				c.header = navigation("none")
			}
			if page || row.status == 405 {
				kind = "text/html; charset=utf-8"
			}
			res := c.do(row.method, target, nil)
			if got := res.Header.Get("Content-Type"); res.status != row.status || got != kind ||
				!strings.Contains(res.body, row.text) {
				t.Errorf("%s %s, page %t: got %d %s, %s", row.method, target, page, res.status, got, res.body)
			}
			if page && (!strings.Contains(res.body, `<a class="button" href="/">`) ||
				!strings.Contains(res.Header.Get("Content-Security-Policy"), "frame-ancestors 'none'")) {
				t.Errorf("%s: the page has %s", target, res.body)
			}
		}
	}
	c := &client{h: h, header: navigation("none")}
	if res := c.get("/api/v1/none"); res.Header.Get("Content-Type") != "application/json" {
		t.Errorf("an API: got %s", res.Header.Get("Content-Type"))
	}
}
