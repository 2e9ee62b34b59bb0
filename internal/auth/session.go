package auth

import (
	"cmp"
	"crypto/rand"
	"regexp"
	"strings"
)

// sessionPrefix begins the names of the tokens of sessions of the console and of sign-in codes.
const sessionPrefix = "console-"

// sessionName matches these names: console-, code- for a code, a random part, and the person if the operator named one.
var sessionName = regexp.MustCompile(`^` + sessionPrefix + `(?:code-)?[A-Z2-7]{8}(?:-(.+))?$`)

// PersonRunesMax is the length of the name of a person who signs in, so that the name of the token is not too long.
const PersonRunesMax = 40

// SessionName returns the name of a new token for a session of a person; an empty person is unknown.
func SessionName(person string) string { return newSessionName("", person) }

// CodeName is SessionName for a sign-in code.
func CodeName(person string) string { return newSessionName("code-", person) }

func newSessionName(kind, person string) string {
	name := sessionPrefix + kind + rand.Text()[:8]
	if person != "" {
		name += "-" + person
	}
	return name
}

// IsSessionName reports whether a token with the name is of a session or a sign-in code.
func IsSessionName(name string) bool {
	return strings.HasPrefix(name, sessionPrefix) && sessionName.MatchString(name)
}

// PersonOf returns the person in the name of a token of a session or a sign-in code; empty if there is none.
func PersonOf(name string) string {
	if strings.HasPrefix(name, sessionPrefix) {
		if parts := sessionName.FindStringSubmatch(name); parts != nil {
			return parts[1]
		}
	}
	return ""
}

// PrincipalName returns the name by which people know the principal of a token with a name: the person's, if there is
// one.
func PrincipalName(name string) string { return cmp.Or(PersonOf(name), name) }
