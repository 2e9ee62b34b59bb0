package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Get opens an object for reading. After a broken connection the reader requests the rest of the same object. The
// caller closes the reader.
func (b *Bucket) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	response, err := b.do(ctx, request{method: http.MethodGet, key: key}) //nolint:bodyclose // object.Close closes it
	if err != nil {
		return nil, b.fault(ctx, key, err)
	}
	return &object{body: response.Body, b: b, ctx: ctx, key: key, tag: response.Header.Get("Etag")}, nil
}

// object reads an object, with errors without secrets.
type object struct {
	body io.ReadCloser // of the last response
	b    *Bucket
	ctx  context.Context //nolint:containedctx // of the requests, whose bodies this reads
	key  string
	tag  string // ETag of the first response

	waited  time.Duration // for the server
	at      int64         // bytes that the caller has received
	broken  error         // of the last read; the next one requests the rest
	resumed int           // requests for the rest since the offset since
	since   int64         // offset at which resumed was 0
}

// A reader requests the rest of an object at most resumesMax times for each resumeBytes that it has received.
const (
	resumesMax  = attemptsMax
	resumeBytes = 64 << 20
)

// Read implements io.Reader.
func (o *object) Read(p []byte) (int, error) {
	for {
		if o.broken != nil {
			if err := o.resume(); err != nil {
				return 0, err
			}
		}
		start := time.Now()
		n, err := o.body.Read(p)
		o.at, o.waited = o.at+int64(n), o.waited+time.Since(start)
		if o.waited > o.b.timeMax(o.at) {
			return n, o.b.fault(o.ctx, o.key, o.b.tooLong(o.at))
		}
		if err == nil || errors.Is(err, io.EOF) {
			return n, err
		}
		if o.broken = err; n > 0 {
			return n, nil
		}
	}
}

// Close implements io.Closer.
func (o *object) Close() error { return o.body.Close() }

// resume requests the rest of the object. It returns an error if the object is another one since the first response, or
// after too many broken connections.
func (o *object) resume() error {
	if o.at-o.since >= resumeBytes {
		o.resumed, o.since = 0, o.at
	}
	if o.resumed++; o.resumed > resumesMax || o.tag == "" || o.ctx.Err() != nil {
		return o.b.fault(o.ctx, o.key, &url.Error{Err: o.broken})
	}
	_ = o.body.Close() // of a broken connection
	rest := http.Header{"Range": {fmt.Sprintf("bytes=%d-", o.at)}, "If-Match": {o.tag}}
	r := request{method: http.MethodGet, key: o.key, header: rest}
	response, err := o.b.do(o.ctx, r) //nolint:bodyclose // Close closes it
	if err != nil {
		return o.b.fault(o.ctx, o.key, err)
	}
	o.body = response.Body
	part := fmt.Sprintf("bytes %d-", o.at)
	if response.StatusCode != http.StatusPartialContent || response.Header.Get("Etag") != o.tag ||
		!strings.HasPrefix(response.Header.Get("Content-Range"), part) {
		return fmt.Errorf("%s: the connection broke, and the S3 server %s did not return the rest of the object",
			Location{o.b.name, o.key}, o.b.endpoint)
	}
	o.broken = nil
	return nil
}
