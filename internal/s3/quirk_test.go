package s3

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestQuirks sends requests to servers that respond in ways of their own.
func TestQuirks(t *testing.T) {
	t.Parallel()
	const (
		contents      = "<Contents><Key>%s</Key><Size>1</Size></Contents><Contents><Key>%s</Key><Size>2</Size></Contents>"
		slowDown      = "<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"
		internalError = "<Error><Code>InternalError</Code><Message>We failed.</Message></Error>"
		moved         = "<Error><Code>%s</Code><Message>Use another region.</Message></Error>"
		page          = "<html>Sign in</html>"
	)
	objects := func(encoding, first, second string) http.HandlerFunc {
		return respond(200, "<ListBucketResult><IsTruncated>false</IsTruncated>"+encoding+
			fmt.Sprintf(contents, first, second)+"</ListBucketResult>")
	}
	list := func(t *testing.T, b *Bucket) error {
		t.Helper()
		all, err := b.List(t.Context(), "p@1/")
		if want := []Object{{"p@1/a+b", 1}, {"p@1/c", 2}}; err == nil && !slices.Equal(all, want) {
			t.Errorf("got %v, want %v", all, want)
		}
		return err
	}
	put := func(t *testing.T, b *Bucket) error { t.Helper(); return b.Put(t.Context(), "p-1", []byte("text")) }
	upload := func(t *testing.T, b *Bucket) error {
		t.Helper()
		return b.Upload(t.Context(), "p-1", strings.NewReader("text"), 4, func(int64, int64) {},
			func(string) error { return nil })
	}
	get := func(t *testing.T, b *Bucket) error {
		t.Helper()
		r, err := b.Get(t.Context(), "p-1")
		if err != nil {
			return err
		}
		defer r.Close()
		text, err := io.ReadAll(r)
		if err == nil && string(text) != "text" {
			t.Errorf("got %q", text)
		}
		return err
	}
	for name, row := range map[string]struct {
		call  func(*testing.T, *Bucket) error
		serve http.HandlerFunc
		want  string // in the error; empty: no error
	}{
		"encoded keys": {list, objects("<EncodingType>url</EncodingType>", "p%401%2Fa%2Bb", "p%401%2Fc"), ""},
		"encoded keys without a word": {
			list, objects("", "p%401%2Fa%2Bb", "p%401%2Fc"), "listed a key without this prefix: p%401%2Fa%2Bb",
		},
		"keys of another prefix": {list, objects("", "p@1/a+b", "q"), "listed a key without this prefix: q"},
		"busy for a moment": {
			list, inTurn(respond(503, slowDown), respond(503, slowDown), objects("", "p@1/a+b", "p@1/c")), "",
		},
		"busy": {put, respond(503, slowDown), "returned SlowDown (503): Reduce your request rate"},
		"busy for a moment, for a request that is sent once": {
			func(t *testing.T, b *Bucket) error { t.Helper(); return b.PutOnce(t.Context(), "p-1", []byte("text")) },
			inTurn(respond(503, slowDown), func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Etag", `"1"`) }),
			"returned SlowDown (503): Reduce your request rate",
		},
		"another region": {
			get, respond(301, fmt.Sprintf(moved, "PermanentRedirect")),
			"returned PermanentRedirect (301): Use another region; check the region and the endpoint",
		},
		"another region for a while": {
			put, respond(307, fmt.Sprintf(moved, "TemporaryRedirect")),
			"returned TemporaryRedirect (307): Use another region; check the region and the endpoint",
		},
		"another region without a word": {
			get, respond(307, ""), "returned TemporaryRedirect (307): Temporary Redirect; check the region and the endpoint",
		},
		"status 200 for a failed put":  {put, respond(200, internalError), "returned InternalError (200): We failed"},
		"status 200 for a failed list": {list, respond(200, internalError), "returned InternalError (200): We failed"},
		"status 200 for a failed begin": {
			upload, steps(internalError, `"1"`, ""), "returned InternalError (200): We failed",
		},
		"status 200 for a failed end": {
			upload, steps(begun, `"1"`, internalError), "returned InternalError (200): We failed",
		},
		"an ETag that is no MD5": {upload, steps(begun, `"an/ETag&no=MD5"`, ""), ""},
		"a page for a put":       {put, respond(200, page), "the response is not from an S3 server: it has no ETag"},
		"a page for an object": {
			get, respond(404, page), "returned NotFound (404): Not Found; the response is not from an S3 server, check ",
		},
		"no uploads": {
			func(t *testing.T, b *Bucket) error {
				t.Helper()
				_, err := b.AbortUploads(t.Context(), "", func(string) bool { return true })
				return err
			},
			respond(404, "<Error><Code>NoSuchUpload</Code><Message>There are none.</Message></Error>"), "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				err := row.call(t, openServed(t, row.serve))
				if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
					t.Errorf("got %v, want %s", err, row.want)
				}
			})
		})
	}
}

// respond returns a server that returns the same response to each request. Its redirects lead to a server that
// doesn't exist.
func respond(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if status/100 == 3 {
			w.Header().Set("Location", "http://s3.invalid/")
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

// inTurn returns a server that handles one request after another.
func inTurn(all ...http.HandlerFunc) http.HandlerFunc {
	var handled atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) { all[handled.Add(1)-1](w, r) }
}

const begun = "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>"

// steps returns a server that stores an upload of one part of four bytes, with the ETag of the part and the responses
// to its begin and its end.
func steps(begin, tag, end string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost && r.URL.Query().Has("uploads"):
			fmt.Fprint(w, begin)
		case r.Method == http.MethodPut:
			w.Header().Set("Etag", tag)
		case r.Method == http.MethodGet:
			fmt.Fprint(w, "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>p-1</Key><Size>4</Size></Contents>"+
				"</ListBucketResult>")
		case r.Method == http.MethodPost:
			text, err := io.ReadAll(r.Body)
			want := "<ETag>" + strings.NewReplacer("&", "&amp;", `"`, "&#34;").Replace(tag) + "</ETag>"
			if err != nil || !strings.Contains(string(text), want) {
				w.WriteHeader(http.StatusBadRequest)
			}
			fmt.Fprint(w, end)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	}
}
