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

// checkRedirect follows redirects on the same host only: another host could have another owner. It follows none of the
// token endpoint, which would repeat the code and the secret.
func checkRedirect(r *http.Request, via []*http.Request) error {
	first := via[0].URL
	switch {
	case via[0].Method == http.MethodPost:
		return errors.New("the token endpoint of the issuer redirects")
	case len(via) > redirectsMax || r.URL.Scheme != first.Scheme || r.URL.Host != first.Host:
		return errors.New("the issuer redirects to another host, or too often")
	}
	return nil
}

// CheckIssuer returns an error unless a text is an issuer: an https URL without user, query and fragment (RFC 8414
// section 2). An http URL is accepted for a loopback host.
func CheckIssuer(issuer string) error {
	if strings.Contains(issuer, "?") {
		return errors.New("an issuer cannot have a query")
	}
	return checkURL(issuer)
}

func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return fmt.Errorf("%.200q is not a URL; use the form https://login.example/realm", text)
	case u.User != nil || strings.Contains(text, "#"):
		return errors.New("the URL has a user or a fragment; remove it")
	case u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())):
		return fmt.Errorf("%.200q has no TLS; use https, or http with a loopback address", text)
	}
	return nil
}

func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// metadata is the part of the metadata of an issuer (RFC 8414 section 2) that this package uses.
type metadata struct {
	Issuer        string   `json:"issuer"`
	Keys          string   `json:"jwks_uri"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	TokenAuth     []string `json:"token_endpoint_auth_methods_supported"`
	PKCE          []string `json:"code_challenge_methods_supported"`
	SendsIssuer   bool     `json:"authorization_response_iss_parameter_supported"` // RFC 9207 section 3
}

// Check returns an error if the keys of the issuer cannot be fetched.
func Check(ctx context.Context, c Config) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeMax)
	defer cancel()
	v := &Verifier{config: c, client: newClient(nil)}
	defer v.client.CloseIdleConnections()
	_, _, err := v.fetch(ctx)
	return err
}

// fetch reads the metadata of the issuer and then the keys.
func (v *Verifier) fetch(ctx context.Context) (*metadata, *keySet, error) {
	m, err := v.discover(ctx)
	if err != nil {
		return nil, nil, err
	}
	text, err := v.get(ctx, m.Keys)
	if err != nil {
		return nil, nil, err
	}
	set, err := parseKeySet(text)
	return m, set, err
}

// discover returns the metadata of the issuer. It tries OpenID Connect Discovery 1.0 section 4, then RFC 8414 section
// 3.
func (v *Verifier) discover(ctx context.Context) (*metadata, error) {
	issuer, _ := url.Parse(v.config.Issuer) // CheckIssuer accepts it
	host, path := issuer.Scheme+"://"+issuer.Host, strings.TrimRight(issuer.EscapedPath(), "/")
	m, first := v.readMetadata(ctx, host+path+"/.well-known/openid-configuration")
	if first == nil {
		return m, nil
	}
	m, second := v.readMetadata(ctx, host+"/.well-known/oauth-authorization-server"+path)
	if second != nil {
		return nil, errors.Join(first, second)
	}
	return m, nil
}

func (v *Verifier) readMetadata(ctx context.Context, address string) (*metadata, error) {
	text, err := v.get(ctx, address)
	if err != nil {
		return nil, err
	}
	m := &metadata{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("%s: the metadata is not JSON: %w", address, err)
	}
	if m.Issuer != v.config.Issuer { // RFC 8414 section 3.3
		return nil, fmt.Errorf("%s: the issuer is %.200q; want exactly %q", address, m.Issuer, v.config.Issuer)
	}
	if err := v.checkEndpoint("jwks_uri", m.Keys); err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return m, nil
}

// checkEndpoint returns an error unless a member of the metadata is a URL that is as safe as the issuer.
func (v *Verifier) checkEndpoint(name, address string) error {
	if err := checkURL(address); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if strings.HasPrefix(v.config.Issuer, "https:") && !strings.HasPrefix(address, "https:") {
		return fmt.Errorf("%s has no TLS, unlike the issuer", name)
	}
	return nil
}

// get returns the body of a response with status 200.
func (v *Verifier) get(ctx context.Context, address string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json, application/jwk-set+json") // Kubernetes serves keys as the latter only
	res, err := v.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, fetchBytesMax+1))
	switch {
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: status %d", address, res.StatusCode)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", address, err)
	case len(text) > fetchBytesMax:
		return nil, fmt.Errorf("%s: the response is larger than %d bytes", address, fetchBytesMax)
	}
	return text, nil
}
