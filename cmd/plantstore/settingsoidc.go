package main

import (
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/auth"
	"plantstore/internal/oidc"
	"plantstore/internal/writepath"
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

// checkOIDC returns an error if the settings cannot be those of an issuer.
func (s *settings) checkOIDC() error {
	o := &s.oidc
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

// issuer is the issuer whose JWTs a server accepts, and where people sign in to the console. The zero value has none.
type issuer struct {
	verifier *oidc.Verifier // nil: no issuer
	jwts     bool           // the server accepts JWTs
	client   *oidc.Client   // of the console; nil: none
}

// openIssuer returns the issuer of the settings, for a console with this address. The caller closes it.
func (s *settings) openIssuer(log *slog.Logger, at *url.URL, metrics *prometheus.Registry) (issuer, error) {
	i, err := s.oidc.open(log, metrics)
	if err != nil {
		return issuer{}, err
	}
	if i.client, err = s.signIn.client(i.verifier, at); err != nil {
		i.close()
		return issuer{}, err
	}
	return i, nil
}

// open returns the issuer of the settings. The caller closes it.
func (o *oidcSettings) open(log *slog.Logger, metrics *prometheus.Registry) (issuer, error) {
	if o.issuer == "" {
		return issuer{}, nil
	}
	scopes := map[string]auth.Scopes{}
	for _, item := range o.scopes.items {
		value, scope, err := parseScopeGrant(item)
		if err != nil {
			return issuer{}, err
		}
		scopes[value] |= scope
	}
	if len(scopes) == 0 {
		scopes[auth.ScopeCreate.String()] = auth.ScopeCreate
	}
	v, err := oidc.New(oidc.Config{
		Issuer: string(o.issuer), Audience: string(o.audience), Scopes: scopes,
		ScopeClaim: string(o.scopeClaim), NameClaim: string(o.nameClaim), Log: log, Metrics: metrics,
	})
	return issuer{verifier: v, jwts: o.audience != ""}, err
}

// verify returns the function that verifies JWTs, nil if the server accepts none.
func (i issuer) verify() writepath.VerifyJWT {
	if !i.jwts {
		return nil
	}
	return i.verifier.Verify
}

func (i issuer) close() {
	if i.verifier != nil {
		i.verifier.Close()
	}
}
