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

// ServePublic handles a request as the public listener does, with its checks, limits, log line and metrics, and returns
// the response. w and r are the arguments of a HandlerFunc of the admin listener; the request comes from the client of
// r. Its URL has no host, as in a server.
func ServePublic(w http.ResponseWriter, r, request *http.Request) *Trial {
	public := w.(*responseRecorder).handler.public
	// The connection of r belongs to the admin listener.
	ctx := context.WithValue(r.Context(), connKey{}, (*listen.Conn)(nil))
	request = request.WithContext(ctx)
	request.RemoteAddr = r.RemoteAddr
	t := &Trial{header: http.Header{}}
	public.ServeHTTP(t, request)
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
