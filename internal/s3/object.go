package s3

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
)

// Put stores a small object in one request.
func (b *Bucket) Put(ctx context.Context, key string, content []byte) error {
	_, err := b.call(ctx, request{method: http.MethodPut, key: key, content: content}, nil)
	return err
}

// PutOnce is Put, but never sends the request again. So an object that it has stored is not stored once more later, in
// the place of another one. After an error, it may be stored at any later time.
func (b *Bucket) PutOnce(ctx context.Context, key string, content []byte) error {
	_, err := b.call(ctx, request{method: http.MethodPut, key: key, content: content, once: true}, nil)
	return err
}

// Get opens an object for reading. The reader requests parts of up to 8 MiB of the same object, each as often as any
// request. The caller closes the reader.
func (b *Bucket) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	o := &object{b: b, ctx: ctx, key: key}
	if err := o.next(); err != nil {
		return nil, err
	}
	return io.NopCloser(o), nil
}

// object reads an object.
type object struct {
	b   *Bucket
	ctx context.Context //nolint:containedctx // for the reader's requests
	key string

	tag    string // ETag of the first response
	bytes  int64  // size of the object
	loaded int64  // bytes of the parts so far
	part   []byte // the rest of the last one
}

// Read implements io.Reader.
func (o *object) Read(p []byte) (int, error) {
	if len(o.part) == 0 && o.loaded < o.bytes {
		if err := o.next(); err != nil {
			return 0, err
		}
	}
	if len(o.part) == 0 {
		return 0, io.EOF
	}
	n := copy(p, o.part)
	o.part = o.part[n:]
	return n, nil
}

// next requests the next part. The first request is for the whole object, of which send returns the start: its response
// has the size, and an empty object has no part.
func (o *object) next() error {
	r := request{method: http.MethodGet, key: o.key}
	if o.loaded > 0 {
		part := fmt.Sprintf("bytes=%d-%d", o.loaded, o.loaded+responseBytesMax-1)
		r.header = http.Header{"Range": {part}, "If-Match": {o.tag}}
	}
	header, part, err := o.b.send(o.ctx, r)
	if err != nil {
		return err
	}
	whole := true
	if o.loaded == 0 {
		o.tag = header.Get("Etag")
		if o.bytes, err = strconv.ParseInt(header.Get("Content-Length"), 10, 64); err != nil { // in chunks
			o.bytes, whole = int64(len(part)), len(part) < responseBytesMax
		}
	} else {
		start := fmt.Sprintf("bytes %d-", o.loaded)
		whole = o.tag != "" && header.Get("Etag") == o.tag && len(part) > 0 &&
			strings.HasPrefix(header.Get("Content-Range"), start)
	}
	if o.part, o.loaded = part, o.loaded+int64(len(part)); !whole || o.loaded > o.bytes {
		return fmt.Errorf("%s: the S3 server %s did not return the part of the object that was requested",
			Location{o.b.name, o.key}, o.b.endpoint)
	}
	return nil
}

// Object is an object in a bucket.
type Object struct {
	Key   string
	Bytes int64 `xml:"Size"`
}

// listPage is a page of a list. S3 says on each page whether it is the last one
// (https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html).
type listPage struct {
	XMLName               xml.Name `xml:"ListBucketResult"` // or the page of a proxy would be an empty list
	Contents              []Object
	IsTruncated           *bool
	NextContinuationToken string
	EncodingType          string
}

// keyOf returns a key of a list, which a server may encode without being asked.
func keyOf(text, encodingType string) (string, error) {
	if encodingType != "url" {
		return text, nil
	}
	return url.QueryUnescape(text)
}

// List returns the objects whose keys begin with a prefix, sorted by key. It returns an error if the server does not
// say that the list is complete, for more than 500,000 objects, for keys without the prefix, and if the server returns
// many pages without further keys.
func (b *Bucket) List(ctx context.Context, prefix string) ([]Object, error) {
	const objectsMax, pagesMax = 500_000, 100
	at := Location{b.name, prefix}
	query := url.Values{"list-type": {"2"}, "prefix": {prefix}}
	all := map[string]Object{} // a server may return a key again
	for pages := 1; pages <= pagesMax; pages++ {
		var page listPage
		if _, err := b.call(ctx, request{method: http.MethodGet, query: query}, &page); err != nil {
			return nil, err
		}
		before := len(all)
		for _, o := range page.Contents {
			key, err := keyOf(o.Key, page.EncodingType)
			if err != nil || !strings.HasPrefix(key, prefix) {
				return nil, fmt.Errorf("%s: the S3 server %s listed a key without this prefix: %w", at, b.endpoint, b.hide(o.Key))
			}
			all[key] = Object{key, o.Bytes}
		}
		if len(all) > before {
			pages = 0
		}
		if len(all) > objectsMax {
			return nil, fmt.Errorf("%s has more than %d objects; use another prefix", at, objectsMax)
		}
		complete := page.IsTruncated != nil && !*page.IsTruncated
		switch token := page.NextContinuationToken; {
		case complete && (token == "" || len(all) == before):
			return slices.SortedFunc(maps.Values(all), func(a, b Object) int { return strings.Compare(a.Key, b.Key) }), nil
		case token != "": // also of a page without keys, as of a server that has removed all of them
			query.Set("continuation-token", token)
		default:
			return nil, fmt.Errorf("%s: the S3 server %s ended the list without saying that it is complete; "+
				"use a server with version 2 of ListObjects", at, b.endpoint)
		}
	}
	return nil, fmt.Errorf("%s: the S3 server %s did not end the list within %d pages without further keys; "+
		"check the server, or use another prefix", at, b.endpoint, pagesMax)
}

// Stat returns an object. It lists its key, because the response of HEAD has no cause of an error.
func (b *Bucket) Stat(ctx context.Context, key string) (Object, error) {
	all, err := b.List(ctx, key)
	if err != nil {
		return Object{}, err
	}
	if len(all) == 0 || all[0].Key != key { // it sorts before longer keys
		return Object{}, fmt.Errorf("%s: %w", Location{b.name, key}, fs.ErrNotExist)
	}
	return all[0], nil
}

const removesAtOnce = 8

// Remove removes objects, several at the same time, until one is not removed. A missing object is not an error.
func (b *Bucket) Remove(ctx context.Context, keys ...string) error {
	removes, removing := errgroup.WithContext(ctx)
	removes.SetLimit(removesAtOnce)
	for _, key := range keys {
		removes.Go(func() error { return b.remove(removing, key, nil) })
	}
	return removes.Wait()
}

// remove removes an object, or the upload that a query names. A missing one is not an error.
func (b *Bucket) remove(ctx context.Context, key string, query url.Values) error {
	_, err := b.call(ctx, request{method: http.MethodDelete, key: key, query: query}, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
