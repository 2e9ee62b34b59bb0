package s3

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
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

// request is a request of the API of S3
// (https://docs.aws.amazon.com/AmazonS3/latest/API/API_Operations_Amazon_Simple_Storage_Service.html).
type request struct {
	method string
	key    string // empty: about the bucket
	query  url.Values
	header http.Header
	body   func() io.Reader // of each attempt; nil: none
	bytes  int64            // of the body
	sum    string           // SHA-256 of the body in hexadecimal digits
}

// textBody sets a short body.
func (r request) textBody(text []byte) request {
	r.body, r.bytes = func() io.Reader { return bytes.NewReader(text) }, int64(len(text))
	r.sum = fmt.Sprintf("%x", sha256.Sum256(text))
	return r
}

// responseError is an error response of the server, or the error in a response about one of several objects.
type responseError struct {
	status  int
	XMLName xml.Name
	Key     string
	Code    string
	Message string
}

// Error implements error. Only fault passes it to a caller, without secrets.
func (e *responseError) Error() string {
	return fmt.Sprintf("%s (%d): %s", e.Code, e.status, strings.TrimSuffix(e.Message, "."))
}

// isTemporary reports whether the server may accept the same request later.
func (e *responseError) isTemporary() bool {
	switch e.status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return e.Code == "RequestTimeout" || e.Code == "SlowDown"
}

const (
	delayMax         = 2 * time.Second // between two attempts
	responseBytesMax = 8 << 20         // enough for a list of 1000 objects with keys of 1024 bytes
)

// do sends a request, and again after a temporary failure. The caller closes the body of the response, whose status is
// 2xx.
func (b *Bucket) do(ctx context.Context, r request) (*http.Response, error) {
	delay := 200 * time.Millisecond
	for attempt := 1; ; attempt++ {
		response, err := b.attempt(ctx, r)
		var refused *responseError
		if err == nil || attempt == attemptsMax || errors.Is(err, ErrNoKeys) ||
			errors.As(err, &refused) && !refused.isTemporary() {
			return response, err
		}
		jitter := delay/2 + rand.N(delay/2+1) //nolint:gosec // no secret
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(jitter):
		}
		delay = min(2*delay, delayMax)
	}
}

// attempt sends a request once.
func (b *Bucket) attempt(ctx context.Context, r request) (*http.Response, error) {
	keys, err := b.provider.keys(ctx, false)
	if err != nil {
		return nil, err
	}
	out, err := b.build(ctx, r)
	if err != nil {
		return nil, err
	}
	out = signer.SignV4(*out, keys.AccessKeyID, keys.SecretAccessKey, keys.SessionToken, b.region)
	response, err := b.client.Do(out)
	if err != nil || response.StatusCode/100 == 2 {
		return response, err
	}
	defer response.Body.Close()
	defer time.AfterFunc(b.stallMax, func() { _ = response.Body.Close() }).Stop() // it may send a byte now and then
	fault := &responseError{status: response.StatusCode}
	text, err := io.ReadAll(io.LimitReader(response.Body, responseBytesMax))
	if err != nil || xml.Unmarshal(text, fault) != nil || fault.Code == "" {
		fault.Code, fault.Message = codesOfStatus[fault.status], http.StatusText(fault.status)
		if fault.status == http.StatusNotFound && r.method == http.MethodHead { // its response has no body
			fault.Code = "NoSuchKey"
		}
	}
	return nil, fault
}

// codesOfStatus are the codes for responses without an error in XML. A proxy without a server also returns 404, so an
// object is missing only if the server says so.
var codesOfStatus = map[int]string{
	http.StatusNotFound: "NotFound", http.StatusForbidden: "AccessDenied",
	http.StatusMovedPermanently: "PermanentRedirect", http.StatusTemporaryRedirect: "TemporaryRedirect",
}

// emptySum is the SHA-256 of a request without a body.
var emptySum = fmt.Sprintf("%x", sha256.Sum256(nil))

// build returns the request without its signature.
func (b *Bucket) build(ctx context.Context, r request) (*http.Request, error) {
	u := *b.base
	u.Path = strings.TrimSuffix(u.Path, "/") + "/" + r.key
	u.RawPath = s3utils.EncodePath(u.Path)
	u.RawQuery = s3utils.QueryEncode(r.query)
	body := io.Reader(http.NoBody)
	if r.body != nil {
		body = io.NopCloser(r.body())
	}
	out, err := http.NewRequestWithContext(ctx, r.method, u.String(), body)
	if err != nil {
		return nil, err
	}
	out.ContentLength = r.bytes
	maps.Copy(out.Header, r.header)
	out.Header.Set("X-Amz-Content-Sha256", cmp.Or(r.sum, emptySum)) // the server checks it
	return out, nil
}

// send sends a request and returns the whole response. It ends within timeMax.
func (b *Bucket) send(ctx context.Context, r request) (http.Header, []byte, error) {
	limited, cancel := context.WithTimeout(ctx, b.timeMax(r.bytes))
	defer cancel()
	response, err := b.do(limited, r)
	var text []byte
	if err == nil {
		defer response.Body.Close()
		if text, err = io.ReadAll(io.LimitReader(response.Body, responseBytesMax)); err == nil {
			return response.Header, text, nil
		}
		err = &url.Error{Err: err}
	}
	if limited.Err() != nil && ctx.Err() == nil {
		err = b.tooLong(r.bytes)
	}
	return nil, nil, err
}

// timeMax returns the time in which the server must end a request, or send an object, of some bytes. A server that
// sends a byte now and then never stalls.
func (b *Bucket) timeMax(bytes int64) time.Duration {
	const rateMin = 16 << 10 // bytes a second
	return attemptsMax*(2*b.stallMax+delayMax) + time.Duration(bytes/rateMin)*time.Second
}

// tooLong returns the error for a request or an object of some bytes that was not complete within timeMax.
func (b *Bucket) tooLong(bytes int64) error {
	return &url.Error{Err: fmt.Errorf("the transfer of %d bytes took longer than %s", bytes, b.timeMax(bytes))}
}

// call sends a request and decodes the response into v, unless v is nil. Its errors are those of fault.
func (b *Bucket) call(ctx context.Context, r request, v any) (http.Header, error) {
	header, err := b.exchange(ctx, r, v)
	return header, b.fault(ctx, r.key, err)
}

// exchange is call with errors that may have secrets.
func (b *Bucket) exchange(ctx context.Context, r request, v any) (http.Header, error) {
	header, text, err := b.send(ctx, r)
	if err != nil {
		return nil, err
	}
	// CompleteMultipartUpload sends the status 200 before it knows the result.
	fault := &responseError{status: http.StatusOK}
	if xml.Unmarshal(text, fault) == nil && fault.XMLName.Local == "Error" {
		return nil, fault
	}
	if v != nil {
		err = xml.Unmarshal(text, v)
	}
	if err == nil && r.method == http.MethodPut && header.Get("Etag") == "" {
		err = errors.New("it has no ETag")
	}
	if err != nil {
		return nil, fmt.Errorf("the response is not from an S3 server: %w", err)
	}
	return header, nil
}
