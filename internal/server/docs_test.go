package server_test

import (
	"bytes"
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

func TestDocsPage(t *testing.T) {
	t.Parallel()
	handlers, err := server.NewDocs("/store")
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	for path, handler := range handlers {
		mux.Handle("GET /store"+path, handler)
	}
	page := get(mux, "/store/docs", nil)
	if got, want := page.Header().Get("Content-Type"), "text/html; charset=utf-8"; got != want {
		t.Errorf("page: Content-Type: got %q, want %q", got, want)
	}
	text := page.Body.Bytes()
	if slashed := get(mux, "/store/docs/", nil).Body.Bytes(); !bytes.Equal(text, slashed) {
		t.Error("the page with a final slash differs")
	}
	links := regexp.MustCompile(`(?:src|href|data-document)="([^"]*)"`).FindAllSubmatch(text, -1)
	if len(links) < 5 {
		t.Fatalf("got %d links in the page, want at least 5", len(links))
	}
	for _, link := range links {
		path := string(link[1])
		if strings.HasPrefix(path, "/store/openapi.") {
			continue // not a file of newDocs
		}
		if res := get(mux, path, nil); res.Code != http.StatusOK {
			t.Errorf("%s: got status %d", path, res.Code)
		}
	}
	for _, own := range [][]byte{text, get(mux, "/store/docs/start.js", nil).Body.Bytes()} {
		if bytes.Contains(own, []byte("//")) {
			t.Errorf("found a URL of another host in:\n%s", own)
		}
	}
	if inline := regexp.MustCompile(`<script>|<style|\son[a-z]+=|\sstyle=`).Find(text); inline != nil {
		t.Errorf("the page has inline %q, which its Content-Security-Policy forbids", inline)
	}
}

func TestDocsFiles(t *testing.T) {
	t.Parallel()
	handlers, err := server.NewDocs("")
	if err != nil {
		t.Fatal(err)
	}
	for path, handler := range handlers {
		plain := get(handler, strings.TrimSuffix(path, "{$}"), nil)
		content := plain.Body.Bytes()
		if len(content) == 0 || plain.Header().Get("Content-Length") != strconv.Itoa(len(content)) {
			t.Errorf("%s: %d bytes, Content-Length %s", path, len(content), plain.Header().Get("Content-Length"))
		}
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; " +
				"img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
			"X-Content-Type-Options": "nosniff",
			"Referrer-Policy":        "no-referrer",
			"Content-Encoding":       "",
		} {
			if got := plain.Header().Get(name); got != want {
				t.Errorf("%s: %s: got %q, want %q", path, name, got, want)
			}
		}
		checkGzip(t, path, handler, content)
	}
}

// checkGzip checks that the compressed file has the same content, and that the ETag of
// each coding gives 304.
func checkGzip(t *testing.T, path string, handler http.Handler, plain []byte) {
	t.Helper()
	for accept, zips := range map[string]bool{
		"gzip": true, "br, GZIP;q=0.5": true, "gzip;q=0": false, "gzip; q=0.000, br": false, "br": false, "": false,
	} {
		res := get(handler, path, http.Header{"Accept-Encoding": {accept}})
		etag, content := res.Header().Get("ETag"), res.Body.Bytes()
		if res.Header().Get("Content-Encoding") == "gzip" {
			if !zips {
				t.Errorf("%s: compressed for Accept-Encoding %q", path, accept)
			}
			reader, err := gzip.NewReader(bytes.NewReader(content))
			if err != nil {
				t.Fatal(err)
			}
			if content, err = io.ReadAll(reader); err != nil {
				t.Fatal(err)
			}
		} else if zips && strings.Contains(path, "swagger-ui") {
			t.Errorf("%s: not compressed for Accept-Encoding %q", path, accept)
		}
		if !bytes.Equal(content, plain) {
			t.Errorf("%s: different content for Accept-Encoding %q", path, accept)
		}
		again := get(handler, path, http.Header{"Accept-Encoding": {accept}, "If-None-Match": {`"x", W/` + etag}})
		if again.Code != http.StatusNotModified || again.Body.Len() != 0 {
			t.Errorf("%s: got status %d for the current ETag, want 304 without a body", path, again.Code)
		}
	}
}

// get returns the response of a handler to a GET request.
func get(handler http.Handler, path string, header http.Header) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodGet, path, http.NoBody)
	for name, values := range header {
		req.Header[name] = values
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, req)
	return recorder
}
