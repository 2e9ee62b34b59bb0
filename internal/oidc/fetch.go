package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Limits of a response of the issuer.
const (
	fetchTimeMax  = 10 * time.Second // for all requests of one fetch
	fetchBytesMax = 512 << 10
	redirectsMax  = 3
)

// newClient returns the client for the requests to the issuer.
func newClient(transport http.RoundTripper) *http.Client {
	if transport == nil {
		own := http.DefaultTransport.(*http.Transport).Clone()
		own.MaxResponseHeaderBytes = 64 << 10
		own.IdleConnTimeout = fetchTimeMax
		transport = own
	}
	return &http.Client{Transport: transport, CheckRedirect: checkRedirect}
}

// checkRedirect follows redirects on the same host only: another host could have another
// owner.
func checkRedirect(r *http.Request, via []*http.Request) error {
	first := via[0].URL
	if len(via) > redirectsMax || r.URL.Scheme != first.Scheme || r.URL.Host != first.Host {
		return errors.New("the issuer redirects to another host, or too often")
	}
	return nil
}

// CheckIssuer returns an error unless a text is an issuer: an https URL without user, query
// and fragment (RFC 8414 section 2). An http URL is accepted for a loopback host.
func CheckIssuer(issuer string) error {
	u, err := url.Parse(issuer)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return fmt.Errorf("%q is not a URL; use the form https://login.example/realm", issuer)
	case u.User != nil:
		return errors.New("an issuer cannot have a user")
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(issuer, "#"):
		return errors.New("an issuer cannot have a query or a fragment")
	}
	return checkScheme(u)
}

func checkScheme(u *url.URL) error {
	if u.Scheme == "https" || u.Scheme == "http" && isLoopback(u.Hostname()) {
		return nil
	}
	return fmt.Errorf("%q has no TLS; use https, or http with a loopback address", u.Redacted())
}

func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// fetchKeys reads the metadata of the issuer and then the keys.
func (v *Verifier) fetchKeys(ctx context.Context) (set *keySet, unusable int, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeMax)
	defer cancel()
	address, err := v.discover(ctx)
	if err != nil {
		return nil, 0, err
	}
	text, err := v.get(ctx, address)
	if err != nil {
		return nil, 0, err
	}
	return parseKeySet(text)
}

// discover returns the address of the keys. It tries OpenID Connect Discovery 1.0 section 4,
// then RFC 8414 section 3.
func (v *Verifier) discover(ctx context.Context) (string, error) {
	issuer, err := url.Parse(v.config.Issuer)
	if err != nil {
		return "", err
	}
	host, path := issuer.Scheme+"://"+issuer.Host, strings.TrimRight(issuer.EscapedPath(), "/")
	address, err := v.readMetadata(ctx, host+path+"/.well-known/openid-configuration")
	if err == nil || ctx.Err() != nil {
		return address, err
	}
	address, second := v.readMetadata(ctx, host+"/.well-known/oauth-authorization-server"+path)
	if second != nil {
		return "", errors.Join(err, second)
	}
	return address, nil
}

func (v *Verifier) readMetadata(ctx context.Context, address string) (keys string, err error) {
	text, err := v.get(ctx, address)
	if err != nil {
		return "", err
	}
	var metadata struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(text, &metadata); err != nil {
		return "", fmt.Errorf("%s: the metadata is not JSON: %w", address, err)
	}
	if metadata.Issuer != v.config.Issuer { // RFC 8414 section 3.3
		return "", fmt.Errorf("%s: the issuer is %.200q; want exactly %q", address, metadata.Issuer, v.config.Issuer)
	}
	u, err := url.Parse(metadata.Keys)
	if err != nil || u.Host == "" || u.User != nil {
		return "", fmt.Errorf("%s: jwks_uri is not a URL", address)
	}
	if u.Scheme != "https" && strings.HasPrefix(address, "https:") {
		return "", fmt.Errorf("%s: jwks_uri has no TLS, unlike the issuer", address)
	}
	return metadata.Keys, checkScheme(u)
}

// get returns the body of a response with status 200.
func (v *Verifier) get(ctx context.Context, address string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	res, err := v.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: status %d", address, res.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, fetchBytesMax+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", address, err)
	case len(text) > fetchBytesMax:
		return nil, fmt.Errorf("%s: the response is larger than %d bytes", address, fetchBytesMax)
	}
	return text, nil
}
