package oidc

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4/json"
)

// Limits of a token. The tokens of usual issuers have 1 to 2 KB and two levels.
const (
	tokenBytesMax   = 8 << 10
	idTokenBytesMax = 64 << 10 // it can name hundreds of groups
	jsonDepthMax    = 8
)

// parsed is a token whose signature is not verified yet.
type parsed struct {
	text   string // the whole token
	header object
	claims object
}

// parse splits a JWS in compact serialization (RFC 7515 section 7.1) and decodes its header and its claims. It is
// stricter than most libraries: a token has one spelling only, and no parser of the issuer can read other members than
// this one.
func parse(token string, bytesMax int) (t parsed, err error) {
	if len(token) > bytesMax {
		return t, fmt.Errorf("it is longer than %d bytes", bytesMax)
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return t, errors.New("it does not have three parts")
	}
	t.text = token
	if t.header, err = decodeObject(parts[0]); err != nil {
		return t, fmt.Errorf("header: %w", err)
	}
	if !strings.HasPrefix(parts[0], "eyJ") { // {" in base64url, by which auth.LooksLikeSecret recognizes a JWT
		return t, errors.New("header: it has white space before its first member")
	}
	if t.claims, err = decodeObject(parts[1]); err != nil {
		return t, fmt.Errorf("claims: %w", err)
	}
	if signature, err := decodeBase64(parts[2]); err != nil || len(signature) == 0 {
		return t, errors.New("signature: it is empty or not base64url")
	}
	return t, nil
}

// IDs returns the claims iss and jti of a JWT whose signature is not verified. The error has no part of the JWT.
func IDs(token string) (issuer, jti string, err error) {
	t, err := parse(token, tokenBytesMax)
	if err != nil {
		return "", "", err
	}
	if issuer, err = identifier(t.claims, "iss"); err != nil {
		return "", "", err
	}
	if _, ok := t.claims["jti"]; !ok {
		return "", "", errors.New("it has no jti, so it cannot be revoked alone; revoke its subject with --subject")
	}
	jti, err = identifier(t.claims, "jti")
	return issuer, jti, err
}

// decodeBase64 decodes base64url without padding (RFC 7515 section 2). Unlike Go's decoder it refuses line breaks, and
// unlike RawURLEncoding it refuses trailing bits.
func decodeBase64(part string) ([]byte, error) {
	text, err := base64.RawURLEncoding.Strict().DecodeString(part)
	if err != nil || strings.ContainsAny(part, "\r\n") {
		return nil, errors.New("it is not base64url") // the error of the package has a character of the token
	}
	return text, nil
}

// object is a JSON object. Its values have the types of encoding/json.
type object map[string]any

// decodeObject decodes one JSON object in UTF-8. The parser of go-jose refuses two members of the same name.
func decodeObject(part string) (members object, err error) {
	text, err := decodeBase64(part)
	switch {
	case err != nil:
		return nil, err
	case isDeep(text):
		return nil, fmt.Errorf("it nests deeper than %d levels", jsonDepthMax)
	case !utf8.Valid(text) || json.Unmarshal(text, &members) != nil || members == nil:
		return nil, errors.New("it is not a JSON object in UTF-8 without duplicate members")
	}
	return members, nil
}

// isDeep reports whether JSON nests deeper than jsonDepthMax. The parser would need memory for each level.
func isDeep(text []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		}
		if depth > jsonDepthMax {
			return true
		}
	}
	return false
}
