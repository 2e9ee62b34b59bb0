package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Limits of a response. Its body means nothing; it is read so that the connection can be reused.
const (
	headerBytesMax = 16 << 10
	bodyBytesMax   = 16 << 10
)

// Client sends requests to addresses that the operator has named. It follows no redirect, because the target could be
// another address, and uses no proxy of the environment, because the address of the receiver could not be checked.
type Client struct {
	http      *http.Client
	timeout   time.Duration
	userAgent string
	secrets   []Secret
}

// NewClient returns a client by the AllowPrivate, Timeout, Concurrency, UserAgent and Secrets of a Config. The caller
// closes it.
func NewClient(c Config) *Client {
	c.setDefaults()
	return &Client{timeout: c.Timeout, userAgent: c.UserAgent, secrets: c.Secrets, http: &http.Client{
		Transport: &http.Transport{
			DialContext:            newDialer(c.AllowPrivate),
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    c.Timeout,
			ForceAttemptHTTP2:      true,
			DisableCompression:     true,
			MaxIdleConnsPerHost:    c.Concurrency,
			IdleConnTimeout:        time.Minute,
			MaxResponseHeaderBytes: headerBytesMax,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close closes the idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Failure describes a request that failed.
type Failure struct {
	Reason     string        // short, without the URL
	RetryAfter time.Duration // that the receiver demands
	Gone       bool          // the receiver answered 410
}

// Get sends a GET. It returns nil for a response with 2xx.
func (c *Client) Get(ctx context.Context, url string) *Failure {
	return c.send(ctx, http.MethodGet, url, "", nil)
}

// Post sends JSON with an id, and with a signature if there is a secret. It returns nil for a response with 2xx.
func (c *Client) Post(ctx context.Context, url, id string, body []byte) *Failure {
	return c.send(ctx, http.MethodPost, url, id, body)
}

func (c *Client) send(ctx context.Context, method, url, id string, body []byte) *Failure {
	now := time.Now()
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return &Failure{Reason: c.reasonOf(err)}
	}
	request.Header.Set("User-Agent", c.userAgent)
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Webhook-Id", id)
		request.Header.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
		if len(c.secrets) > 0 {
			request.Header.Set("Webhook-Signature", sign(c.secrets, id, now, body))
		}
	}
	response, err := c.http.Do(request)
	if err != nil {
		return &Failure{Reason: c.reasonOf(err)}
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, bodyBytesMax)) // the status is known
	if response.StatusCode/100 == 2 {
		return nil
	}
	return &Failure{
		Reason:     "status " + strconv.Itoa(response.StatusCode),
		RetryAfter: retryAfter(response, now),
		Gone:       response.StatusCode == http.StatusGone,
	}
}

// reasonOf returns a short text without the URL, which may have a secret in its query.
func (c *Client) reasonOf(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("no response within %s", c.timeout)
	}
	if outer := new(url.Error); errors.As(err, &outer) {
		err = outer.Err
	}
	const bytesMax = 200
	text := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, err.Error())
	return strings.ToValidUTF8(text[:min(len(text), bytesMax)], "")
}

// retryAfterMax bounds the wait that a receiver can demand.
const retryAfterMax = time.Hour

// retryAfter returns the wait of the header Retry-After (RFC 9110 section 10.2.3), 0 without one.
func retryAfter(response *http.Response, now time.Time) time.Duration {
	text := response.Header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return min(retryAfterMax, time.Duration(seconds)*time.Second)
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return min(retryAfterMax, max(0, at.Sub(now)))
}
