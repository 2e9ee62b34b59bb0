package server_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"plantstore/internal/server"
)

// The page of the API document has both paths, and every file that it names exists.
func TestDocsPage(t *testing.T) {
	t.Parallel()
	h := start(t, func(s *setup) { s.prefix = "/a%20b" })
	page := h.send(message("GET /a%20b/docs HTTP/1.1", "", "-Authorization"))
	if got, want := page.Header.Get("Content-Type"), "text/html; charset=utf-8"; page.Status != 200 || got != want {
		t.Errorf("got %d %q, want 200 %q", page.Status, got, want)
	}
	if h.send(message("GET /a%20b/docs/ HTTP/1.1", "", "-Authorization")).Body != page.Body {
		t.Error("the page with a final slash differs")
	}
	links := regexp.MustCompile(`(?:src|href)="([^#"]+)"`).FindAllStringSubmatch(page.Body, -1)
	if len(links) != 4 {
		t.Errorf("got the links %q, want the style sheet, the icon and the two forms of the document", links)
	}
	for _, link := range links {
		if got := h.send(message("GET "+link[1]+" HTTP/1.1", "", "-Authorization")).Status; got != 200 {
			t.Errorf("%s: got status %d", link[1], got)
		}
	}
}

func TestStaticFile(t *testing.T) {
	t.Parallel()
	content := strings.Repeat("leaf ", 100)
	handle := server.StaticFile("text/css", []byte(content))
	for accept, zips := range map[string]bool{
		"gzip": true, "br, GZIP;q=0.5": true, "gzip;q=0": false, "gzip; q=0.000, br": false, "br": false, "": false,
	} {
		res := getFile(t, handle, http.Header{"Accept-Encoding": {accept}})
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; " +
				"form-action 'none'; frame-ancestors 'none'",
			"Referrer-Policy": "no-referrer", "Cache-Control": "no-cache", "Content-Type": "text/css",
			"Content-Length": strconv.Itoa(res.Body.Len()), "Vary": "Accept-Encoding",
		} {
			if got := res.Header().Get(name); got != want {
				t.Errorf("%q: %s: got %q, want %q", accept, name, got, want)
			}
		}
		if got := res.Header().Get("Content-Encoding") == "gzip"; got != zips {
			t.Errorf("%q: compressed: got %t, want %t", accept, got, zips)
		}
		body, etag := io.Reader(res.Body), res.Header().Get("ETag")
		if zips {
			unzipped, err := gzip.NewReader(body)
			if err != nil {
				t.Fatal(err)
			}
			body = unzipped
		}
		if got, err := io.ReadAll(body); string(got) != content || err != nil {
			t.Errorf("%q: got %q, %v", accept, got, err)
		}
		again := getFile(t, handle, http.Header{"Accept-Encoding": {accept}, "If-None-Match": {`"x", W/` + etag}})
		if again.Code != http.StatusNotModified || again.Body.Len() != 0 || again.Header().Get("Content-Encoding") != "" {
			t.Errorf("%q: got %d %v for the current ETag, want 304 without a body", accept, again.Code, again.Header())
		}
	}
}

// getFile returns the response of a static file.
func getFile(t *testing.T, handle server.HandlerFunc, header http.Header) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.Header = header
	recorder := httptest.NewRecorder()
	if err := handle(&server.Call{Request: r, ResponseWriter: recorder}); err != nil {
		t.Fatal(err)
	}
	return recorder
}
