package auth

import (
	"net/http"
	"strings"

	"plantstore/internal/plant"
)

// Bearer returns the bearer credential of a request, as in RFC 6750 section 2.1. It reads the Authorization header
// only, not the query or the body. The error is a *plant.Error with plant.CodeCredentialMissing or
// plant.CodeAuthMalformed.
func Bearer(header http.Header) (string, error) {
	values := header["Authorization"]
	if len(values) == 0 {
		return "", errMissing
	}
	if len(values) > 1 {
		return "", plant.Errorf(plant.CodeAuthMalformed, "the request has more than one Authorization header; send one")
	}
	scheme, credential, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") { // RFC 9110 section 11.1: schemes are case-insensitive
		return "", errMissing
	}
	credential = strings.Trim(credential, " ")
	if !isToken68(credential) {
		return "", plant.Errorf(plant.CodeAuthMalformed,
			"the Authorization header is malformed; send Authorization: Bearer TOKEN")
	}
	return credential, nil
}

var errMissing = plant.Errorf(plant.CodeCredentialMissing, "the request has no bearer credential; "+
	"send Authorization: Bearer TOKEN with a token from the store's operator")

// isToken68 reports whether a text is a b64token of RFC 6750 section 2.1: letters, digits and -._~+/, then any number
// of equals signs.
func isToken68(text string) bool {
	text = strings.TrimRight(text, "=")
	if text == "" {
		return false
	}
	for i := range len(text) {
		c := text[i]
		alphanumeric := '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
		if !alphanumeric && strings.IndexByte("-._~+/", c) < 0 {
			return false
		}
	}
	return true
}
