package serve

import (
	"context"
	"net/url"

	"plantstore/internal/config"
	"plantstore/internal/console"
	"plantstore/internal/oidc"
	"plantstore/internal/writepath"
)

// issuer is the issuer whose JWTs a server accepts, and where people sign in to the console. The zero value has none.
type issuer struct {
	verifier *oidc.Verifier // nil: no issuer
	jwts     bool           // the server accepts JWTs
	client   *oidc.Client   // of the console; nil: none
}

// openIssuer opens the issuer, if the settings have one, and its client for the console.
func (v *instance) openIssuer(context.Context) (err error) {
	o := &v.Settings.OIDC
	if o.Issuer == "" {
		return nil
	}
	v.issuer.jwts = o.Audience != ""
	v.issuer.verifier, err = oidc.New(oidc.Config{
		Issuer: o.Issuer, Audience: o.Audience, ClientID: v.Settings.SignIn.ClientID,
		Scopes:     o.Grants(),
		ScopeClaim: o.ScopeClaim, NameClaim: o.NameClaim, Log: v.log, Metrics: v.metrics,
	})
	if err != nil {
		return err
	}
	v.onClose(v.issuer.verifier.Close)
	v.issuer.client, err = signInClient(&v.Settings.SignIn, v.issuer.verifier, v.servers.Console)
	return err
}

// verify returns the function that verifies JWTs, nil if the server accepts none.
func (i issuer) verify() writepath.VerifyJWT {
	if !i.jwts {
		return nil
	}
	return i.verifier.Verify
}

// signInClient returns the client of the settings, at a console with this address; nil: none.
func signInClient(c *config.SignIn, v *oidc.Verifier, at *url.URL) (*oidc.Client, error) {
	if c.ClientID == "" {
		return nil, nil //nolint:nilnil // a console without a client is usual
	}
	scopes := c.Scopes
	if len(scopes) == 0 {
		scopes = []string{"openid", "profile", "email"}
	}
	return oidc.NewClient(v, oidc.ClientConfig{
		ID: c.ClientID, Secret: c.Secret, RedirectURL: console.RedirectURL(at), Scopes: scopes,
		Claim: c.Claim, Grants: c.ClientGrants(),
	})
}
