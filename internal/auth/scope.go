package auth

import (
	"fmt"
	"slices"
	"strings"
)

// Scopes is a set of scopes. The zero value is the empty set.
type Scopes uint8

// The bits of a set. A scope includes no other scope.
const (
	ScopeCreate  Scopes = 1 << iota // the public operation
	ScopeRead                       // reads plants on the admin listener
	ScopeAdmin                      // operates the server: credentials, backups, audit log, profiles
	ScopeMetrics                    // the metrics on the admin listener
	ScopeConsole                    // one sign-in to the console; a token has it alone
)

// scopeNames are the names of the bits, in their order.
var scopeNames = []string{"plants:create", "plants:read", "admin", "metrics", "console"}

// Grantable is the set of scopes that a new token can have: those that a route needs.
const Grantable = ScopeCreate | ScopeRead | ScopeAdmin | ScopeMetrics

// ParseScopes parses scope names that are separated by spaces, as in RFC 6749 section 3.3, or by commas. The empty text
// is the empty set. The error names the first unknown scope.
func ParseScopes(text string) (Scopes, error) {
	var scopes Scopes
	for _, name := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' }) {
		i := slices.Index(scopeNames, name)
		if i < 0 {
			return 0, fmt.Errorf("unknown scope %q; known scopes are %s",
				name, strings.ReplaceAll(Grantable.String(), " ", ", "))
		}
		scopes |= 1 << i
	}
	return scopes, nil
}

// Has reports whether s has every scope of want.
func (s Scopes) Has(want Scopes) bool { return s&want == want }

// String returns the names of the scopes, separated by spaces, as ParseScopes parses them.
func (s Scopes) String() string {
	var names []string
	for i, name := range scopeNames {
		if s.Has(1 << i) {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}
