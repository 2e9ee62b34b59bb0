package oidc

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
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

// parse splits a JWS in compact serialization (RFC 7515 section 7.1) and decodes its header
// and its claims. It is stricter than most libraries: a token has one spelling only, and no
// parser of the issuer can read other members than this one.
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

// IDs returns the claims iss and jti of a JWT whose signature is not verified. The error has no
// part of the JWT.
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

func decodeObject(part string) (object, error) {
	text, err := decodeBase64(part)
	if err != nil {
		return nil, err
	}
	return parseObject(text)
}

// decodeBase64 decodes base64url without padding (RFC 7515 section 2). Unlike Go's decoder it
// refuses line breaks, and unlike RawURLEncoding it refuses trailing bits.
func decodeBase64(part string) ([]byte, error) {
	if strings.ContainsAny(part, "\r\n") {
		return nil, errors.New("it is not base64url")
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(part)
	if err != nil {
		return nil, errors.New("it is not base64url") // the error of the package has a character of the token
	}
	return text, nil
}

// object is a JSON object. Its values have the types of encoding/json; a number is a json.Number.
type object map[string]any

// parseObject parses one JSON object in UTF-8 without duplicate members.
func parseObject(text []byte) (object, error) {
	if !utf8.Valid(text) || !json.Valid(text) {
		return nil, errors.New("it is not JSON in UTF-8")
	}
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber()
	value, err := parseValue(in, 1)
	if err != nil {
		return nil, err
	}
	members, ok := value.(object)
	if !ok {
		return nil, errors.New("it is not a JSON object")
	}
	return members, nil // json.Valid has found no second value
}

func parseValue(in *json.Decoder, depth int) (any, error) {
	token, err := in.Token()
	if err != nil {
		return nil, errors.New("it is not JSON") // the error of the package may have a part of the text
	}
	delimiter, ok := token.(json.Delim)
	switch {
	case !ok:
		return token, nil
	case depth > jsonDepthMax:
		return nil, fmt.Errorf("it nests deeper than %d levels", jsonDepthMax)
	case delimiter == '{':
		return parseMembers(in, depth)
	}
	var list []any
	for in.More() {
		value, err := parseValue(in, depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	_, err = in.Token() // the closing bracket
	return list, err
}

func parseMembers(in *json.Decoder, depth int) (any, error) {
	members := object{}
	for in.More() {
		name, err := in.Token()
		if err != nil {
			return nil, errors.New("it is not JSON")
		}
		value, err := parseValue(in, depth+1)
		if err != nil {
			return nil, err
		}
		if _, twice := members[name.(string)]; twice { // json.Valid: every name is a string
			return nil, errors.New("it has two members of the same name")
		}
		members[name.(string)] = value
	}
	_, err := in.Token() // the closing brace
	return members, err
}
