package oidc

import (
	"context"
	"crypto/subtle"
	"errors"
	"strings"
	"time"

	"plantstore/internal/auth"
)

// verifyIDToken returns the claims of an ID token (OpenID Connect Core 1.0 section 3.1.3.7) that
// the issuer has signed for this client and this sign-in. The error has no part of the token.
func (c *Client) verifyIDToken(ctx context.Context, token, nonce string, now time.Time) (*auth.Claims, error) {
	t, err := parse(token, idTokenBytesMax)
	if err != nil {
		return nil, err
	}
	if err := checkIDTokenHeader(t.header); err != nil {
		return nil, err
	}
	claims, err := c.checkIDToken(t.claims, nonce, now)
	if err != nil {
		return nil, err
	}
	_, err = c.verifier.checkSignature(ctx, t, true)
	return claims, err
}

// checkIDTokenHeader refuses JWTs of other kinds (RFC 8725 section 3.11). An ID token has the type
// JWT or none.
func checkIDTokenHeader(header object) error {
	if typ, ok := header["typ"]; ok {
		text, _ := typ.(string)
		if strings.TrimPrefix(strings.ToLower(text), "application/") != "jwt" {
			return errors.New("typ is not JWT, so it is no ID token")
		}
	}
	return checkExtensions(header)
}

func (c *Client) checkIDToken(claims object, nonce string, now time.Time) (*auth.Claims, error) {
	valid, issued, err := readTimes(claims)
	if err == nil {
		err = valid.check(now)
	}
	if err != nil {
		return nil, err
	}
	if claims["iss"] != any(c.verifier.config.Issuer) {
		return nil, errors.New("iss is another issuer")
	}
	if err := c.checkClientID(claims); err != nil {
		return nil, err
	}
	got, _ := claims["nonce"].(string)
	if subtle.ConstantTimeCompare([]byte(got), []byte(nonce)) != 1 {
		return nil, errors.New("nonce is that of another sign-in")
	}
	subject, err := identifier(claims, "sub")
	if err != nil {
		return nil, err
	}
	name := subject
	if n := c.verifier.config.NameClaim; n != "" && n != "sub" {
		if name, err = identifier(claims, n); err != nil {
			return nil, err
		}
	}
	scopes, err := grants(claims, c.config.Claim, c.config.Grants)
	if err != nil {
		return nil, err
	}
	return auth.NewClaims(auth.Claims{
		Issuer: c.verifier.config.Issuer, Subject: subject, Name: name, Scopes: scopes, IssuedAt: issued,
	}), nil
}

// checkClientID checks aud and azp. An audience beside this client could use the token here, so
// azp must then name this client.
func (c *Client) checkClientID(claims object) error {
	list, ok := claims["aud"].([]any)
	if !ok {
		list = []any{claims["aud"]}
	}
	own := false
	for _, entry := range list {
		own = own || entry == any(c.config.ID)
	}
	if !own {
		return errors.New("aud does not have the client id of the console")
	}
	if azp, ok := claims["azp"]; (ok || len(list) > 1) && azp != any(c.config.ID) {
		return errors.New("azp is not the client id of the console")
	}
	return nil
}
