package oidc

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"plantstore/internal/auth"
)

// lifetimeMax is the longest time from iat to exp. A revocation is stored for as long.
const lifetimeMax = auth.JWTLifetimeMax

// checkHeader checks the header of an access token besides its key. RFC 9068 section 4 requires the type at+jwt, but
// most issuers send JWT or none: refuseOtherTokens then tells the kinds of tokens apart.
func checkHeader(header object) error {
	typ, isString := header["typ"].(string)
	typ = strings.TrimPrefix(strings.ToLower(typ), "application/") // RFC 7515 section 4.1.9: case-insensitive
	if _, ok := header["typ"]; ok && (!isString || typ != "at+jwt" && typ != "jwt") {
		return errors.New("typ is neither at+jwt nor JWT, so it is not an access token")
	}
	return checkExtensions(header)
}

// checkClient refuses a token for the client that requested it, unless its type is at+jwt: the audience of an ID
// token is the client. Issuers name the client in different claims.
func (v *Verifier) checkClient(header, claims object) error {
	if typ, _ := header["typ"].(string); strings.HasSuffix(strings.ToLower(typ), "at+jwt") {
		return nil
	}
	for _, name := range []string{"azp", "client_id", "cid", "appid"} {
		client, isString := claims[name].(string)
		if _, ok := claims[name]; ok && (!isString || strings.EqualFold(client, v.config.Audience)) {
			return fmt.Errorf("the audience may be the client of the token (%s), so it may be an ID token", name)
		}
	}
	return nil
}

// checkExtensions refuses members of a header that change its meaning.
func checkExtensions(header object) error {
	for _, name := range []string{"crit", "b64", "enc", "zip"} {
		if _, ok := header[name]; ok {
			return fmt.Errorf("the header has %s, which is not supported", name)
		}
	}
	return nil
}

// lifetime is the time in which a token is valid, without the leeway.
type lifetime struct{ notBefore, expires time.Time }

// check allows for clocks that differ by auth.JWTLeeway.
func (l lifetime) check(now time.Time) error {
	switch {
	case !now.Before(l.expires.Add(auth.JWTLeeway)):
		return errors.New("exp is in the past")
	case now.Add(auth.JWTLeeway).Before(l.notBefore):
		return errors.New("nbf or iat is in the future")
	}
	return nil
}

// checkClaims checks the claims of RFC 9068 section 2.2, of which jti and client_id may be absent, and returns the
// identity that they state.
func (v *Verifier) checkClaims(claims object) (*auth.Claims, lifetime, error) {
	valid, issued, err := readTimes(claims)
	if err != nil {
		return nil, valid, err
	}
	if claims["iss"] != any(v.config.Issuer) {
		return nil, valid, errors.New("iss is another issuer")
	}
	if err := v.checkAudience(claims["aud"]); err != nil {
		return nil, valid, err
	}
	if err := refuseOtherTokens(claims); err != nil {
		return nil, valid, err
	}
	subject, err := identifier(claims, "sub")
	if err != nil {
		return nil, valid, err
	}
	id := "" // then only the subject can be revoked
	if _, ok := claims["jti"]; ok {
		if id, err = identifier(claims, "jti"); err != nil {
			return nil, valid, err
		}
	}
	scopes, err := grants(claims, v.config.ScopeClaim, v.config.Scopes)
	if err != nil {
		return nil, valid, err
	}
	name := subject
	if v.config.NameClaim != "" && v.config.NameClaim != "sub" {
		if name, err = identifier(claims, v.config.NameClaim); err != nil {
			return nil, valid, err
		}
	}
	return auth.NewClaims(auth.Claims{
		Issuer: v.config.Issuer, Subject: subject, ID: id, Name: name, Scopes: scopes, IssuedAt: issued,
	}), valid, nil
}

func readTimes(claims object) (valid lifetime, issued time.Time, err error) {
	if valid.expires, err = numericDate(claims, "exp"); err != nil {
		return valid, issued, err
	}
	if issued, err = numericDate(claims, "iat"); err != nil {
		return valid, issued, err
	}
	valid.notBefore = issued
	if _, ok := claims["nbf"]; ok {
		notBefore, err := numericDate(claims, "nbf")
		if err != nil {
			return valid, issued, err
		}
		if notBefore.After(issued) {
			valid.notBefore = notBefore
		}
	}
	if lasts := valid.expires.Sub(issued); lasts <= 0 || lasts > lifetimeMax {
		return valid, issued, fmt.Errorf("the time from iat to exp is not between 0 and %d days", lifetimeMax/(24*time.Hour))
	}
	return valid, issued, nil
}

// numericDate returns a required NumericDate (RFC 7519 section 2). It accepts whole seconds
// only, so that no rounding and no exponent decides about a token.
func numericDate(claims object, name string) (time.Time, error) {
	const secondsMax = 253402300799 // the end of the year 9999
	number, _ := claims[name].(json.Number)
	seconds, err := strconv.ParseInt(number.String(), 10, 64)
	if err != nil || seconds < 0 || seconds > secondsMax {
		return time.Time{}, fmt.Errorf("%s is missing or not a number of whole seconds", name)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

func (v *Verifier) checkAudience(aud any) error {
	list, ok := aud.([]any)
	if !ok {
		list = []any{aud}
	}
	for _, entry := range list {
		if _, ok := entry.(string); !ok {
			return errors.New("aud is missing, or has an entry that is not a string")
		}
	}
	if v.config.Audience == "" || !slices.Contains(list, any(v.config.Audience)) {
		return errors.New("aud does not have the audience of this store")
	}
	if v.config.ClientID != "" && slices.Contains(list, any(v.config.ClientID)) {
		return errors.New("aud has the client id of the console, so it is an ID token")
	}
	return nil
}

// refuseOtherTokens refuses ID tokens (OpenID Connect Core section 2 and 3.3.2.11), refresh tokens (issuers name the
// kind in a claim: Keycloak in typ, Amazon Cognito in token_use), logout tokens (OpenID Connect Back-Channel Logout
// section 2.4), and tokens that are bound to a key of the client: they must not be accepted as bearer tokens (RFC
// 8705 section 3, RFC 9449 section 7).
func refuseOtherTokens(claims object) error {
	for _, name := range []string{"nonce", "at_hash", "c_hash", "s_hash"} {
		if _, ok := claims[name]; ok {
			return fmt.Errorf("it has the claim %s of an ID token", name)
		}
	}
	for _, name := range []string{"typ", "token_use", "token_type", "tokenType"} {
		kind, _ := claims[name].(string)
		access := []string{"bearer", "access", "access_token", "access-token", "at+jwt"}
		if _, ok := claims[name]; ok && !slices.Contains(access, strings.ToLower(kind)) {
			return fmt.Errorf("the claim %s does not name an access token", name)
		}
	}
	if _, ok := claims["events"]; ok {
		return errors.New("it has the claim events of a logout token")
	}
	if _, ok := claims["cnf"]; ok {
		return errors.New("it is bound to a key (cnf), so it is no bearer token")
	}
	return nil
}

// identifier returns a required claim that names something.
func identifier(claims object, name string) (string, error) {
	text, _ := claims[name].(string)
	if err := CheckIdentifier(text); err != nil {
		return "", fmt.Errorf("%s %w", name, err)
	}
	return text, nil
}

// CheckIdentifier returns an error unless a text can be the claim sub or jti of an accepted JWT:
// visible text without a part that looks like a secret, because the log and the store have it.
func CheckIdentifier(text string) error {
	const bytesMax = 255 // OpenID Connect Core section 2, for sub
	switch {
	case strings.TrimSpace(text) == "" || len(text) > bytesMax:
		return fmt.Errorf("is missing, not a string, empty or longer than %d bytes", bytesMax)
	case strings.ContainsFunc(text, invisible):
		return errors.New("has an invisible character")
	case auth.LooksLikeSecret(text):
		return errors.New("looks like a secret")
	}
	return nil
}

// invisible reports control and format characters. utf8.RuneError also stands for half of a
// surrogate pair: two different claims would be equal.
func invisible(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }

// grants returns the scopes that the values of a claim grant. An array has a value in each element, scope and scp have
// values between spaces (RFC 8693 section 4.2), and any other string is one value, because its owner may have chosen a
// part of it. An email address needs email_verified (OpenID Connect Core 1.0 section 5.7).
func grants(claims object, name string, scopes map[string]auth.Scopes) (granted auth.Scopes, err error) {
	var values []any
	switch claim := claims[name].(type) {
	case nil:
	case string:
		values = []any{claim}
		if name == "scope" || name == "scp" {
			values = nil
			for value := range strings.SplitSeq(claim, " ") {
				values = append(values, value)
			}
		}
	case []any:
		values = claim
	default:
		return 0, fmt.Errorf("%s is not a string and not an array", name)
	}
	for _, value := range values {
		text, ok := value.(string)
		if !ok {
			return 0, fmt.Errorf("%s has an entry that is not a string", name)
		}
		granted |= scopes[text]
	}
	if name == "email" && granted != 0 && claims["email_verified"] != any(true) {
		return 0, errors.New("the issuer has not verified the email address (email_verified)")
	}
	return granted, nil
}
