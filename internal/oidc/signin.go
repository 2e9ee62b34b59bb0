package oidc

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"plantstore/internal/auth"
)

// ClientConfig configures a Client. ID, RedirectURL, Claim and Grants are required.
type ClientConfig struct {
	ID          string
	Secret      string // empty: a public client
	RedirectURL string // in the console, exactly as the issuer knows it
	// Scopes are requested from the issuer. They include openid.
	Scopes []string

	// Claim is the claim of the ID token whose values grant scopes: a string, or an array of strings.
	Claim string
	// Grants are the scopes that a value of Claim grants.
	Grants map[string]auth.Scopes
}

// Refusal is the error response of an issuer to a sign-in (RFC 6749 sections 4.1.2.1 and 5.2).
type Refusal struct {
	Code string // such as access_denied; lower-case letters, digits and underscores
}

func (r *Refusal) Error() string { return "the issuer refused the sign-in: " + r.Code }

// Client signs people in at the issuer of a Verifier: the authorization code flow of OpenID Connect Core 1.0 section
// 3.1, with PKCE (RFC 7636) and the rules of RFC 9700. It is safe for concurrent use.
type Client struct {
	config   ClientConfig
	verifier *Verifier
}

// NewClient returns a Client. It uses the connections of the Verifier, and ends with it.
func NewClient(v *Verifier, c ClientConfig) *Client { return &Client{config: c, verifier: v} }

// Issuer returns the issuer.
func (c *Client) Issuer() string { return c.verifier.config.Issuer }

// Claim returns ClientConfig.Claim.
func (c *Client) Claim() string { return c.config.Claim }

// RedirectURL returns ClientConfig.RedirectURL.
func (c *Client) RedirectURL() string { return c.config.RedirectURL }

// Flow is a sign-in that has begun. Only the browser that began it may know it.
type Flow struct {
	State    string // 256 random bits, as the other two
	Nonce    string
	Verifier string // for PKCE
}

// Begin returns a new sign-in, and the address at the issuer where it continues. ErrNoKeys means that the issuer has
// not responded yet.
func (c *Client) Begin(ctx context.Context) (address string, f Flow, err error) {
	m, err := c.metadata(ctx)
	if err != nil {
		return "", f, err
	}
	if err := c.verifier.checkEndpoint("authorization_endpoint", m.Authorization); err != nil {
		return "", f, err
	}
	if len(m.PKCE) > 0 && !slices.Contains(m.PKCE, "S256") {
		return "", f, errors.New("the issuer does not support PKCE with S256")
	}
	f = Flow{State: oauth2.GenerateVerifier(), Nonce: oauth2.GenerateVerifier(), Verifier: oauth2.GenerateVerifier()}
	nonce := oauth2.SetAuthURLParam("nonce", f.Nonce)
	return c.flow(m).AuthCodeURL(f.State, nonce, oauth2.S256ChallengeOption(f.Verifier)), f, nil
}

// flow returns the authorization code flow at the endpoints of the issuer. An issuer without a list of methods supports
// client_secret_basic (RFC 8414 section 2).
func (c *Client) flow(m *metadata) *oauth2.Config {
	style := oauth2.AuthStyleInHeader
	if c.config.Secret == "" || len(m.TokenAuth) > 0 && !slices.Contains(m.TokenAuth, "client_secret_basic") {
		style = oauth2.AuthStyleInParams
	}
	return &oauth2.Config{
		ClientID: c.config.ID, ClientSecret: c.config.Secret, RedirectURL: c.config.RedirectURL, Scopes: c.config.Scopes,
		Endpoint: oauth2.Endpoint{AuthURL: m.Authorization, TokenURL: m.Token, AuthStyle: style},
	}
}

// metadata returns the metadata of the issuer. It waits for the first fetch.
func (c *Client) metadata(ctx context.Context) (*metadata, error) {
	if m := c.verifier.metadata.Load(); m != nil {
		return m, nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestWaits)
	defer cancel()
	if c.verifier.failed.Load() == 0 && c.verifier.awaitAmong(ctx, c.verifier.requestFetch(false)) {
		if m := c.verifier.metadata.Load(); m != nil {
			return m, nil
		}
	}
	return nil, ErrNoKeys
}

// Finish returns the claims of the person who signed in, from the parameters of the authorization response. The caller
// has found f with the browser that sends them, and bounds the calls at the same time. The error is a *Refusal, an
// *auth.Invalid, or an error of the connection to the issuer. Claims without a scope mean that the person has no
// access. The caller checks revocations.
func (c *Client) Finish(ctx context.Context, f Flow, response url.Values, now time.Time) (*auth.Claims, error) {
	m, err := c.metadata(ctx)
	if err != nil {
		return nil, err
	}
	code, err := c.checkResponse(m, f, response)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeMax)
	defer cancel()
	token, err := c.requestToken(ctx, m, code, f.Verifier)
	if err != nil {
		return nil, err
	}
	e, _, err := c.verifier.verify(ctx, token, now, true, c.idTokenRules(f))
	if err != nil {
		return nil, err
	}
	return e.claims, nil
}

// checkResponse returns the code of an authorization response.
func (c *Client) checkResponse(m *metadata, f Flow, response url.Values) (code string, err error) {
	for _, name := range []string{"state", "code", "error", "iss"} { // RFC 6749 section 3.1: no parameter twice
		if len(response[name]) > 1 {
			return "", &auth.Invalid{Reason: "sign-in: " + name + " is there twice"}
		}
	}
	if f.State == "" || subtle.ConstantTimeCompare([]byte(response.Get("state")), []byte(f.State)) != 1 {
		return "", &auth.Invalid{Reason: "sign-in: state is that of another sign-in"}
	}
	issuer := response["iss"] // RFC 9207 section 2.4
	if len(issuer) == 0 && m.SendsIssuer || len(issuer) == 1 && issuer[0] != c.verifier.config.Issuer {
		return "", &auth.Invalid{Reason: "sign-in: iss is missing or another issuer"}
	}
	if response.Has("error") {
		return "", refusalOf(response.Get("error"))
	}
	const bytesMax = 4 << 10
	if code = response.Get("code"); code == "" || len(code) > bytesMax {
		return "", &auth.Invalid{Reason: "sign-in: code is missing or too long"}
	}
	return code, nil
}

// refusalOf returns the Refusal with an error code of the issuer. The code appears on a page and in the log, so another
// text than a code is replaced.
func refusalOf(code string) *Refusal {
	const bytesMax = 64
	if code == "" || len(code) > bytesMax || strings.Trim(code, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
		code = "unknown_error"
	}
	return &Refusal{code}
}

// requestToken returns the ID token for a code (OpenID Connect Core 1.0 section 3.1.3). No error has a part of the
// response but an error code.
func (c *Client) requestToken(ctx context.Context, m *metadata, code, verifier string) (idToken string, err error) {
	if err := c.verifier.checkEndpoint("token_endpoint", m.Token); err != nil {
		return "", err
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, c.verifier.client)
	token, err := c.flow(m).Exchange(ctx, code, oauth2.VerifierOption(verifier))
	var response *oauth2.RetrieveError
	var connection *url.Error
	switch {
	case errors.As(err, &response) && (response.ErrorCode == "" || response.Response.StatusCode >= 500):
		return "", fmt.Errorf("%s: status %d", m.Token, response.Response.StatusCode)
	case response != nil && response.ErrorCode == "invalid_grant":
		return "", &auth.Invalid{Reason: "sign-in: the issuer refused the code (invalid_grant)"}
	case response != nil:
		return "", refusalOf(response.ErrorCode)
	case errors.As(err, &connection): // its URL may be the target of a redirect
		return "", fmt.Errorf("%s: %w", m.Token, connection.Err)
	case err != nil:
		return "", fmt.Errorf("%s: the response is incomplete, or not JSON with an access_token", m.Token)
	}
	idToken, _ = token.Extra("id_token").(string)
	if idToken == "" {
		return "", &auth.Invalid{Reason: "sign-in: the response has no ID token; the scopes must include openid"}
	}
	return idToken, nil
}

// idTokenRules returns the rules for an ID token of a sign-in (OpenID Connect Core 1.0 section 3.1.3.7). It has the
// type JWT or none.
func (c *Client) idTokenRules(f Flow) rules {
	return rules{
		"id token", idTokenBytesMax,
		[]string{"jwt"},
		func(t parsed) error { return c.checkIDToken(t.claims, f.Nonce) },
		c.config.Claim, c.config.Grants,
	}
}

// checkIDToken checks that an ID token is for this client and sign-in. An audience beside this client could use the
// token here, so azp must then name this client.
func (c *Client) checkIDToken(claims object, nonce string) error {
	audience, err := texts(claims, "aud")
	azp, ok := claims["azp"]
	got, _ := claims["nonce"].(string)
	switch {
	case err != nil:
		return err
	case !slices.Contains(audience, c.config.ID):
		return errors.New("aud does not have the client id of the console")
	case (ok || len(audience) > 1) && azp != any(c.config.ID):
		return errors.New("azp is not the client id of the console")
	case subtle.ConstantTimeCompare([]byte(got), []byte(nonce)) != 1:
		return errors.New("nonce is that of another sign-in")
	}
	return nil
}
