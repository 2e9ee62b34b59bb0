package server

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
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

// newDocs returns the HTML page of the API document and its files by their path
// below the base URL. prefix is the path of the base URL without a final slash. The
// page has two paths, with and without a final slash.
//
// The page is Swagger UI. The program uses the files of the module swgui, not its
// page, which requires inline scripts. So the browser runs only files of this
// program and sends no request to another host.
func newDocs(prefix string) (map[string]http.Handler, error) {
	var page bytes.Buffer
	if err := docsPage.Execute(&page, prefix); err != nil {
		return nil, fmt.Errorf("write the page of the API document: %w", err)
	}
	index := newDocsFile("text/html; charset=utf-8", page.Bytes())
	handlers := map[string]http.Handler{
		"/docs":          index,
		"/docs/":         index,
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

// docsSecurity is the Content-Security-Policy of the page. It allows scripts and
// styles of this host, no inline script and no eval, requests to this host only, and
// data URLs for the images of the style sheet.
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

// docsStyle adapts the page to a small screen. Swagger UI shows responses as a table
// of at least 425 px. The document has no links, so their column is hidden.
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
  .swagger-ui .models .json-schema-2020-12 {
    margin-left: 4px; margin-right: 4px; padding-left: 4px; padding-right: 4px;
  }
  .swagger-ui .models .json-schema-2020-12-body { margin-left: 4px; padding-left: 4px; overflow-wrap: break-word; }
}
`

// docsStart starts Swagger UI. validatorUrl null omits the badge of
// validator.swagger.io, the only request to another host.
const docsStart = `"use strict";
const root = document.getElementById("docs");
SwaggerUIBundle({
  domNode: root,
  url: root.dataset.document,
  validatorUrl: null,
  deepLinking: true,
  docExpansion: "full",
  defaultModelsExpandDepth: 1,
});
`

// docsFile is a constant file.
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

// ServeHTTP responds with the file, or with 304 if the client has it already.
func (f *docsFile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", docsSecurity)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache") // revalidate: another version of the program has the same paths

	zipped := f.gzipped != nil && acceptsGzip(r.Header)
	etag := `"` + f.tag + `"`
	if zipped {
		etag = `"` + f.tag + `-gzip"` // RFC 9110 section 8.8.3.3: one tag per coding
	}
	h.Set("ETag", etag)
	if f.gzipped != nil {
		h.Add("Vary", "Accept-Encoding") // CORS may have set Origin
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
	_, _ = w.Write(content) // fails if the client has disconnected
}

// acceptsGzip reports whether the client accepts gzip (RFC 9110 section 12.5.3). It
// ignores the wildcard, which no browser sends.
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

// gunzip decompresses an embedded file. It returns nil if the file is damaged; a
// test covers every file.
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

// StaticFile returns a function that responds with a constant file, compressed for clients
// that accept gzip.
func StaticFile(contentType string, content []byte) (HandlerFunc, error) {
	var zipped bytes.Buffer
	w, err := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(content)
		err = errors.Join(err, w.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("compress a file: %w", err)
	}
	file := newDocsFile(contentType, content)
	file.gzipped = zipped.Bytes()
	return fromHandler(file), nil
}
