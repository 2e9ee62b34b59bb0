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

// checkHeader checks the header of a token besides its key, as in RFC 9068 section 4.
func checkHeader(header object) error {
	typ, _ := header["typ"].(string)
	typ = strings.ToLower(typ) // RFC 7515 section 4.1.9: media types are case-insensitive
	if strings.TrimPrefix(typ, "application/") != "at+jwt" {
		return errors.New("typ is not at+jwt, so it is no access token")
	}
	return checkExtensions(header)
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

// checkClaims checks the claims of RFC 9068 section 2.2 and returns the identity that they
// state.
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
	ids := map[string]string{"sub": "", "client_id": "", "jti": ""}
	for _, name := range []string{"sub", "client_id", "jti"} {
		if ids[name], err = identifier(claims, name); err != nil {
			return nil, valid, err
		}
	}
	scopes, err := v.scopes(claims)
	if err != nil {
		return nil, valid, err
	}
	name := ids["sub"]
	if v.config.NameClaim != "" && v.config.NameClaim != "sub" {
		if name, err = identifier(claims, v.config.NameClaim); err != nil {
			return nil, valid, err
		}
	}
	return auth.NewClaims(auth.Claims{
		Issuer: v.config.Issuer, Subject: ids["sub"], ID: ids["jti"], Name: name, Scopes: scopes, IssuedAt: issued,
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
	return nil
}

// refuseOtherTokens refuses claims of ID tokens (OpenID Connect Core section 2 and 3.3.2.11),
// and tokens that are bound to a key of the client: they must not be accepted as bearer tokens
// (RFC 8705 section 3, RFC 9449 section 7).
func refuseOtherTokens(claims object) error {
	for _, name := range []string{"nonce", "at_hash", "c_hash", "s_hash"} {
		if _, ok := claims[name]; ok {
			return fmt.Errorf("it has the claim %s of an ID token", name)
		}
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
	case text == "" || len(text) > bytesMax:
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

// scopes returns the scopes that the scope claim grants. The claim is a string with values
// between spaces (RFC 9068 section 2.2.3) or an array of values.
func (v *Verifier) scopes(claims object) (granted auth.Scopes, err error) {
	var values []any
	switch claim := claims[v.config.ScopeClaim].(type) {
	case nil:
	case string:
		for value := range strings.FieldsSeq(claim) {
			values = append(values, value)
		}
	case []any:
		values = claim
	default:
		return 0, fmt.Errorf("%s is not a string and not an array", v.config.ScopeClaim)
	}
	for _, value := range values {
		text, ok := value.(string)
		if !ok {
			return 0, fmt.Errorf("%s has an entry that is not a string", v.config.ScopeClaim)
		}
		granted |= v.config.Scopes[text]
	}
	return granted, nil
}
