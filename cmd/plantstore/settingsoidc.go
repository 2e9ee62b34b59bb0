package main

import (
	"fmt"
	"strings"

	"plantstore/internal/auth"
	"plantstore/internal/oidc"
)

// oidcSettings are the settings of a server for the JWTs of an issuer.
type oidcSettings struct {
	issuer     text
	audience   text
	scopes     list
	scopeClaim text
	nameClaim  text
}

func (o *oidcSettings) rows() []setting {
	return append(o.issuerRows(), []setting{
		{
			"oidc-audience", &o.audience, "", "1.0.0", "`audience` of the JWTs for this store",
			"The server accepts only JWTs whose claim `aud` has exactly this text. It is required with `--oidc-issuer`, " +
				"except with `--oidc-client-id`: then the server accepts no JWTs without it.",
		},
		{
			"oidc-scopes", o.scopes.of(checkScopeGrant), "", "1.0.0", "`grants` of scopes, as VALUE=SCOPE",
			"A JWT with the value in its scope claim has the scope: `plants.write=plants:create`. Empty: the value " +
				"`plants:create` grants the scope `plants:create`, and no value grants another scope.",
		},
		{
			"oidc-scope-claim", &o.scopeClaim, "scope", "1.0.0", "`claim` with the values that grant scopes",
			"The claim is a string with values between spaces, or an array of strings, as `scp`, `roles` or `groups` of " +
				"many issuers.",
		},
		{
			"oidc-name-claim", &o.nameClaim, "sub", "1.0.0", "`claim` with the name of the credential in the log",
			"The name is also the creator of plants. JWTs without this claim are refused.",
		},
	}...)
}

// issuerRows are the settings that token revoke has, too.
func (o *oidcSettings) issuerRows() []setting {
	return []setting{{
		"oidc-issuer", &o.issuer, "", "1.0.0", "`URL` of the issuer whose JWTs are accepted; empty: none",
		"An https URL, or http with a loopback host, exactly as in the claim `iss`. The server reads the metadata and the " +
			"keys of the issuer in the background. See [accept JWTs](../how-to/accept-jwt.md).",
	}}
}

// checkScopeGrant checks an item of --oidc-scopes.
func checkScopeGrant(item string) error {
	_, _, err := parseScopeGrant(item)
	return err
}

func parseScopeGrant(item string) (value string, scope auth.Scopes, err error) {
	i := strings.LastIndexByte(item, '=') // a value may have an equals sign, a scope has none
	if i < 1 || strings.Contains(item[:i], " ") {
		return "", 0, fmt.Errorf("%q is not a grant; use the form plants.write=plants:create", item)
	}
	scope, err = auth.ParseScopes(item[i+1:])
	if err != nil || scope == 0 || !auth.Grantable.Has(scope) {
		return "", 0, fmt.Errorf("%q grants no scope; after the equals sign use one of %s", item,
			strings.ReplaceAll(auth.Grantable.String(), " ", ", "))
	}
	return item[:i], scope, nil
}

// check returns a usage error if the settings cannot be those of an issuer.
func (o *oidcSettings) check(s *settings) error {
	if o.issuer == "" {
		for _, row := range o.rows() {
			if value := row.value.String(); value != row.initial {
				return s.fault(row.name, "it has no effect without an issuer; set oidc-issuer")
			}
		}
		return nil
	}
	if err := oidc.CheckIssuer(string(o.issuer)); err != nil {
		return s.fault("oidc-issuer", "%w", err)
	}
	for _, row := range o.rows() {
		optional := row.name == "oidc-scopes" || row.name == "oidc-audience" && s.signIn.clientID != ""
		if !optional && row.value.String() == "" {
			return s.fault(row.name, "it must not be empty with oidc-issuer")
		}
	}
	return nil
}

// grants returns the scopes by the value of the scope claim.
func (o *oidcSettings) grants() map[string]auth.Scopes {
	grants := map[string]auth.Scopes{}
	for _, item := range o.scopes.items {
		value, scope, _ := parseScopeGrant(item) // Set has checked it
		grants[value] |= scope
	}
	if len(grants) == 0 {
		grants[auth.ScopeCreate.String()] = auth.ScopeCreate
	}
	return grants
}
