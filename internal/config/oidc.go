package config

import (
	"fmt"
	"strings"

	"plantstore/internal/auth"
	"plantstore/internal/oidc"
)

// OIDC are the settings of a server for the JWTs of an issuer.
type OIDC struct {
	Issuer     Text
	Audience   Text
	Scopes     List
	ScopeClaim Text
	NameClaim  Text
}

func (o *OIDC) rows() []Setting {
	return append(o.IssuerRows(), []Setting{
		{
			"oidc-audience", &o.Audience, "", "`audience` of the JWTs for this store",
			"The server accepts only JWTs whose claim `aud` has exactly this text. It is required with `--oidc-issuer`, " +
				"except with `--oidc-client-id`: then the server accepts no JWTs without it.",
		},
		{
			"oidc-scopes", o.Scopes.of(checkScopeGrant), "", "`grants` of scopes, as VALUE=SCOPE",
			"A JWT with the value in its scope claim has the scope: `plants.write=plants:create`. Empty: the value " +
				"`plants:create` grants the scope `plants:create`, and no value grants another scope.",
		},
		{
			"oidc-scope-claim", &o.ScopeClaim, "scope", "`claim` with the values that grant scopes",
			"The claim is an array of strings, as `roles` or `groups` of many issuers, or a string. `scope` and `scp` have " +
				"values between spaces; any other string is one value.",
		},
		{
			"oidc-name-claim", &o.NameClaim, "sub", "`claim` with the name of the credential in the log",
			"The name is also the creator of plants. JWTs without this claim are refused.",
		},
	}...)
}

// IssuerRows are the settings that token revoke has, too.
func (o *OIDC) IssuerRows() []Setting {
	return []Setting{{
		"oidc-issuer", &o.Issuer, "", "`URL` of the issuer whose JWTs are accepted; empty: none",
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

// check returns a usage error for an incomplete or invalid issuer.
func (o *OIDC) check(s *Settings) error {
	if o.Issuer == "" {
		for _, row := range o.rows() {
			if value := row.Value.String(); value != row.Initial {
				return s.Fault(row.Name, "it has no effect without an issuer; set oidc-issuer")
			}
		}
		return nil
	}
	if err := oidc.CheckIssuer(string(o.Issuer)); err != nil {
		return s.Fault("oidc-issuer", "%w", err)
	}
	if o.Audience != "" && o.Audience == s.SignIn.ClientID {
		return s.Fault("oidc-audience", "it is also oidc-client-id, and ID tokens for the console have that audience; "+
			"give the store an audience of its own at the issuer")
	}
	for _, row := range o.rows() {
		optional := row.Name == "oidc-scopes" || row.Name == "oidc-audience" && s.SignIn.ClientID != ""
		if !optional && row.Value.String() == "" {
			return s.Fault(row.Name, "it must not be empty with oidc-issuer")
		}
	}
	return nil
}

// Grants returns the scopes by the value of the scope claim.
func (o *OIDC) Grants() map[string]auth.Scopes {
	grants := map[string]auth.Scopes{}
	for _, item := range o.Scopes.Items {
		value, scope, _ := parseScopeGrant(item) // Set has checked it
		grants[value] |= scope
	}
	if len(grants) == 0 {
		grants[auth.ScopeCreate.String()] = auth.ScopeCreate
	}
	return grants
}
