package s3

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Object is an object in a bucket.
type Object struct {
	Key   string
	Bytes int64 `xml:"Size"`
}

// List returns the objects whose keys begin with a prefix, sorted by key. It returns an error for more than 100,000,
// and if the server does not end the list within some pages and time.
func (b *Bucket) List(ctx context.Context, prefix string) (all []Object, err error) {
	const objectsMax, pagesMax = 100_000, 100
	query := url.Values{"list-type": {"2"}, "prefix": {prefix}}
	limited, cancel := context.WithTimeout(ctx, b.timeMax(0))
	defer cancel()
	for range pagesMax {
		var page struct {
			XMLName               xml.Name `xml:"ListBucketResult"` // or the page of a proxy would be an empty list
			Contents              []Object
			NextContinuationToken string
		}
		_, err := b.call(limited, request{method: http.MethodGet, query: query}, &page)
		if limited.Err() != nil && ctx.Err() == nil {
			return nil, b.endlessList(prefix, fmt.Sprint("within ", b.timeMax(0)))
		}
		if err != nil {
			return nil, err
		}
		for _, o := range page.Contents {
			if strings.HasPrefix(o.Key, prefix) {
				all = append(all, o)
			}
		}
		if len(all) > objectsMax {
			return nil, fmt.Errorf("%s has more than %d objects; use another prefix", Location{b.name, prefix}, objectsMax)
		}
		if page.NextContinuationToken == "" || len(page.Contents) == 0 {
			return all, nil
		}
		query.Set("continuation-token", page.NextContinuationToken)
	}
	return nil, b.endlessList(prefix, fmt.Sprintf("within %d pages", pagesMax))
}

func (b *Bucket) endlessList(prefix, within string) error {
	return fmt.Errorf("%s: the S3 server %s did not end the list %s; check the server, or use another prefix",
		Location{b.name, prefix}, b.endpoint, within)
}

// Stat returns an object.
func (b *Bucket) Stat(ctx context.Context, key string) (Object, error) {
	header, err := b.call(ctx, request{method: http.MethodHead, key: key}, nil)
	if err != nil {
		return Object{}, err
	}
	bytes, err := strconv.ParseInt(header.Get("Content-Length"), 10, 64)
	if err != nil {
		return Object{}, fmt.Errorf("%s: the S3 server %s returned no size", Location{b.name, key}, b.endpoint)
	}
	return Object{key, bytes}, nil
}

// Remove removes an object. A missing object is not an error.
func (b *Bucket) Remove(ctx context.Context, key string) error { return b.remove(ctx, key, nil) }

// remove removes an object, or the upload that a query names. A missing one is not an error.
func (b *Bucket) remove(ctx context.Context, key string, query url.Values) error {
	_, err := b.call(ctx, request{method: http.MethodDelete, key: key, query: query}, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Put stores a small object in one request.
func (b *Bucket) Put(ctx context.Context, key string, text []byte) error {
	_, err := b.call(ctx, request{method: http.MethodPut, key: key}.textBody(text), nil)
	return err
}

// AbortUploads aborts the unfinished multipart uploads whose keys begin with a prefix and satisfy a condition, and
// returns their keys. It aborts those on the first page of the server, which has room for 1,000: a killed upload leaves
// one.
func (b *Bucket) AbortUploads(
	ctx context.Context, prefix string, condition func(key string) bool,
) (aborted []string, err error) {
	var page struct {
		XMLName xml.Name `xml:"ListMultipartUploadsResult"`
		Upload  []struct {
			Key      string
			UploadID string `xml:"UploadId"`
		}
	}
	r := request{method: http.MethodGet, query: url.Values{"uploads": {""}, "prefix": {prefix}}}
	if _, err := b.call(ctx, r, &page); err != nil {
		return nil, err
	}
	for _, u := range page.Upload {
		if !strings.HasPrefix(u.Key, prefix) || !condition(u.Key) {
			continue
		}
		if err := b.abort(ctx, u.Key, u.UploadID); err != nil {
			return aborted, err
		}
		aborted = append(aborted, u.Key)
	}
	return aborted, nil
}

// abort aborts an upload. An upload that has ended since is not an error.
func (b *Bucket) abort(ctx context.Context, key, id string) error {
	return b.remove(ctx, key, url.Values{"uploadId": {id}})
}
