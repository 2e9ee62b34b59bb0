// Package client creates plants in Plant Store. It needs only the standard library.
//
// A create is safe to repeat: the server stores a plant once, however often the same content arrives (see
// docs/reference/api.md). So a Client repeats a request by itself when a connection breaks, the server is busy or
// restarts, or a proxy has no server. It stops at the deadline of the context, or after the time of WithRetryFor. With
// WithFallback it also tries other servers of the same store.
package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// Plant is a stored plant.
type Plant struct {
	Name string
	Tag  *string // nil: none

	// Replayed says that the store had the plant already, so nothing was written: an earlier attempt or another
	// program created it with the same content.
	Replayed bool
}

// Client creates plants in one store. Its methods may run at the same time. Use one Client for a process, because it
// keeps connections.
type Client struct {
	plants      []string     // URLs of the operation; while the options apply, base URLs
	first       atomic.Int64 // index of the URL at which a create starts
	token       func(context.Context) (string, error)
	headers     func(context.Context, http.Header)
	retryFor    time.Duration
	timeout     time.Duration
	concurrency int
	tls         *tls.Config // nil: the default
	transport   http.RoundTripper
}

const (
	requestIDHeader = "X-Request-Id"
	replayedHeader  = "Idempotent-Replayed"
)

// Option is an option of New.
type Option func(*Client)

// WithToken sends a token, such as plantstore token create prints.
func WithToken(token string) Option {
	return WithTokenFunc(func(context.Context) (string, error) { return token, nil })
}

// WithTokenFunc sends the token that a function returns for each attempt, for tokens that expire, such as those of an
// OpenID provider. An error of the function ends the create. The function may be called at the same time by several
// creates.
func WithTokenFunc(token func(context.Context) (string, error)) Option {
	return func(c *Client) { c.token = token }
}

// WithRetryFor sets the time in which a create whose context has no deadline starts new attempts. The default is a
// minute. With 0 there is one attempt, with any context.
func WithRetryFor(d time.Duration) Option { return func(c *Client) { c.retryFor = max(d, 0) } }

// WithAttemptTimeout sets the time limit of one attempt, from the connection to the end of the response. The default is
// 30 s, which is more than the server takes before it responds that the outcome is unknown.
func WithAttemptTimeout(d time.Duration) Option { return func(c *Client) { c.timeout = d } }

// WithHeaders calls a function with the header of each attempt, which may set X-Request-Id or traceparent from the
// context. The propagators of OpenTelemetry fit: func(ctx context.Context, h http.Header) {
// propagator.Inject(ctx, propagation.HeaderCarrier(h)) }. A header of the connection or of the message itself, such as
// Host, Content-Length or Transfer-Encoding, ends the create with an error before it is sent.
func WithHeaders(set func(context.Context, http.Header)) Option {
	return func(c *Client) { c.headers = set }
}

// WithFallback adds base URLs of other servers of the same store, such as a standby. They get the same token. After a
// failure that a retry may mend, the next attempt goes to the next server. The pause comes after a round, which is one
// attempt at each server. A create starts at the server whose response was the last final one, a plant or an error. If
// a create gives up without one, the next create starts at the next server.
//
// A server that accepts no connection within 3 s has failed; with WithTransport, the limit is the transport's. If a
// machine dies that has accepted the connection, the attempt fails only at its own limit (WithAttemptTimeout).
func WithFallback(baseURLs ...string) Option {
	return func(c *Client) { c.plants = append(c.plants, baseURLs...) }
}

// WithConcurrency sets the number of plants that CreateAll creates at the same time. The default is 64.
func WithConcurrency(n int) Option { return func(c *Client) { c.concurrency = max(n, 1) } }

// WithTLS sets the authorities that may sign the server's certificate, the client certificate, and the like. The client
// does not change config.
func WithTLS(config *tls.Config) Option { return func(c *Client) { c.tls = config } }

// WithTransport sends the requests by rt, such as an http.Transport with a proxy; WithTLS does not apply to it. The
// default is an http.Transport for HTTP/1.1 that keeps up to 256 idle connections and reads no proxy from the
// environment.
func WithTransport(rt http.RoundTripper) Option { return func(c *Client) { c.transport = rt } }

// New returns a client for a base URL, such as https://plants.example.org/v1: the one to which the server adds /plants.
// The URL has the scheme http or https, and neither user, query nor fragment.
func New(baseURL string, options ...Option) (*Client, error) {
	c := &Client{
		plants: []string{baseURL}, retryFor: time.Minute, timeout: 30 * time.Second, concurrency: 64,
	}
	for _, option := range options {
		option(c)
	}
	for i, base := range c.plants {
		var err error
		if c.plants[i], err = plantsURL(base); err != nil {
			return nil, err
		}
	}
	if c.transport == nil {
		c.transport = c.newTransport()
	}
	return c, nil
}

// plantsURL checks a base URL and returns the URL of the operation.
func plantsURL(baseURL string) (string, error) {
	u, err := url.Parse(baseURL)
	switch {
	case err != nil:
		return "", fmt.Errorf("base URL: %w", err)
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return "", fmt.Errorf("base URL %q: use the form https://host/path", u.Redacted())
	case u.User != nil, u.RawQuery != "", u.ForceQuery, u.Fragment != "":
		return "", fmt.Errorf("base URL %q: omit user, query and fragment", u.Redacted())
	}
	if u.Path == "" {
		u.Path = "/" // else JoinPath returns a relative path
	}
	return u.JoinPath("plants").String(), nil
}

// fallbackDialTimeout is the time limit of a connection if another server may accept one sooner.
const fallbackDialTimeout = 3 * time.Second

// newTransport returns the default transport. A connection that is being opened outlives its attempt, so it has a time
// limit of its own.
func (c *Client) newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: c.timeout}
	if len(c.plants) > 1 {
		dialer.Timeout = min(c.timeout, fallbackDialTimeout)
	}
	return &http.Transport{
		DialContext:         dialer.DialContext, // which leaves out HTTP/2
		TLSClientConfig:     c.tls.Clone(),
		TLSHandshakeTimeout: c.timeout,
		MaxIdleConnsPerHost: 256,
		IdleConnTimeout:     30 * time.Second,
		DisableCompression:  true, // a plant is too short
	}
}

// Close closes the connections that no create uses.
func (c *Client) Close() { (&http.Client{Transport: c.transport}).CloseIdleConnections() }

// Create creates a plant and returns it when it is on stable storage. The error is an *Error.
func (c *Client) Create(ctx context.Context, n NewPlant) (Plant, error) {
	e := &Error{ID: n.ID, RequestID: requestID()}
	if !utf8.ValidString(n.Name) || n.Tag != nil && !utf8.ValidString(*n.Tag) {
		e.Code, e.Message = BodyNotUTF8, "name or tag is not valid UTF-8"
		return Plant{}, e
	}
	body, _ := json.Marshal(n) // which has no value that JSON lacks
	return c.create(ctx, e, body)
}

// CreateJSON creates the plant of a JSON object, such as a line of a file. It sends the object unchanged, and only the
// server checks it. The error is an *Error without an ID.
func (c *Client) CreateJSON(ctx context.Context, object []byte) (Plant, error) {
	return c.create(ctx, &Error{RequestID: requestID()}, object)
}

func (c *Client) create(ctx context.Context, e *Error, body []byte) (Plant, error) {
	p := pace{until: time.Now().Add(c.retryFor), servers: len(c.plants)}
	if deadline, ok := ctx.Deadline(); ok && c.retryFor > 0 {
		p.until = deadline
	}
	servers := int64(len(c.plants))
	for {
		first := c.first.Load()
		for i := range servers {
			server := (first + i) % servers
			created, again := c.attempt(ctx, e, c.plants[server], body)
			if again && c.retryFor > 0 && p.wait(ctx, e) {
				continue
			}
			switch {
			case created != nil, !again && e.Status != 0: // the response is final
				c.first.Store(server)
			case again, errors.Is(ctx.Err(), context.DeadlineExceeded):
				c.first.CompareAndSwap(first, (server+1)%servers) // unless another create has set it
			}
			if created == nil {
				return Plant{}, e
			}
			return *created, nil
		}
	}
}

// attempt sends a create once, to a URL. If it returns no plant, it describes the failure in e, and again reports
// whether another attempt may succeed.
func (c *Client) attempt(ctx context.Context, e *Error, to string, body []byte) (created *Plant, again bool) {
	e.Attempts++
	if len(c.plants) > 1 {
		e.URL = to
	}
	header, err := c.header(ctx, e)
	if err != nil {
		e.fail(err)
		return nil, false
	}
	res, err := c.send(ctx, to, header, body)
	if err != nil {
		e.fail(err)
		return nil, e.lost(ctx)
	}
	e.RequestID = cmp.Or(res.header.Get(requestIDHeader), e.RequestID)
	if res.status != http.StatusOK {
		return nil, e.refused(res)
	}
	if created, err = decode(res.body); err != nil {
		// Another server, or a proxy, responded. The plant may be stored nevertheless.
		e.fail(fmt.Errorf("the response is not a plant: %w", err))
		e.Unknown = true
		return nil, false
	}
	created.Replayed = res.header.Get(replayedHeader) == "true"
	return created, false
}

// response is a whole response.
type response struct {
	status int
	header http.Header
	body   []byte
}

// send sends one request. The error is a *notSentError if the transport had no connection to send it on.
func (c *Client) send(ctx context.Context, to string, header http.Header, body []byte) (*response, error) {
	if ctx.Err() != nil {
		return nil, &notSentError{ctx.Err()}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("no response within %v", c.timeout))
	defer cancel()
	var wanted, connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { wanted.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return nil, &notSentError{err}
	}
	req.Header = header
	res, err := c.transport.RoundTrip(req)
	switch {
	case err != nil && wanted.Load() && !connected.Load():
		return nil, &notSentError{err}
	case err != nil:
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(res.Body, responseMax+1))
	err = errors.Join(err, res.Body.Close())
	if err == nil && len(content) > responseMax {
		err = fmt.Errorf("it has more than %d bytes", responseMax)
	}
	if err != nil {
		return nil, fmt.Errorf("read the body of the response: %w", err)
	}
	return &response{res.StatusCode, res.Header, content}, nil
}

// responseMax limits the body of a response, in bytes. A plant has less: the server limits the body of a request to
// 64 KiB by default.
const responseMax = 8 << 20

func (c *Client) header(ctx context.Context, e *Error) (http.Header, error) {
	header := http.Header{
		"Content-Type":  {"application/json"},
		requestIDHeader: {e.RequestID},
		"User-Agent":    {userAgent},
	}
	if c.token != nil {
		token, err := c.token(ctx)
		if err != nil {
			return nil, fmt.Errorf("token: %w", err)
		}
		if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return nil, errors.New("token: it contains a character that no token has")
		}
		header["Authorization"] = []string{"Bearer " + token}
	}
	if c.headers != nil {
		c.headers(ctx, header)
	}
	return header, checkHeader(header)
}

// checkHeader returns an error for a header that is not valid (RFC 9110 section 5), or that could end the request
// elsewhere or send it to another host.
func checkHeader(header http.Header) error {
	for name, values := range header {
		if name == "" || strings.ContainsFunc(name, notInToken) {
			return fmt.Errorf("the name of the header %q is not valid", name)
		}
		switch http.CanonicalHeaderKey(name) {
		case "Connection", "Content-Length", "Expect", "Host", "Keep-Alive", "Proxy-Connection", "Te", "Trailer",
			"Transfer-Encoding", "Upgrade":
			return fmt.Errorf("remove the header %q: only the client sets it", name)
		}
		for _, value := range values {
			if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == '\x7f' }) {
				return fmt.Errorf("the value of the header %q contains a control character", name)
			}
		}
	}
	return nil
}

// notInToken reports whether no token of RFC 9110 section 5.6.2 contains a character.
func notInToken(r rune) bool {
	isLetter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	return !isLetter && !('0' <= r && r <= '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

const userAgent = "plantstore-go"

// requestID returns an id for X-Request-Id, by which the log of the server can be searched.
func requestID() string { return rand.Text()[:16] }

// decode reads the body of a response to a create.
func decode(body []byte) (*Plant, error) {
	var p struct {
		Name *string `json:"name"`
		Tag  *string `json:"tag"`
	}
	if err := json.Unmarshal(body, &p); err != nil {
		return nil, err
	}
	if p.Name == nil {
		return nil, errors.New("it has no name")
	}
	return &Plant{Name: *p.Name, Tag: p.Tag}, nil
}
