package auth

import (
	"fmt"
	"strings"
)

// Scopes is a set of scopes. The zero value is the empty set.
type Scopes uint8

// The bits of a set. A scope includes no other scope.
const (
	ScopeCreate  Scopes = 1 << iota // the public operation
	ScopeRead                       // reads plants on the admin listener
	ScopeAdmin                      // details and profiles of the server on the admin listener
	ScopeMetrics                    // the metrics on the admin listener
	ScopeConsole                    // one sign-in to the console; a token has it alone
)

// scopeNames are the names of the bits, in the order of String.
var scopeNames = []struct {
	scope Scopes
	name  string
}{
	{ScopeCreate, "plants:create"},
	{ScopeRead, "plants:read"},
	{ScopeAdmin, "admin"},
	{ScopeMetrics, "metrics"},
	{ScopeConsole, "console"},
}

// Grantable is the set of scopes that a new token can have: those that a route
// needs.
const Grantable = ScopeCreate | ScopeRead | ScopeAdmin | ScopeMetrics

// ParseScopes parses scope names that are separated by spaces, as in RFC 6749
// section 3.3, or by commas. The empty text is the empty set. The error names the
// first unknown scope.
func ParseScopes(text string) (Scopes, error) {
	var scopes Scopes
	for _, name := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' }) {
		scope, ok := scopeByName(name)
		if !ok {
			return 0, fmt.Errorf("unknown scope %q; known scopes are %s",
				name, strings.ReplaceAll(Grantable.String(), " ", ", "))
		}
		scopes |= scope
	}
	return scopes, nil
}

func scopeByName(name string) (Scopes, bool) {
	for _, s := range scopeNames {
		if s.name == name {
			return s.scope, true
		}
	}
	return 0, false
}

// Has reports whether s has every scope of want.
func (s Scopes) Has(want Scopes) bool { return s&want == want }

// String returns the names of the scopes, separated by spaces, as ParseScopes
// parses them.
func (s Scopes) String() string {
	var names []string
	for _, n := range scopeNames {
		if s.Has(n.scope) {
			names = append(names, n.name)
		}
	}
	return strings.Join(names, " ")
}
