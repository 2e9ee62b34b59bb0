package server

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// filePolicy is the Content-Security-Policy of the page of the API document and of its files: style sheets and images
// of this host only.
const filePolicy = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; " +
	"frame-ancestors 'none'"

// StaticFile returns a function that responds with a constant file, compressed for clients that accept gzip, or with
// 304 if the client has it already.
func StaticFile(contentType string, content []byte) HandlerFunc {
	var zipped bytes.Buffer // its writes have no errors
	w, _ := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
	_, _ = w.Write(content)
	_ = w.Close()
	tag := fmt.Sprintf("%x", sha256.Sum256(content))[:16]
	return func(c *Call) error {
		h := c.Header()
		h.Set("Content-Security-Policy", filePolicy)
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache") // revalidate: another version of the program has the same paths
		h.Add("Vary", "Accept-Encoding")   // CORS may have set Origin
		body, etag := content, `"`+tag+`"`
		if acceptsGzip(c.Request.Header) {
			body, etag = zipped.Bytes(), `"`+tag+`-gzip"` // RFC 9110 section 8.8.3.3: one tag per coding
			h.Set("Content-Encoding", "gzip")
		}
		h.Set("ETag", etag)
		if strings.Contains(c.Request.Header.Get("If-None-Match"), etag) {
			h.Del("Content-Encoding")
			c.WriteHeader(http.StatusNotModified)
			return nil
		}
		h.Set("Content-Type", contentType)
		h.Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = c.Write(body) // fails if the client has disconnected
		return nil
	}
}

// acceptsGzip reports whether the client accepts gzip (RFC 9110 section 12.5.3). It ignores the wildcard, which no
// browser sends.
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
