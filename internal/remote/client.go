// Package remote works on a running server by its admin API, for commands with --server.
package remote

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"plantstore/internal/config"
	"plantstore/internal/plant"
	"plantstore/internal/terminal"
)

// Flags are the flags of a command that can work on a running server. They are not settings: a settings file
// belongs to a server, and a variable would redirect some commands and not others.
type Flags struct {
	URL       string
	CA, Token string // paths
}

// Bind adds the flags to a command.
func (f *Flags) Bind(flags *pflag.FlagSet) {
	flags.StringVar(&f.URL, "server", "", "work on the running server with this `URL` of its admin listener")
	flags.Var(config.FileName(&f.CA), "server-ca", "trust the certificate authorities in this PEM `file` too")
	flags.Var(config.FileName(&f.Token), "server-token",
		"read the token for the server from this `file`; default: PLANTSTORE_TOKEN")
}

// Check returns a usage error for flags that contradict each other, or a URL that is not the address of an admin
// listener.
func (f *Flags) Check(flags *pflag.FlagSet) (err error) {
	local := []string{"create"}
	for _, row := range new(config.Settings).AllSettings() {
		local = append(local, row.Name)
	}
	flags.Visit(func(given *pflag.Flag) {
		switch name := given.Name; {
		case f.URL == "" && name == "server":
			err = config.Usagef("server: the URL is empty; use the form https://plants.example:8081")
		case f.URL == "" && (name == "server-ca" || name == "server-token"):
			err = config.Usagef("%s: it needs --server", name)
		case f.URL != "" && name != "config" && name != "oidc-issuer" && slices.Contains(local, name):
			err = config.Usagef("%s: it has no effect with --server, which has settings of its own; omit it", name)
		}
	})
	if err == nil && f.URL != "" {
		_, err = f.base()
	}
	return err
}

// base returns the URL of the API. A token in the clear on a network is an error.
func (f *Flags) base() (*url.URL, error) {
	u, err := url.Parse(f.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, config.Usagef("server: %q is not a URL; use the form https://plants.example:8081",
			config.HideSecrets(f.URL, nil))
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "" {
		return nil, config.Usagef("server: a URL of an admin listener has only a scheme, a host and a port; use %s://%s",
			u.Scheme, u.Host)
	}
	if u.Scheme == "http" && !config.IsLoopback(u.Hostname()) {
		return nil, config.Usagef("server: http would send the token in the clear to %s; "+
			"use https, or a tunnel to a loopback address", u.Hostname())
	}
	return u.JoinPath("api", "v1"), nil
}

// Client implements operations on a running server by its admin API.
type Client struct {
	base  *url.URL
	token string
	http  *http.Client
}

// New returns a client of the server of the flags, with a token for its admin API. Its errors are usage errors. The
// caller closes the client.
func New(f *Flags, token string) (*Client, error) {
	base, err := f.base()
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if config.RootCAs, err = f.roots(); err != nil {
		return nil, err
	}
	const connectTimeMax, responseTimeMax = 10 * time.Second, time.Minute
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: config,
		DialContext:         (&net.Dialer{Timeout: connectTimeMax}).DialContext,
		TLSHandshakeTimeout: connectTimeMax, ResponseHeaderTimeout: responseTimeMax,
	}
	return &Client{base: base, token: strings.TrimSpace(token), http: &http.Client{
		Transport:     transport, // a redirect could send the token elsewhere
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Close closes the connections to the server.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// roots returns the certificate authorities of the system and of --server-ca; nil: of the system alone.
func (f *Flags) roots() (*x509.CertPool, error) {
	if f.CA == "" {
		return nil, nil //nolint:nilnil // the value of tls.Config for the authorities of the system
	}
	text, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, config.Usagef("server-ca: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, config.Usagef("server-ca: %s has no certificate in PEM form", f.CA)
	}
	return pool, nil
}

// do sends a request with a JSON body, if it is not nil, and decodes the response.
func do[T any](ctx context.Context, c *Client, method string, at *url.URL, body any) (result T, err error) {
	res, err := c.send(ctx, method, at, body)
	if err != nil {
		return result, err
	}
	defer res.Body.Close()
	const bytesMax = 64 << 20 // a page of plants has about 8 MiB of texts
	if err := json.NewDecoder(io.LimitReader(res.Body, bytesMax)).Decode(&result); err != nil {
		return result, fmt.Errorf("the response of the server at %s is incomplete: %w", c.base.Host, err)
	}
	return result, nil
}

func get[T any](ctx context.Context, c *Client, at *url.URL) (T, error) {
	return do[T](ctx, c, http.MethodGet, at, nil)
}

// at returns the URL of a path of the API with query parameters, which alternate with their values. It omits those
// without a value.
func (c *Client) at(path string, query ...string) *url.URL {
	u := c.base.JoinPath(path)
	values := url.Values{}
	for i := 0; i < len(query); i += 2 {
		if query[i+1] != "" {
			values.Set(query[i], query[i+1])
		}
	}
	u.RawQuery = values.Encode()
	return u
}

// send sends a request and returns a response with the status 200, whose body the caller closes. The error is a
// *plant.Error or about the connection.
func (c *Client) send(ctx context.Context, method string, at *url.URL, body any) (*http.Response, error) {
	content := io.Reader(http.NoBody)
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, at.String(), content)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(err)
	}
	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	defer res.Body.Close()
	return nil, c.refused(res)
}

// unreachable returns the error of a request without a response.
func (c *Client) unreachable(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	_, authority := errors.AsType[x509.UnknownAuthorityError](err)
	_, host := errors.AsType[x509.HostnameError](err)
	_, record := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case authority:
		return fmt.Errorf("the certificate of the server at %s is not trusted: %w; give its authority with --server-ca",
			c.base.Host, err)
	case host:
		return fmt.Errorf("the certificate of the server at %s has other names: %w; use one of them in --server",
			c.base.Host, err)
	case record, errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("the server at %s has no TLS; use http for a loopback address", c.base.Host)
	}
	return fmt.Errorf("no connection to the server at %s: %w; check the URL, and that the server runs", c.base.Host, err)
}

func (c *Client) refused(res *http.Response) error {
	const bytesMax = 64 << 10
	var e struct {
		Error   plant.Code `json:"error"`
		Message string     `json:"message"`
	}
	text, _ := io.ReadAll(io.LimitReader(res.Body, bytesMax))
	if json.Unmarshal(text, &e) != nil || e.Error.Status() != res.StatusCode {
		if res.StatusCode == http.StatusBadRequest && c.base.Scheme == "http" {
			return fmt.Errorf("the server at %s responds with %s; use https if it has TLS", c.base.Host, res.Status)
		}
		return fmt.Errorf("%s is not the admin listener of a Plant Store: it responds with %s", c.base.Host, res.Status)
	}
	f := &plant.Error{Code: e.Error, Message: terminal.Printable(e.Message)}
	switch e.Error {
	case plant.CodeCredentialMissing:
		f.Message = "the server requires a token; put it into PLANTSTORE_TOKEN or a file for --server-token"
	case plant.CodeCredentialInvalid, plant.CodeAuthMalformed:
		f.Message = "the server refuses the token: " + f.Message + "; compare PLANTSTORE_TOKEN or the file of --server-token"
	case plant.CodeScopeMissing:
		f.Message = "the server refuses the token: " + f.Message + "; use one that plantstore token create --scope has made"
	case plant.CodeNotFound:
		f.Message = fmt.Sprintf("%s is not the admin listener, or its version is older; use the address of --admin-listen",
			c.base.Host)
	case plant.CodeMisdirected:
		f.Message += "; add the name to --admin-host of the server"
	}
	f.Message = cmp.Or(f.Message, res.Status)
	return f
}
