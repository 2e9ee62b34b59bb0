package config

import (
	"regexp"
	"strconv"
	"strings"

	"plantstore/internal/auth"
	"plantstore/internal/postgres"
)

// HideSecrets replaces tokens and addresses with passwords in a message. given are the texts of the user that the
// message may repeat.
func HideSecrets(message string, given []string) string {
	for _, text := range given {
		_, value, _ := strings.Cut(text, "=") // the flag may be --flag=value
		items := strings.FieldsFunc(value+","+text, func(r rune) bool { return r == ',' || r == '\n' })
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
	return words.ReplaceAllStringFunc(message, func(word string) string {
		if auth.LooksLikeSecret(word) && word != "pst_" { // messages of the program have the prefix alone
			return "(a token, hidden)"
		}
		return word
	})
}

var words = regexp.MustCompile(`\S+`)

// withPassword matches the forms in which people write the address of a database.
var withPassword = regexp.MustCompile(`(?is)passw|^\s*postgres(ql)?(:|%3a)|:.*@.*/|://.*(@|%40)`)

// mayHoldPassword reports whether a text has the form of an address with a password and is not a URL without one.
func mayHoldPassword(text string) bool {
	_, err := postgres.ParseURL(text)
	return err != nil && withPassword.MatchString(text)
}
