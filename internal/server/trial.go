package server

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"plantstore/internal/apidoc"
	"plantstore/internal/listen"
)

// PublicDocument returns the API document of the public listener. w is the writer of a HandlerFunc of the admin
// listener. The caller must not change the document.
func PublicDocument(w http.ResponseWriter) *apidoc.Document {
	return w.(*responseRecorder).handler.public.routes.document
}

// Trial is a whole response.
type Trial struct {
	Status int
	Header http.Header
	Body   []byte
}

// ServePublic handles a request as the public listener does, with its checks, limits, log line and metrics, and returns
// the response. w and r are the arguments of a HandlerFunc of the admin listener; the request comes from the client of
// r. Its URL has no host, as in a server.
func ServePublic(w http.ResponseWriter, r, request *http.Request) Trial {
	public := w.(*responseRecorder).handler.public
	// The connection of r belongs to the admin listener.
	ctx := context.WithValue(r.Context(), connKey{}, (*listen.Conn)(nil))
	request = request.WithContext(ctx)
	request.RemoteAddr = r.RemoteAddr
	var t trialWriter
	t.header = http.Header{}
	public.ServeHTTP(&t, request)
	return Trial{Status: t.status, Header: t.header, Body: t.body.Bytes()}
}

// trialWriter stores a response.
type trialWriter struct {
	status int
	header http.Header
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (t *trialWriter) Header() http.Header { return t.header }

// WriteHeader implements http.ResponseWriter. It adds the Date, as net/http does.
func (t *trialWriter) WriteHeader(status int) {
	t.status = status
	t.header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
}

// Write implements http.ResponseWriter.
func (t *trialWriter) Write(p []byte) (int, error) { return t.body.Write(p) }
