package auth

import (
	"fmt"
	"strings"
)

// Scopes is a set of scopes. The zero value is the empty set.
type Scopes uint8

// The scopes there are.
const (
	ScopeCreate Scopes = 1 << iota // plants:create, the public operation
	ScopeRead                      // plants:read, for the operator's side
	ScopeAdmin                     // admin, for the operator's side
)

var scopeNames = []struct {
	scope Scopes
	name  string
}{
	{ScopeCreate, "plants:create"},
	{ScopeRead, "plants:read"},
	{ScopeAdmin, "admin"},
}

// ParseScopes reads scope names that are separated by spaces, as in RFC 6749
// section 3.3, or by commas. The empty text is the empty set. The error names
// the scope that there is not.
func ParseScopes(text string) (Scopes, error) {
	var scopes Scopes
	for _, name := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' }) {
		scope, ok := scopeByName(name)
		if !ok {
			return 0, fmt.Errorf("there is no scope %q: the scopes are %s", name, strings.ReplaceAll(AllScopes.String(), " ", ", "))
		}
		scopes |= scope
	}
	return scopes, nil
}

// Grantable is the set of scopes that a new token may have: those that a route
// needs. Older tokens may have others.
const Grantable = ScopeCreate

// AllScopes is the set of every scope.
const AllScopes = ScopeCreate | ScopeRead | ScopeAdmin

func scopeByName(name string) (Scopes, bool) {
	for _, s := range scopeNames {
		if s.name == name {
			return s.scope, true
		}
	}
	return 0, false
}

// Has reports whether every scope of want is in s.
func (s Scopes) Has(want Scopes) bool { return s&want == want }

// String returns the names of the scopes, separated by spaces.
func (s Scopes) String() string {
	var names []string
	for _, n := range scopeNames {
		if s.Has(n.scope) {
			names = append(names, n.name)
		}
	}
	return strings.Join(names, " ")
}
