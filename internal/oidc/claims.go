package oidc

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"plantstore/internal/auth"
)

// lifetimeMax is the longest time from iat to exp. A revocation is stored for as long.
const lifetimeMax = auth.JWTLifetimeMax

// rules are the rules for a kind of tokens.
type rules struct {
	kind     string // in messages
	bytesMax int
	types    []string             // accepted header typ, in lower case; a token may have none
	check    func(t parsed) error // for the claims that distinguish the kind
	claim    string               // whose values grant scopes
	grants   map[string]auth.Scopes
}

// check checks everything but the signature of a token, and returns the identity that it states.
func (v *Verifier) check(token string, now time.Time, r rules) (*entry, parsed, error) {
	t, err := parse(token, r.bytesMax)
	if err != nil {
		return nil, t, err
	}
	if t.claims["iss"] != any(v.config.Issuer) {
		return nil, t, errors.New("iss is another issuer")
	}
	valid, issued, err := readTimes(t.claims)
	if err := cmp.Or(checkHeader(t.header, r.types), r.check(t), err, valid.check(now)); err != nil {
		return nil, t, err
	}
	c := auth.Claims{Issuer: v.config.Issuer, IssuedAt: time.Unix(issued, 0).UTC()}
	if c.Subject, err = identifier(t.claims, "sub"); err != nil {
		return nil, t, err
	}
	if _, ok := t.claims["jti"]; ok { // without it only the subject can be revoked
		if c.ID, err = identifier(t.claims, "jti"); err != nil {
			return nil, t, err
		}
	}
	if c.Scopes, err = grants(t.claims, r.claim, r.grants); err != nil {
		return nil, t, err
	}
	c.Name, err = identifier(t.claims, v.config.NameClaim)
	return &entry{auth.NewClaims(c), valid}, t, err
}

// checkHeader checks the type of a token, which tells the kinds of JWTs apart (RFC 8725 section 3.11), and refuses
// members that change the meaning of the header.
func checkHeader(header object, types []string) error {
	if _, ok := header["typ"]; ok && !slices.Contains(types, typeOf(header)) {
		return fmt.Errorf("typ is not %s", strings.Join(types, " or "))
	}
	for _, name := range []string{"crit", "b64", "enc", "zip"} {
		if _, ok := header[name]; ok {
			return fmt.Errorf("the header has %s, which is not supported", name)
		}
	}
	return nil
}

// typeOf returns the type in a header, in lower case and without application/ (RFC 7515 section 4.1.9).
func typeOf(header object) string {
	typ, _ := header["typ"].(string)
	return strings.TrimPrefix(strings.ToLower(typ), "application/")
}

// lifetime is the time in which a token is valid, in Unix seconds without the leeway.
type lifetime struct{ notBefore, expires int64 }

// check allows for clocks that differ by auth.JWTLeeway.
func (l lifetime) check(now time.Time) error {
	const leeway = int64(auth.JWTLeeway / time.Second)
	switch {
	case now.Unix() >= l.expires+leeway:
		return errors.New("exp is in the past")
	case now.Unix() < l.notBefore-leeway:
		return errors.New("nbf or iat is in the future")
	}
	return nil
}

func readTimes(claims object) (valid lifetime, issued int64, err error) {
	if valid.expires, err = numericDate(claims, "exp"); err != nil {
		return valid, 0, err
	}
	if issued, err = numericDate(claims, "iat"); err != nil {
		return valid, 0, err
	}
	if _, ok := claims["nbf"]; ok {
		valid.notBefore, err = numericDate(claims, "nbf")
	}
	valid.notBefore = max(valid.notBefore, issued)
	if lasts := valid.expires - issued; err == nil && (lasts <= 0 || lasts > int64(lifetimeMax/time.Second)) {
		err = fmt.Errorf("the time from iat to exp is not between 0 and %d days", lifetimeMax/(24*time.Hour))
	}
	return valid, issued, err
}

// numericDate returns a required NumericDate (RFC 7519 section 2). It cuts off a fraction: the token starts and
// expires less than a second earlier.
func numericDate(claims object, name string) (int64, error) {
	const secondsMax = 253402300799 // the end of the year 9999
	seconds, ok := claims[name].(float64)
	if !ok || seconds < 0 || seconds > secondsMax {
		return 0, fmt.Errorf("%s is missing or not a number of seconds since 1970", name)
	}
	return int64(seconds), nil
}

// checkAccessToken checks that an access token is for this store. RFC 9068 section 4 requires the type at+jwt, but most
// issuers send JWT or none: the claims then tell the kinds of tokens apart.
func (v *Verifier) checkAccessToken(t parsed) error {
	audience, err := texts(t.claims, "aud")
	switch {
	case err != nil:
		return err
	case v.config.Audience == "" || !slices.Contains(audience, v.config.Audience):
		return errors.New("aud does not have the audience of this store")
	case v.config.ClientID != "" && slices.Contains(audience, v.config.ClientID):
		return errors.New("aud has the client id of the console, so it is an ID token")
	case typeOf(t.header) != "at+jwt":
		err = v.checkClient(t.claims)
	}
	return cmp.Or(err, refuseOtherTokens(t.claims))
}

// checkClient refuses a token for the client that requested it: the audience of an ID token is the client. Issuers name
// the client in different claims.
func (v *Verifier) checkClient(claims object) error {
	for _, name := range []string{"azp", "client_id", "cid", "appid"} {
		client, isString := claims[name].(string)
		if _, ok := claims[name]; ok && (!isString || strings.EqualFold(client, v.config.Audience)) {
			return fmt.Errorf("the audience may be the client of the token (%s), so it may be an ID token", name)
		}
	}
	return nil
}

// refuseOtherTokens refuses ID tokens (OpenID Connect Core section 2 and 3.3.2.11), refresh tokens (issuers name the
// kind in a claim: Keycloak in typ, Amazon Cognito in token_use), logout tokens (OpenID Connect Back-Channel Logout
// section 2.4), and tokens that are bound to a key of the client: they must not be accepted as bearer tokens (RFC
// 8705 section 3, RFC 9449 section 7).
func refuseOtherTokens(claims object) error {
	for _, claim := range [][2]string{
		{"nonce", "an ID token"},
		{"at_hash", "an ID token"},
		{"c_hash", "an ID token"},
		{"s_hash", "an ID token"},
		{"events", "a logout token"},
		{"cnf", "a token that is bound to a key"},
	} {
		if _, ok := claims[claim[0]]; ok {
			return fmt.Errorf("it has the claim %s of %s", claim[0], claim[1])
		}
	}
	for _, name := range []string{"typ", "token_use", "token_type", "tokenType"} {
		kind, _ := claims[name].(string)
		access := []string{"bearer", "access", "access_token", "access-token", "at+jwt"}
		if _, ok := claims[name]; ok && !slices.Contains(access, strings.ToLower(kind)) {
			return fmt.Errorf("the claim %s does not name an access token", name)
		}
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

// CheckIdentifier returns an error unless a text can be the claim sub or jti of an accepted JWT: visible text without a
// part that looks like a secret, because the log and the store have it.
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

// invisible reports control and format characters. utf8.RuneError also stands for half of a surrogate pair: two
// different claims would be equal.
func invisible(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }

// texts returns a claim that is a string or an array of strings, nil if it is absent.
func texts(claims object, name string) ([]string, error) {
	switch claim := claims[name].(type) {
	case nil:
		return nil, nil
	case string:
		return []string{claim}, nil
	case []any:
		list := make([]string, len(claim))
		for n, value := range claim {
			var ok bool
			if list[n], ok = value.(string); !ok {
				return nil, fmt.Errorf("%s has an entry that is not a string", name)
			}
		}
		return list, nil
	}
	return nil, fmt.Errorf("%s is not a string and not an array", name)
}

// grants returns the scopes that the values of a claim grant. An array has a value in each element, scope and scp have
// values between spaces (RFC 8693 section 4.2), and any other string is one value, because its owner may have chosen a
// part of it. An email address needs email_verified (OpenID Connect Core 1.0 section 5.7).
func grants(claims object, name string, scopes map[string]auth.Scopes) (granted auth.Scopes, err error) {
	values, err := texts(claims, name)
	if err != nil {
		return 0, err
	}
	if text, ok := claims[name].(string); ok && (name == "scope" || name == "scp") {
		values = strings.Split(text, " ")
	}
	for _, value := range values {
		granted |= scopes[value]
	}
	if name == "email" && granted != 0 && claims["email_verified"] != any(true) {
		return 0, errors.New("the issuer has not verified the email address (email_verified)")
	}
	return granted, nil
}
