package main

import (
	"regexp"
	"strconv"
	"strings"

	"plantstore/internal/auth"
	"plantstore/internal/postgres"
)

// hideSecrets keeps out of a message what a user gave in the wrong place: a
// token, and an address with a password. given is what the message may repeat.
func hideSecrets(message string, given []string) string {
	for _, text := range given {
		_, value, _ := strings.Cut(text, "=")                                                           // of --flag=value
		items := strings.FieldsFunc(value+","+text, func(r rune) bool { return r == ',' || r == '\n' }) // as pflag has lists
		for _, secret := range append([]string{text, value}, items...) {
			if !mayHoldPassword(secret) {
				continue
			}
			quoted := strconv.Quote(secret)
			for _, form := range []string{secret, quoted[1 : len(quoted)-1]} {
				message = strings.ReplaceAll(message, form, "(hidden: it may have a password)")
			}
		}
	}
	if !auth.LooksLikeSecret(message) {
		return message
	}
	words := strings.Fields(message)
	for i, word := range words {
		if auth.LooksLikeSecret(word) && word != "pst_" { // our own words name the prefix
			words[i] = "(a token, hidden)"
		}
	}
	return strings.Join(words, " ")
}

// withPassword matches what people write when they name a database.
var withPassword = regexp.MustCompile(`(?is)passw|^\s*postgres(ql)?(:|%3a)|:.*@.*/|://.*(@|%40)`)

// mayHoldPassword reports whether a text has the form of an address with a
// password, and is not one that is safe to show.
func mayHoldPassword(text string) bool {
	u, err := postgres.ParseURL(text)
	return withPassword.MatchString(text) && (err != nil || u.String() != text)
}
