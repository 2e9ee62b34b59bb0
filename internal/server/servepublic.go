package server

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"plantstore/internal/apidoc"
	"plantstore/internal/listen"
)

// PublicDocument returns the API document of the public listener, for a request of the admin listener. The caller must
// not change the document.
func (c *Call) PublicDocument() *apidoc.Document { return c.handler.public.routes.document }

// ServePublic handles a request of the client as the public listener does, with its checks, limits, log line and
// metrics, and returns the response. The URL of the request has no host, as in a server.
func (c *Call) ServePublic(request *http.Request) *Trial {
	// The connection of the client belongs to the admin listener.
	ctx := context.WithValue(c.Context(), connKey{}, (*listen.Conn)(nil))
	request = request.WithContext(ctx)
	request.RemoteAddr = c.RemoteAddr
	t := &Trial{header: http.Header{}}
	c.handler.public.ServeHTTP(t, request)
	return t
}

// Trial is a whole response, and the http.ResponseWriter that stored it.
type Trial struct {
	Status int
	Body   bytes.Buffer
	header http.Header
}

// Header implements http.ResponseWriter.
func (t *Trial) Header() http.Header { return t.header }

// WriteHeader implements http.ResponseWriter. It adds the Date, as net/http does.
func (t *Trial) WriteHeader(status int) {
	t.Status = status
	t.header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
}

// Write implements http.ResponseWriter.
func (t *Trial) Write(p []byte) (int, error) { return t.Body.Write(p) }
