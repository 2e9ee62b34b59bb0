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

// newDocument returns the API document of a public listener with limits. baseURL must be absolute. If it is a guess,
// the server in the document is relative to the document, so that it is right for every client.
func newDocument(baseURL *url.URL, guessed bool, limits Limits) (*apidoc.Source, error) {
	if baseURL.Scheme == "" || baseURL.Host == "" {
		return nil, fmt.Errorf("base URL must have a scheme and a host; got %q", baseURL.Redacted())
	}
	// Omit credentials, query and fragment. Paths begin with a slash, so the base ends without one.
	path := strings.TrimRight(baseURL.EscapedPath(), "/")
	base := baseURL.Scheme + "://" + baseURL.Host + path
	server := base
	if guessed {
		server = path + "/"
	}
	public := publicErrors()
	examples := make([]string, len(public))
	for i, e := range public {
		examples[i] = strconv.Itoa(int(e.Code))
	}
	const limitsPath = "paths /plants post x-limits "
	return apidoc.New(documentSource, apidoc.Config{
		Values: map[string]string{
			"servers 0 url":                      server,
			limitsPath + "bodyBytesMax":          strconv.FormatInt(limits.BodyMax, 10),
			limitsPath + "headerBytesMax":        strconv.Itoa(limits.HeaderMax),
			limitsPath + "requestTimeoutSeconds": secondsText(limits.RequestTimeout),
			limitsPath + "answerTimeoutSeconds":  secondsText(limits.AnswerTimeout),
			limitsPath + "queueMax":              strconv.Itoa(limits.QueueMax),
			limitsPath + "authFailuresPerMinute": strconv.Itoa(limits.AuthFailures),
			limitsPath + "requestsPerSecond":     strconv.Itoa(limits.Rate),
			limitsPath + "requestBurst":          strconv.Itoa(limits.burst()),
			limitsPath + "concurrentRequests":    strconv.Itoa(limits.Concurrency),

			"components schemas Error properties error examples": "[" + strings.Join(examples, ", ") + "]",
		},
		Names: map[string]string{
			"baseURL":            base,
			"bodyBytesMax":       sizeText(limits.BodyMax),
			"bodyBytes":          strconv.FormatInt(limits.BodyMax, 10),
			"headerBytesMax":     sizeText(int64(limits.HeaderMax)),
			"requestTimeout":     limits.RequestTimeout.String(),
			"answerTimeout":      limits.AnswerTimeout.String(),
			"queueMax":           strconv.Itoa(limits.QueueMax),
			"authFailures":       numberOrNone(limits.AuthFailures),
			"requestsPerSecond":  numberOrNone(limits.Rate),
			"concurrentRequests": numberOrNone(limits.Concurrency),
		},
		Errors: public,
	})
}

// documentRoutes returns the routes of the API document: JSON, YAML, and an HTML page with its files. It returns the
// document as HTML too.
func documentRoutes(s *apidoc.Source, base string) ([]Route, *apidoc.Document, error) {
	jsonForm, err := s.JSON()
	if err != nil {
		return nil, nil, err
	}
	yamlForm, err := s.YAML()
	if err != nil {
		return nil, nil, err
	}
	document, err := apidoc.Render(jsonForm)
	if err != nil {
		return nil, nil, err
	}
	page, err := document.Page(base)
	if err != nil {
		return nil, nil, err
	}
	const html = "text/html; charset=utf-8"
	var list []Route
	for _, f := range []struct {
		path, contentType string
		content           []byte
	}{
		{"/openapi.json", mediaType, jsonForm},
		{"/openapi.yaml", "application/yaml", yamlForm},
		{"/docs", html, page},
		{"/docs/", html, page},
		{"/docs/apidoc.css", "text/css; charset=utf-8", apidoc.Style},
		{"/docs/leaf.svg", "image/svg+xml", apidoc.Icon},
	} {
		handle, err := StaticFile(f.contentType, f.content)
		if err != nil {
			return nil, nil, err
		}
		list = append(list, Route{Method: "GET", Path: base + f.path, Open: true, Untimed: true, Handle: handle})
	}
	return list, document, nil
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
