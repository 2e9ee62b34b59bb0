package server

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"sync"

	swaggerui "github.com/swaggest/swgui/v5/static"
)

// NewDocs returns the page on which people read the API document, and the
// files that it needs, by their path below the base URL as a ServeMux pattern
// without its method, which is GET. The page is the same with and without a
// slash at its end. prefix is the path of the base URL, without a slash at its
// end.
//
// The page is Swagger UI. Of the module swgui only the files are used, not its
// page, whose inline scripts would have to be allowed. So nothing but files of
// this program can run, and nothing is asked of another host.
func NewDocs(prefix string) (map[string]http.Handler, error) {
	var page bytes.Buffer
	if err := docsPage.Execute(&page, prefix); err != nil {
		return nil, fmt.Errorf("write the page of the API document: %w", err)
	}
	index := newDocsFile("text/html; charset=utf-8", page.Bytes())
	handlers := map[string]http.Handler{
		"/docs":          index,
		"/docs/{$}":      index,
		"/docs/docs.css": newDocsFile("text/css; charset=utf-8", []byte(docsStyle)),
		"/docs/start.js": newDocsFile("text/javascript; charset=utf-8", []byte(docsStart)),
	}
	for _, asset := range []struct{ name, embedded, contentType string }{
		{"swagger-ui.css", "swagger-ui.css.gz", "text/css; charset=utf-8"},
		{"swagger-ui-bundle.js", "swagger-ui-bundle.js.gz", "text/javascript; charset=utf-8"},
		{"favicon-32x32.png", "favicon-32x32.png", "image/png"},
	} {
		content, err := fs.ReadFile(swaggerui.FS, asset.embedded)
		if err != nil {
			return nil, fmt.Errorf("read %s of Swagger UI: %w", asset.embedded, err)
		}
		file := newDocsFile(asset.contentType, content)
		if strings.HasSuffix(asset.embedded, ".gz") {
			file.gzipped, file.plain = content, sync.OnceValue(func() []byte { return gunzip(content) })
		}
		handlers["/docs/"+asset.name] = file
	}
	return handlers, nil
}

// docsSecurity is the Content-Security-Policy of the page: scripts and styles
// are files of this program, nothing inline and nothing evaluated, requests go
// to this host alone, and the images in the style sheet are data URLs.
const docsSecurity = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

var docsPage = template.Must(template.New("docs").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Plant Store API</title>
<link rel="icon" type="image/png" href="{{.}}/docs/favicon-32x32.png">
<link rel="stylesheet" href="{{.}}/docs/swagger-ui.css">
<link rel="stylesheet" href="{{.}}/docs/docs.css">
<script src="{{.}}/docs/swagger-ui-bundle.js" defer></script>
<script src="{{.}}/docs/start.js" defer></script>
</head>
<body>
<div id="docs" data-document="{{.}}/openapi.json"></div>
<noscript><p>This page needs JavaScript. The same document is a file:
<a href="{{.}}/openapi.yaml">openapi.yaml</a>, <a href="{{.}}/openapi.json">openapi.json</a>.</p></noscript>
</body>
</html>
`))

// docsStyle makes the page fit a telephone. Swagger UI lays responses out as a
// table, whose columns need 425 px; the document has no links, so their column
// is empty.
const docsStyle = `.swagger-ui .responses-table tr > .response-col_links { display: none; }
@media (max-width: 640px) {
  .swagger-ui .wrapper, .swagger-ui .opblock-section-header, .swagger-ui .opblock-description-wrapper,
  .swagger-ui .table-container, .swagger-ui .responses-inner { padding-left: 8px; padding-right: 8px; }
  .swagger-ui .responses-table > thead { display: none; }
  .swagger-ui .responses-table, .swagger-ui .responses-table > tbody, .swagger-ui .responses-table > tbody > tr,
  .swagger-ui .responses-table > tbody > tr > td { display: block; width: auto; }
  .swagger-ui .responses-table > tbody > tr > td { padding: 4px 0; }
  .swagger-ui .responses-table > tbody > tr > .response-col_links { display: none; }
  .swagger-ui .response-col_status { font-weight: bold; }
  .swagger-ui .response-controls { flex-wrap: wrap; }
  .swagger-ui select { max-width: 100%; }
  .swagger-ui .markdown td, .swagger-ui .markdown th, .swagger-ui .headers td { padding-right: 6px; }
  .swagger-ui .models .json-schema-2020-12 { margin-left: 4px; margin-right: 4px; padding-left: 4px; padding-right: 4px; }
  .swagger-ui .models .json-schema-2020-12-body { margin-left: 4px; padding-left: 4px; overflow-wrap: break-word; }
}
`

// docsStart draws the page. validatorUrl null keeps Swagger UI from showing a
// badge of validator.swagger.io, which is the one thing it would fetch from
// another host.
const docsStart = `"use strict";
const place = document.getElementById("docs");
SwaggerUIBundle({
  domNode: place,
  url: place.dataset.document,
  validatorUrl: null,
  deepLinking: true,
  docExpansion: "full",
  defaultModelsExpandDepth: 1,
});
`

// docsFile is a file that never changes while the program runs.
type docsFile struct {
	contentType string
	tag         string        // identifies the content, for ETag
	plain       func() []byte // the content
	gzipped     []byte        // the same compressed, or nil
}

func newDocsFile(contentType string, content []byte) *docsFile {
	return &docsFile{
		contentType: contentType,
		tag:         fmt.Sprintf("%x", sha256.Sum256(content))[:16],
		plain:       func() []byte { return content },
	}
}

// ServeHTTP answers with the file, or with 304 if the client has it.
func (f *docsFile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", docsSecurity)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache") // keep it, but ask whether it is still this one: another version has the same paths

	zipped := f.gzipped != nil && acceptsGzip(r.Header)
	etag := `"` + f.tag + `"`
	if zipped {
		etag = `"` + f.tag + `-gzip"` // RFC 9110 section 8.8.3.3: one tag per coding
	}
	h.Set("ETag", etag)
	if f.gzipped != nil {
		h.Add("Vary", "Accept-Encoding") // beside what CORS has put there
	}
	if strings.Contains(r.Header.Get("If-None-Match"), etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	content := f.gzipped
	if zipped {
		h.Set("Content-Encoding", "gzip")
	} else {
		content = f.plain()
	}
	h.Set("Content-Type", f.contentType)
	h.Set("Content-Length", strconv.Itoa(len(content)))
	_, _ = w.Write(content) // the client has left; there is nobody to tell
}

// acceptsGzip reports whether the client takes gzip, as RFC 9110 section
// 12.5.3 has it, but for the wildcard, which no browser sends.
func acceptsGzip(header http.Header) bool {
	for _, coding := range strings.Split(strings.Join(header["Accept-Encoding"], ","), ",") {
		name, quality, _ := strings.Cut(coding, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			_, weight, _ := strings.Cut(quality, "=")
			weight = strings.TrimSpace(weight)
			return weight == "" || strings.Trim(weight, "0.") != ""
		}
	}
	return false
}

// gunzip returns what a file of this program has compressed. It returns nil if
// the file is damaged, which a test rules out.
func gunzip(compressed []byte) []byte {
	reader, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil
	}
	plain, err := io.ReadAll(reader)
	if err != nil {
		return nil
	}
	return plain
}
