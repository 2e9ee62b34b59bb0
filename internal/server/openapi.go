package server

import (
	_ "embed" // for openapi.yaml
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"plantstore/internal/apidoc"
	"plantstore/internal/plant"
)

//go:embed openapi.yaml
var documentSource []byte

// newDocument returns the API document of a public listener with limits. baseURL must be absolute, because some
// programs that read the document, such as Postman, send a request for the server "/" to a host named plants.
func newDocument(baseURL *url.URL, limits Limits) (*apidoc.Document, error) {
	// Omit credentials, query and fragment. Paths begin with a slash, so the base ends without one.
	base := baseURL.Scheme + "://" + baseURL.Host + strings.TrimRight(baseURL.EscapedPath(), "/")
	return apidoc.New(documentSource, map[string]string{
		"baseURL":            base,
		"bodyBytes":          strconv.FormatInt(limits.BodyMax, 10),
		"bodySize":           sizeText(limits.BodyMax),
		"headerBytes":        strconv.Itoa(limits.HeaderMax),
		"headerSize":         sizeText(int64(limits.HeaderMax)),
		"requestSeconds":     secondsText(limits.RequestTimeout),
		"requestTimeout":     limits.RequestTimeout.String(),
		"answerSeconds":      secondsText(limits.AnswerTimeout),
		"answerTimeout":      limits.AnswerTimeout.String(),
		"queueMax":           strconv.Itoa(limits.QueueMax),
		"authFailures":       strconv.Itoa(limits.AuthFailures),
		"authFailuresOrNone": numberOrNone(limits.AuthFailures),
		"rate":               strconv.Itoa(limits.Rate),
		"rateOrNone":         numberOrNone(limits.Rate),
		"concurrency":        strconv.Itoa(limits.Concurrency),
		"concurrencyOrNone":  numberOrNone(limits.Concurrency),
	}, publicErrors())
}

// PublicDocument returns the API document of the public listener, for a request of the admin listener. The caller must
// not change the document.
func (c *Call) PublicDocument() *apidoc.Document { return c.handler.public.routes.document }

// documentRoutes returns the routes of the API document: JSON, YAML, and an HTML page with its files.
func documentRoutes(document *apidoc.Document, base string) ([]Route, error) {
	page, err := document.Page(base)
	if err != nil {
		return nil, err
	}
	const html = "text/html; charset=utf-8"
	var list []Route
	for _, f := range []struct {
		path, contentType string
		content           []byte
	}{
		{"/openapi.json", mediaType, document.JSON},
		{"/openapi.yaml", "application/yaml", document.YAML},
		{"/docs", html, page},
		{"/docs/", html, page},
		{"/docs/apidoc.css", "text/css; charset=utf-8", apidoc.Style},
		{"/docs/leaf.svg", "image/svg+xml", apidoc.Icon},
	} {
		list = append(list, Route{
			Method: "GET", Path: base + f.path, Open: true, Untimed: true, Handle: StaticFile(f.contentType, f.content),
		})
	}
	return list, nil
}

// publicErrors returns the errors of the public listener. The document has them as a table and as examples, not as an
// enum: a new number must not break a client that was generated from an older document.
func publicErrors() []plant.Entry {
	return slices.DeleteFunc(plant.Catalogue(), func(e plant.Entry) bool { return e.Code.AdminOnly() })
}

// numberOrNone returns a limit as text; 0: none.
func numberOrNone(n int) string {
	if n == 0 {
		return "none"
	}
	return strconv.Itoa(n)
}

func secondsText(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64)
}

// sizeText returns a number of bytes as text, in KiB too if that is an integer.
func sizeText(bytes int64) string {
	if bytes >= 1024 && bytes%1024 == 0 {
		return fmt.Sprintf("%d KiB (%d bytes)", bytes/1024, bytes)
	}
	return fmt.Sprintf("%d bytes", bytes)
}
