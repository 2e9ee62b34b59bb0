package oidc

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"plantstore/internal/auth"
)

// ClientConfig configures a Client. ID, RedirectURL, Claim and Grants are required.
type ClientConfig struct {
	ID          string
	Secret      string // empty: a public client
	RedirectURL string // of the console, exactly as the issuer knows it
	// Scopes are those of the authorization request. They include openid.
	Scopes []string

	// Claim is the claim of the ID token whose values grant scopes: a string, or an array of
	// strings.
	Claim string
	// Grants are the scopes that a value of Claim grants.
	Grants map[string]auth.Scopes
}

// tokenRequestsMax bounds the token requests at the same time. An issuer that responds slowly
// holds no more requests.
const tokenRequestsMax = 8

// ErrBusy means that too many sign-ins wait for the issuer.
var ErrBusy = errors.New("too many sign-ins wait for the issuer")

// Refusal is the error response of an issuer to a sign-in (RFC 6749 sections 4.1.2.1 and 5.2).
type Refusal struct {
	Code string // such as access_denied; lower-case letters, digits and underscores
}

func (r *Refusal) Error() string { return "the issuer refused the sign-in: " + r.Code }

// Client signs people in at the issuer of a Verifier: the authorization code flow of OpenID
// Connect Core 1.0 section 3.1, with PKCE (RFC 7636) and the rules of RFC 9700. It is safe for
// concurrent use.
type Client struct {
	config   ClientConfig
	verifier *Verifier
	http     *http.Client
	requests chan struct{} // semaphore of tokenRequestsMax
}

// NewClient returns a Client. It uses the connections of the Verifier, and ends with it.
func NewClient(v *Verifier, c ClientConfig) (*Client, error) {
	if c.ID == "" || c.RedirectURL == "" || c.Claim == "" || len(c.Grants) == 0 {
		return nil, errors.New("oidc.ClientConfig has an empty field")
	}
	return &Client{
		config: c, verifier: v, requests: make(chan struct{}, tokenRequestsMax),
		http: &http.Client{Transport: v.client.Transport, CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("the token endpoint of the issuer redirects") // it would repeat the code and the secret
		}},
	}, nil
}

// Issuer returns the issuer.
func (c *Client) Issuer() string { return c.verifier.config.Issuer }

// RedirectURL returns ClientConfig.RedirectURL.
func (c *Client) RedirectURL() string { return c.config.RedirectURL }

// Flow is a sign-in that has begun. Only the browser that began it may know it.
type Flow struct {
	State    string // 256 random bits, as the other two
	Nonce    string
	Verifier string // of PKCE
}

// Begin returns a new sign-in, and the address at the issuer where it continues. ErrNoKeys means
// that the issuer has not responded yet.
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
	f = Flow{State: random(), Nonce: random(), Verifier: random()}
	challenge := sha256.Sum256([]byte(f.Verifier))
	u, err := url.Parse(m.Authorization)
	if err != nil {
		return "", f, err
	}
	q := u.Query() // RFC 6749 section 3.1: the endpoint may have a query
	for name, value := range map[string]string{
		"response_type": "code", "client_id": c.config.ID, "redirect_uri": c.config.RedirectURL,
		"scope": strings.Join(c.config.Scopes, " "), "state": f.State, "nonce": f.Nonce,
		"code_challenge": base64.RawURLEncoding.EncodeToString(challenge[:]), "code_challenge_method": "S256",
	} {
		q.Set(name, value)
	}
	u.RawQuery = q.Encode()
	return u.String(), f, nil
}

func random() string {
	var bits [32]byte
	_, _ = rand.Read(bits[:]) // it never returns an error
	return base64.RawURLEncoding.EncodeToString(bits[:])
}

// metadata returns the metadata of the issuer. It waits for a fetch that runs.
func (c *Client) metadata(ctx context.Context) (*metadata, error) {
	if m := c.verifier.metadata.Load(); m != nil {
		return m, nil
	}
	c.verifier.await(ctx, c.verifier.requestFetch(false), time.Now().Add(requestWaits))
	if m := c.verifier.metadata.Load(); m != nil {
		return m, nil
	}
	return nil, ErrNoKeys
}

// Finish returns the claims of the person who signed in, from the parameters of the authorization
// response. The caller has found f with the browser that sends them. The error is a *Refusal, an
// *auth.Invalid, ErrBusy, or that of the connection to the issuer. Claims without a scope mean
// that the person has no access. The caller checks revocations.
func (c *Client) Finish(ctx context.Context, f Flow, response url.Values, now time.Time) (*auth.Claims, error) {
	m, err := c.metadata(ctx)
	if err != nil {
		return nil, err
	}
	code, err := c.checkResponse(m, f, response)
	if err != nil {
		return nil, err
	}
	select {
	case c.requests <- struct{}{}:
		defer func() { <-c.requests }()
	default:
		return nil, ErrBusy
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeMax)
	defer cancel()
	token, err := c.requestToken(ctx, m, code, f.Verifier)
	if err != nil {
		return nil, err
	}
	claims, err := c.verifyIDToken(ctx, token, f.Nonce, now)
	if err != nil && !errors.Is(err, ErrNoKeys) {
		return nil, &auth.Invalid{Reason: "id token: " + err.Error()}
	}
	return claims, err
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
		return "", &auth.Invalid{Reason: "sign-in: iss is another issuer"}
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

// refusalOf returns the Refusal with an error code of the issuer. The code appears on a page and in
// the log, so another text than a code is replaced.
func refusalOf(code string) *Refusal {
	const bytesMax = 64
	if code == "" || len(code) > bytesMax || strings.Trim(code, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
		code = "unknown_error"
	}
	return &Refusal{code}
}

// requestToken returns the ID token for a code (OpenID Connect Core 1.0 section 3.1.3).
func (c *Client) requestToken(ctx context.Context, m *metadata, code, verifier string) (idToken string, err error) {
	if err := c.verifier.checkEndpoint("token_endpoint", m.Token); err != nil {
		return "", err
	}
	form := url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {c.config.RedirectURL},
		"code_verifier": {verifier},
	}
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Accept": {"application/json"}}
	c.authenticate(m, form, header)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.Token, strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	r.Header = header
	res, err := c.http.Do(r)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := readBody(res, m.Token)
	if err != nil {
		return "", err
	}
	return readTokens(res.StatusCode, body, m.Token)
}

// authenticate adds the credential of the client to a token request (OpenID Connect Core 1.0
// section 9). An issuer without a list of methods supports client_secret_basic (RFC 8414
// section 2).
func (c *Client) authenticate(m *metadata, form url.Values, header http.Header) {
	basic := len(m.TokenAuth) == 0 || slices.Contains(m.TokenAuth, "client_secret_basic")
	switch {
	case c.config.Secret == "":
		form.Set("client_id", c.config.ID)
	case basic: // RFC 6749 section 2.3.1 encodes both parts as forms are
		pair := url.QueryEscape(c.config.ID) + ":" + url.QueryEscape(c.config.Secret)
		header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(pair)))
	default:
		form.Set("client_id", c.config.ID)
		form.Set("client_secret", c.config.Secret)
	}
}

// readTokens returns the ID token of a token response. No error has a part of it.
func readTokens(status int, body []byte, address string) (idToken string, err error) {
	var tokens struct {
		IDToken string `json:"id_token"`
		Error   string `json:"error"`
	}
	malformed := json.Unmarshal(body, &tokens) != nil
	switch {
	case status == http.StatusBadRequest && !malformed && tokens.Error == "invalid_grant":
		return "", &auth.Invalid{Reason: "sign-in: the issuer refused the code (invalid_grant)"}
	case (status == http.StatusBadRequest || status == http.StatusUnauthorized) && !malformed:
		return "", refusalOf(tokens.Error)
	case status != http.StatusOK:
		return "", fmt.Errorf("%s: status %d", address, status)
	case malformed:
		return "", fmt.Errorf("%s: the response is not JSON", address)
	case tokens.IDToken == "":
		return "", &auth.Invalid{Reason: "sign-in: the response has no ID token; the scopes must include openid"}
	}
	return tokens.IDToken, nil
}
