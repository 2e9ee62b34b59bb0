package serve

import (
	"context"

	"plantstore/internal/console"
	"plantstore/internal/oidc"
)

// openIssuer opens the issuer whose JWTs the server accepts, and where people sign in to the console, if the settings
// have one.
func (v *instance) openIssuer(context.Context) error {
	c, client := v.Settings.OIDC, v.Settings.SignIn
	if c.Issuer == "" {
		return nil
	}
	c.Log, c.Metrics = v.log, v.metrics
	v.verifier = oidc.New(c)
	v.onClose(v.verifier.Close)
	if c.ClientID == "" {
		return nil
	}
	if len(client.Scopes) == 0 {
		client.Scopes = []string{"openid", "profile", "email"}
	}
	client.ID, client.RedirectURL = c.ClientID, console.RedirectURL(v.servers.Console)
	v.signIn = oidc.NewClient(v.verifier, client)
	return nil
}
