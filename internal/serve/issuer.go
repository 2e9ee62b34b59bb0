package serve

import (
	"context"

	"plantstore/internal/console"
	"plantstore/internal/oidc"
)

// openIssuer opens the issuer whose JWTs the server accepts, and where people sign in to the console, if the settings
// have one.
func (v *instance) openIssuer(context.Context) error {
	o, c := &v.Settings.OIDC, &v.Settings.SignIn
	if o.Issuer == "" {
		return nil
	}
	v.verifier = oidc.New(oidc.Config{
		Issuer: o.Issuer, Audience: o.Audience, ClientID: c.ClientID, Scopes: o.Grants(),
		ScopeClaim: o.ScopeClaim, NameClaim: o.NameClaim, Log: v.log, Metrics: v.metrics,
	})
	v.onClose(v.verifier.Close)
	if c.ClientID == "" {
		return nil
	}
	scopes := c.Scopes
	if len(scopes) == 0 {
		scopes = []string{"openid", "profile", "email"}
	}
	v.signIn = oidc.NewClient(v.verifier, oidc.ClientConfig{
		ID: c.ClientID, Secret: c.Secret, RedirectURL: console.RedirectURL(v.servers.Console), Scopes: scopes,
		Claim: c.Claim, Grants: c.ClientGrants(),
	})
	return nil
}
