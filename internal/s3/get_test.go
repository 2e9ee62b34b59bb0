package s3_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"testing"

	"plantstore/internal/s3"
	"plantstore/internal/s3/s3test"
)

// uploaded stores an object of 20 MiB and returns its content.
func uploaded(t *testing.T, b *s3.Bucket, key string) []byte {
	t.Helper()
	text := randomBytes(20 << 20)
	if err := b.Upload(t.Context(), key, bytes.NewReader(text), int64(len(text)), noProgress, ready); err != nil {
		t.Fatal(err)
	}
	return text
}

// TestGetResumes reads an object over connections that break.
func TestGetResumes(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := startProxy(t, s)
	text := uploaded(t, open(t, s3.Config{Endpoint: s.Endpoint}, s3test.Bucket), "p-1")
	b := open(t, s3.Config{Endpoint: p.Endpoint}, s3test.Bucket)
	for name, test := range map[string]struct {
		bytes int64 // after which a connection breaks
		want  string
	}{
		"three connections": {10 << 20, ""},
		"too short":         {1 << 20, "p-1: no response of the S3 server " + p.Endpoint + ": unexpected EOF"},
		"no progress":       {0, "no response of the S3 server " + p.Endpoint},
	} {
		p.Pass()
		r, err := b.Get(t.Context(), "p-1") // opens the object
		if err != nil {
			t.Fatal(err)
		}
		p.CutResponses(test.bytes)
		before := p.Opened()
		got, err := io.ReadAll(r)
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if n := p.Opened() - before; n > 5*5 {
			t.Errorf("%s: %d connections", name, n)
		}
		if test.want != "" {
			wantError(t, name, err, test.want)
			continue
		}
		if err != nil || !bytes.Equal(got, text) {
			t.Errorf("%s: %d bytes of %d, %v", name, len(got), len(text), err)
		}
	}
}

// TestGetOfReplacedObject shows that a reader does not continue with the bytes of another object.
func TestGetOfReplacedObject(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	b := open(t, s3.Config{Endpoint: s.Endpoint}, s3test.Bucket)
	uploaded(t, b, "p-1")
	r, err := b.Get(t.Context(), "p-1")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := b.Put(t.Context(), "p-1", make([]byte, 20<<20)); err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadAll(r)
	wantError(t, "replaced", err, "PreconditionFailed (412): ")
	wantError(t, "replaced", err, "; the object was replaced during the download, start it again")
}

// TestGetFromOtherServers reads an object from servers that do not return the rest of it as requested.
func TestGetFromOtherServers(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	text := uploaded(t, open(t, s3.Config{Endpoint: s.Endpoint}, s3test.Bucket), "p-1")
	for name, other := range map[string]struct {
		header http.Header // in the response with the rest
		status int
		tag    string // in the first response
		want   string
	}{
		"the whole object": {nil, 200, `"1"`, "did not return the part of the object"},
		"another object": {
			http.Header{"Etag": {`"2"`}, "Content-Range": {"bytes 8388608-"}}, 206, `"1"`, "did not return the part",
		},
		"another part": {
			http.Header{"Etag": {`"1"`}, "Content-Range": {"bytes 0-7/8"}}, 206, `"1"`, "did not return the part",
		},
		"no tag": {http.Header{"Content-Range": {"bytes 8388608-"}}, 206, "", "did not return the part"},
	} {
		endpoint := otherServer(t, s, func(w http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get("Range") != "" {
				for header, values := range other.header {
					w.Header()[header] = values
				}
				w.WriteHeader(other.status)
				_, _ = w.Write(text[:8])
				return true
			}
			if other.tag != "" {
				w.Header().Set("Etag", other.tag)
			}
			w.Header().Set("Content-Length", strconv.Itoa(len(text)))
			_, _ = w.Write(text)
			return true
		})
		r, err := open(t, s3.Config{Endpoint: endpoint}, s3test.Bucket).Get(t.Context(), "p-1")
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		wantError(t, name, errors.Join(err, r.Close()), other.want)
		if !bytes.Equal(got, text[:8<<20]) {
			t.Errorf("%s: %d bytes", name, len(got))
		}
	}
}

// TestCanceledGet shows that a canceled reader requests nothing more.
func TestCanceledGet(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	b := open(t, s3.Config{Endpoint: s.Endpoint}, s3test.Bucket)
	uploaded(t, b, "p-1")
	ctx, cancel := context.WithCancel(t.Context())
	r, err := b.Get(ctx, "p-1")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cancel()
	if _, err := io.ReadAll(r); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}
