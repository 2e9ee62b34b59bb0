package s3

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// partBytes returns the size of the parts of an object, which has at most 10,000
// (https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html).
func partBytes(size int64) int64 {
	const bytesMin, partsMax, unit = 16 << 20, 10_000, 1 << 20
	return max(bytesMin, (size/partsMax/unit+1)*unit)
}

// sentPart is a part that the server has stored.
type sentPart struct {
	Number int `xml:"PartNumber"`
	ETag   string
}

// Upload stores size bytes of r in parts, one after another. The object appears when it is complete, after ready has
// received the SHA-256 of all bytes in hexadecimal digits and has returned no error. After an error Upload removes the
// sent parts, unless the server does not respond. sent receives numbers of bytes.
func (b *Bucket) Upload(
	ctx context.Context, key string, r io.ReaderAt, size int64, sent func(done, all int64), ready func(sum string) error,
) (err error) {
	var begun struct {
		XMLName xml.Name `xml:"InitiateMultipartUploadResult"`
		ID      string   `xml:"UploadId"`
	}
	begin := request{method: http.MethodPost, key: key, query: url.Values{"uploads": {""}}}
	if _, err := b.call(ctx, begin, &begun); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.undo(ctx, key, begun.ID))
		}
	}()
	whole := sha256.New()
	list := struct {
		XMLName xml.Name   `xml:"http://s3.amazonaws.com/doc/2006-03-01/ CompleteMultipartUpload"`
		Part    []sentPart // sorted by number
	}{}
	for part := range (size + partBytes(size) - 1) / partBytes(size) {
		at := part * partBytes(size)
		content := make([]byte, min(partBytes(size), size-at)) // a failed attempt may still read the one before
		if _, err := io.ReadFull(io.NewSectionReader(r, at, size-at), content); err != nil {
			return err
		}
		whole.Write(content)
		query := url.Values{"partNumber": {strconv.FormatInt(part+1, 10)}, "uploadId": {begun.ID}}
		header, err := b.call(ctx, request{method: http.MethodPut, key: key, query: query, content: content}, nil)
		if err != nil {
			return err
		}
		list.Part = append(list.Part, sentPart{int(part) + 1, header.Get("Etag")})
		sent(at+int64(len(content)), size)
	}
	if err := ready(hex.EncodeToString(whole.Sum(nil))); err != nil {
		return err
	}
	text, err := xml.Marshal(list)
	if err != nil {
		return err
	}
	end := request{method: http.MethodPost, key: key, query: url.Values{"uploadId": {begun.ID}}, content: text}
	if _, err := b.call(ctx, end, nil); err != nil {
		return err
	}
	stored, err := b.Stat(ctx, key)
	if err == nil && stored.Bytes != size {
		err = fmt.Errorf("%s has %d bytes after the upload of %d bytes", Location{b.name, key}, stored.Bytes, size)
	}
	return err
}

// undo aborts an upload, and removes the object in case the upload was completed without a response.
func (b *Bucket) undo(ctx context.Context, key, id string) error {
	const undoMax = 30 * time.Second // also after the end of ctx
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoMax)
	defer cancel()
	err := b.abort(ctx, key, id)
	if err == nil {
		err = b.Remove(ctx, key)
	}
	if err != nil {
		return fmt.Errorf("could not remove the unfinished upload: %w", err)
	}
	return nil
}

// abort aborts an upload. An upload that has ended since is not an error.
func (b *Bucket) abort(ctx context.Context, key, id string) error {
	return b.remove(ctx, key, url.Values{"uploadId": {id}})
}

// AbortUploads aborts the unfinished uploads whose keys begin with a prefix and satisfy a condition, and returns their
// keys. It aborts those on the first page of the server, which has room for 1,000: a killed upload leaves one.
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
