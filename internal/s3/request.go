package s3

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // see build
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/s3utils"
	"github.com/minio/minio-go/v7/pkg/signer"
)

// A request and its response are in memory as a whole. So a connection that breaks, a response that ends early and a
// server that stalls are one kind of failure, and send repeats the request after each of them.

// request is a request of the API of S3
// (https://docs.aws.amazon.com/AmazonS3/latest/API/API_Operations_Amazon_Simple_Storage_Service.html).
type request struct {
	method  string
	key     string // empty: about the bucket
	query   url.Values
	header  http.Header
	content []byte
	once    bool // it is not sent again
}

type responseError struct {
	status  int
	XMLName xml.Name
	Code    string
	Message string
}

// Error implements error. Only fault passes it to a caller, without secrets.
func (e *responseError) Error() string {
	return fmt.Sprintf("%s (%d): %s", e.Code, e.status, strings.TrimSuffix(e.Message, "."))
}

// isTemporary reports whether the same request may succeed later.
func isTemporary(err error) bool {
	refused, ok := errors.AsType[*responseError](err)
	if !ok {
		return !errors.Is(err, ErrNoKeys)
	}
	switch refused.status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return refused.Code == "RequestTimeout" || refused.Code == "SlowDown"
}

const (
	attemptsMax      = 5               // for a request that failed for a reason that may be temporary
	delayMax         = 2 * time.Second // between two attempts
	responseBytesMax = 8 << 20         // enough for a list of 1000 objects with keys of 1024 bytes
)

// timeMax returns the time in which an attempt must send some bytes, or receive them after the header.
func timeMax(bytes int64) time.Duration {
	const rateMin = 32 << 10 // bytes a second
	return time.Minute + time.Duration(bytes/rateMin)*time.Second
}

var errSlow = errors.New("it took longer than a minute and a second for each 32 KiB")

// send sends a request, and again after a temporary failure. It returns the first responseBytesMax bytes of the
// response, whose status is 2xx. Its errors come from fault.
func (b *Bucket) send(ctx context.Context, r request) (header http.Header, content []byte, err error) {
	delay := 200 * time.Millisecond
	for attempt := 1; ; attempt++ {
		header, content, err = b.attempt(ctx, r)
		if err == nil || r.once || attempt == attemptsMax || !isTemporary(err) {
			return header, content, b.fault(ctx, r.key, err)
		}
		jitter := delay/2 + rand.N(delay/2+1) //nolint:gosec // no secret
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-time.After(jitter):
		}
		delay = min(2*delay, delayMax)
	}
}

// attempt sends a request once.
func (b *Bucket) attempt(ctx context.Context, r request) (http.Header, []byte, error) {
	keys, err := b.keys(ctx)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	deadline := time.AfterFunc(timeMax(int64(len(r.content))), func() { cancel(errSlow) })
	defer deadline.Stop()
	out, err := b.build(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	out = signer.SignV4(*out, keys.AccessKeyID, keys.SecretAccessKey, keys.SessionToken, b.region)
	in, err := b.client.Do(out)
	if err != nil {
		return nil, nil, err
	}
	defer in.Body.Close()
	size := min(max(in.ContentLength, 0), responseBytesMax)
	deadline.Reset(timeMax(size))
	content := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	_, err = content.ReadFrom(io.LimitReader(in.Body, responseBytesMax))
	if in.StatusCode/100 == 2 {
		return in.Header, content.Bytes(), err
	}
	refused := &responseError{status: in.StatusCode}
	if xml.Unmarshal(content.Bytes(), refused) != nil || refused.Code == "" {
		refused.Code, refused.Message = codesOfStatus[refused.status], http.StatusText(refused.status)
	}
	return nil, nil, refused
}

// codesOfStatus are the codes for responses without an error in XML. A proxy without a server also returns 404, so an
// object is missing only if the server says so.
var codesOfStatus = map[int]string{
	http.StatusNotFound: "NotFound", http.StatusForbidden: "AccessDenied",
	http.StatusMovedPermanently: "PermanentRedirect", http.StatusTemporaryRedirect: "TemporaryRedirect",
}

// build returns the request without its signature. A bucket with Object Lock and a default retention stores nothing
// without an MD5, or an additional checksum, which some servers do not support
// (https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-lock-managing.html). X-Amz-Content-Sha256 is none.
func (b *Bucket) build(ctx context.Context, r request) (*http.Request, error) {
	u := *b.base
	u.Path = strings.TrimSuffix(u.Path, "/") + "/" + r.key
	u.RawPath = s3utils.EncodePath(u.Path)
	u.RawQuery = s3utils.QueryEncode(r.query)
	out, err := http.NewRequestWithContext(ctx, r.method, u.String(), bytes.NewReader(r.content))
	if err != nil {
		return nil, err
	}
	maps.Copy(out.Header, r.header)
	out.Header.Set("X-Amz-Content-Sha256", fmt.Sprintf("%x", sha256.Sum256(r.content))) // the server checks both
	if r.method == http.MethodPut {
		sum := md5.Sum(r.content) //nolint:gosec // see above
		out.Header.Set("Content-Md5", base64.StdEncoding.EncodeToString(sum[:]))
	}
	return out, nil
}

// call sends a request as send does, and decodes the response into v, unless v is nil.
func (b *Bucket) call(ctx context.Context, r request, v any) (http.Header, error) {
	header, content, err := b.send(ctx, r)
	if err != nil {
		return nil, err
	}
	// CompleteMultipartUpload sends the status 200 before it knows the result.
	refused := &responseError{status: http.StatusOK}
	if xml.Unmarshal(content, refused) == nil && refused.XMLName.Local == "Error" {
		return nil, b.fault(ctx, r.key, refused)
	}
	if v != nil {
		err = xml.Unmarshal(content, v)
	}
	if err == nil && r.method == http.MethodPut && header.Get("Etag") == "" {
		err = errors.New("it has no ETag")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: the response is not from an S3 server: %w", Location{b.name, r.key}, b.hide(err.Error()))
	}
	return header, nil
}
