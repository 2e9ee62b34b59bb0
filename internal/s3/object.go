package s3

import (
	"context"
	"crypto/md5" //nolint:gosec // see contentMD5
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

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
// say that the list is complete, for more than 500,000 objects, for keys without the prefix, and if the server does not
// end the list within some time or returns many pages without further keys.
func (b *Bucket) List(ctx context.Context, prefix string) ([]Object, error) {
	const objectsMax, pagesMax = 500_000, 100
	query := url.Values{"list-type": {"2"}, "prefix": {prefix}}
	limited, cancel := context.WithTimeout(ctx, b.timeMax(0))
	defer cancel()
	begun, all := time.Now(), map[string]Object{} // a server may return a key again
	for pages := 1; pages <= pagesMax; pages++ {
		var page listPage
		_, err := b.call(limited, request{method: http.MethodGet, query: query}, &page)
		if err != nil && time.Since(begun) >= b.timeMax(0) && ctx.Err() == nil { // the request has the same limit
			return nil, b.endlessList(prefix, fmt.Sprint("within ", b.timeMax(0)))
		}
		if err != nil {
			return nil, err
		}
		before := len(all)
		for _, o := range page.Contents {
			text := o.Key
			if o.Key, err = keyOf(text, page.EncodingType); err != nil || !strings.HasPrefix(o.Key, prefix) {
				return nil, fmt.Errorf("%s: the S3 server %s listed a key without this prefix: %w",
					Location{b.name, prefix}, b.endpoint, b.hide(text))
			}
			all[o.Key] = o
		}
		if len(all) > before {
			pages = 0
		}
		if len(all) > objectsMax {
			return nil, fmt.Errorf("%s has more than %d objects; use another prefix", Location{b.name, prefix}, objectsMax)
		}
		complete := page.IsTruncated != nil && !*page.IsTruncated
		switch token := page.NextContinuationToken; {
		case complete && (token == "" || len(all) == before):
			return slices.SortedFunc(maps.Values(all), func(a, b Object) int { return strings.Compare(a.Key, b.Key) }), nil
		case token != "": // also of a page without keys, as of a server that has removed all of them
			query.Set("continuation-token", token)
		default:
			return nil, fmt.Errorf("%s: the S3 server %s ended the list without saying that it is complete; "+
				"use a server with version 2 of ListObjects", Location{b.name, prefix}, b.endpoint)
		}
	}
	return nil, b.endlessList(prefix, fmt.Sprintf("within %d pages without further keys", pagesMax))
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

// contentMD5 returns the header with the MD5 of a body. A bucket with Object Lock and a default retention stores
// nothing without it or an additional checksum, which some servers do not support
// (https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-lock-managing.html). X-Amz-Content-Sha256 is none.
func contentMD5(sum []byte) http.Header {
	return http.Header{"Content-Md5": {base64.StdEncoding.EncodeToString(sum)}}
}

// Put stores a small object in one request.
func (b *Bucket) Put(ctx context.Context, key string, text []byte) error {
	sum := md5.Sum(text) //nolint:gosec // see contentMD5
	r := request{method: http.MethodPut, key: key, header: contentMD5(sum[:])}.textBody(text)
	_, err := b.call(ctx, r, nil)
	return err
}

// AbortUploads aborts the unfinished multipart uploads whose keys begin with a prefix and satisfy a condition, and
// returns their keys. It aborts those on the first page of the server, which has room for 1,000: a killed upload leaves
// one.
func (b *Bucket) AbortUploads(
	ctx context.Context, prefix string, condition func(key string) bool,
) (aborted []string, err error) {
	var page struct {
		XMLName      xml.Name `xml:"ListMultipartUploadsResult"`
		EncodingType string
		Upload       []struct {
			Key      string
			UploadID string `xml:"UploadId"`
		}
	}
	r := request{method: http.MethodGet, query: url.Values{"uploads": {""}, "prefix": {prefix}}}
	_, err = b.call(ctx, r, &page)
	if errors.Is(err, fs.ErrNotExist) { // some servers say in this way that there are no uploads
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, u := range page.Upload {
		key, err := keyOf(u.Key, page.EncodingType)
		if err != nil || !strings.HasPrefix(key, prefix) || !condition(key) {
			continue
		}
		if err := b.abort(ctx, key, u.UploadID); err != nil {
			return aborted, err
		}
		aborted = append(aborted, key)
	}
	return aborted, nil
}

// abort aborts an upload. An upload that has ended since is not an error.
func (b *Bucket) abort(ctx context.Context, key, id string) error {
	return b.remove(ctx, key, url.Values{"uploadId": {id}})
}
