package s3

import (
	"context"
	"crypto/md5" //nolint:gosec // see contentMD5
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// The limits of multipart uploads
// (https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html).
const (
	partBytesMin = 16 << 20
	partsMax     = 10_000
)

// partBytes returns the size of the parts of an object.
func partBytes(size int64) int64 {
	const unit = 1 << 20
	need := (size/partsMax/unit + 1) * unit
	return max(partBytesMin, need)
}

// abortMax is the time to abort a failed upload, also after the end of its context.
const abortMax = 30 * time.Second

// upload is a multipart upload of one object.
type upload struct {
	b         *Bucket
	key, id   string
	checksums bool // the server supports additional checksums
	parts     []sentPart
}

// sentPart is a part that the server has stored.
type sentPart struct {
	Number   int `xml:"PartNumber"`
	ETag     string
	Checksum string `xml:"ChecksumSHA256,omitempty"`
}

// Upload stores size bytes of r in parts, one after another. The signature of each part has its SHA-256, which the
// server checks; so does an additional checksum, if the server supports one. The object appears when it is complete,
// after ready has received the SHA-256 of all bytes in hexadecimal digits and has returned no error. After an error
// Upload removes the sent parts, unless the server does not respond. sent receives numbers of bytes.
func (b *Bucket) Upload(
	ctx context.Context, key string, r io.ReaderAt, size int64, sent func(done, all int64), ready func(sum string) error,
) (err error) {
	u := &upload{b: b, key: key, checksums: true}
	if err := u.begin(ctx); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, u.undo(ctx))
		}
	}()
	whole := sha256.New()
	step := partBytes(size)
	for at := int64(0); at < size; at += step {
		part := io.NewSectionReader(r, at, min(step, size-at))
		sum, sumMD5 := sha256.New(), md5.New() //nolint:gosec // see contentMD5
		if _, err := io.Copy(io.MultiWriter(whole, sum, sumMD5), part); err != nil {
			return err
		}
		header := contentMD5(sumMD5.Sum(nil))
		if err := u.put(ctx, part, header, sum.Sum(nil), func(n int64) { sent(at+n, size) }); err != nil {
			return err
		}
	}
	if err := ready(hex.EncodeToString(whole.Sum(nil))); err != nil {
		return err
	}
	return u.complete(ctx, size)
}

// begin starts the upload. It repeats the request without checksums if the server refuses them.
func (u *upload) begin(ctx context.Context) error {
	header := http.Header{"X-Amz-Checksum-Algorithm": {"SHA256"}}
	r := request{method: http.MethodPost, key: u.key, query: url.Values{"uploads": {""}}, header: header}
	var result struct {
		UploadID string `xml:"UploadId"`
	}
	_, err := u.b.exchange(ctx, r, &result)
	if refusal, ok := errors.AsType[*responseError](err); ok &&
		slices.Contains([]string{"NotImplemented", "InvalidArgument", "InvalidRequest"}, refusal.Code) {
		u.checksums = false
		header.Del("X-Amz-Checksum-Algorithm")
		_, err = u.b.exchange(ctx, r, &result)
	}
	if err == nil && result.UploadID == "" {
		err = errors.New("the response has no id of the upload")
	}
	if err != nil {
		return u.b.fault(ctx, u.key, err)
	}
	u.id = result.UploadID
	return nil
}

// put sends the next part.
func (u *upload) put(
	ctx context.Context, part *io.SectionReader, header http.Header, sum []byte, sent func(int64),
) error {
	number := len(u.parts) + 1
	r := request{
		method: http.MethodPut, key: u.key, bytes: part.Size(), sum: hex.EncodeToString(sum), header: header,
		query: url.Values{"partNumber": {strconv.Itoa(number)}, "uploadId": {u.id}},
		body: func() io.Reader {
			return &countingPart{io.NewSectionReader(part, 0, part.Size()), sent}
		},
	}
	done := sentPart{Number: number}
	if text := base64.StdEncoding.EncodeToString(sum); u.checksums {
		r.header.Set(checksumHeader, text)
		done.Checksum = text // a server without checksums ignores it
	}
	response, err := u.b.call(ctx, r, nil)
	if err != nil {
		return err
	}
	if got := response.Get(checksumHeader); got != "" && done.Checksum != "" && got != done.Checksum {
		return fmt.Errorf("%s: the S3 server received other bytes: part %d has the SHA-256 %s, and its response %w",
			Location{u.b.name, u.key}, number, done.Checksum, u.b.hide(got))
	}
	done.ETag = response.Get("Etag")
	u.parts = append(u.parts, done)
	return nil
}

const checksumHeader = "X-Amz-Checksum-Sha256"

// countingPart reports the position in a part, which the client reads again after a failure.
type countingPart struct {
	*io.SectionReader

	at func(int64)
}

// Read implements io.Reader.
func (p *countingPart) Read(b []byte) (int, error) {
	n, err := p.SectionReader.Read(b)
	if at, errSeek := p.SectionReader.Seek(0, io.SeekCurrent); errSeek == nil {
		p.at(at)
	}
	return n, err
}

// complete ends the upload and checks the size of the object.
func (u *upload) complete(ctx context.Context, size int64) error {
	text, err := xml.Marshal(struct {
		XMLName xml.Name   `xml:"http://s3.amazonaws.com/doc/2006-03-01/ CompleteMultipartUpload"`
		Part    []sentPart // sorted by number
	}{Part: u.parts})
	if err != nil {
		return err
	}
	r := request{method: http.MethodPost, key: u.key, query: url.Values{"uploadId": {u.id}}}
	if _, err := u.b.call(ctx, r.textBody(text), nil); err != nil {
		return err
	}
	stored, err := u.b.Stat(ctx, u.key)
	if err == nil && stored.Bytes != size {
		err = fmt.Errorf("%s has %d bytes after the upload of %d bytes", Location{u.b.name, u.key}, stored.Bytes, size)
	}
	return err
}

// undo aborts the upload, and removes the object in case the upload was completed without a response.
func (u *upload) undo(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortMax)
	defer cancel()
	err := u.b.abort(ctx, u.key, u.id)
	if err == nil {
		err = u.b.Remove(ctx, u.key)
	}
	if err != nil {
		return fmt.Errorf("could not remove the unfinished upload: %w", err)
	}
	return nil
}
