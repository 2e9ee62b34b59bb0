package config

import (
	"fmt"
	"strings"

	"plantstore/internal/auth"
)

// parseGrant parses an item of a list of grants: the value of a claim, and the scopes that it grants.
func parseGrant(item string) (value string, scopes auth.Scopes, ok bool) {
	i := strings.LastIndexByte(item, '=') // a value may have an equals sign, a scope has none
	if i < 1 {
		return "", 0, false
	}
	scopes, _ = auth.ParseScopes(item[i+1:]) // none after an error, which no check accepts
	return item[:i], scopes, true
}

// grants returns the scopes of items that were checked, by the value of the claim.
func grants(items []string) map[string]auth.Scopes {
	all := map[string]auth.Scopes{}
	for _, item := range items {
		value, scopes, _ := parseGrant(item)
		all[value] |= scopes
	}
	return all
}

func checkScopeGrant(item string) error {
	value, scope, ok := parseGrant(item)
	if !ok || strings.Contains(value, " ") {
		return fmt.Errorf("%q is not a grant; use the form plants.write=plants:create", item)
	}
	if scope == 0 || !auth.Grantable.Has(scope) {
		return fmt.Errorf("%q grants no scope; after the equals sign use one of %s", item,
			strings.ReplaceAll(auth.Grantable.String(), " ", ", "))
	}
	return nil
}

// checkIssuer returns a usage error for an incomplete or invalid issuer. It sets the scopes of the grants.
func (s *Settings) checkIssuer() error {
	o := &s.OIDC
	if o.Issuer == "" {
		return nil
	}
	if o.Audience != "" && o.Audience == o.ClientID {
		return s.Fault("oidc-audience", "it is also oidc-client-id, and ID tokens for the console have that audience; "+
			"give the store an audience of its own at the issuer")
	}
	const empty = "it must not be empty with oidc-issuer"
	switch {
	case o.Audience == "" && o.ClientID == "":
		return s.Fault("oidc-audience", empty)
	case o.ScopeClaim == "":
		return s.Fault("oidc-scope-claim", empty)
	case o.NameClaim == "":
		return s.Fault("oidc-name-claim", empty)
	}
	if o.Scopes = grants(s.scopeGrants); len(o.Scopes) == 0 {
		o.Scopes[auth.ScopeCreate.String()] = auth.ScopeCreate
	}
	return nil
}
