package console

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"strings"

	"plantstore/internal/auth"
	"plantstore/internal/oidc"
	"plantstore/internal/plant"
	"plantstore/internal/server"
)

// The paths of a sign-in at an issuer.
const (
	issuerPath   = signInPath + "/oidc"
	callbackPath = issuerPath + "/callback"
)

// RedirectURL returns the address to which an issuer sends a browser after a sign-in to the console at a URL.
func RedirectURL(console *url.URL) string { return console.JoinPath(callbackPath).String() }

// issuerSignIn returns the host of the issuer, and the address that starts a sign-in there. The address has the host of
// the redirect URL, because browsers keep the cookies of each host apart.
func (c *Console) issuerSignIn(next string) (issuer, begin string) {
	client := c.issuer.Load()
	if client == nil {
		return "", ""
	}
	begin = strings.TrimSuffix(client.RedirectURL(), callbackPath) + issuerPath
	return hostOf(client), begin + "?" + url.Values{"next": {next}}.Encode()
}

func hostOf(client *oidc.Client) string {
	u, _ := url.Parse(client.Issuer()) // package oidc has checked it
	return u.Host
}

var errNoIssuer = plant.Errorf(plant.CodeNotFound, "the console has no sign-in at an issuer; set oidc-client-id")

// beginAtIssuer sends the browser to the issuer. The request comes from a link, not a form, because the directive
// form-action of the policy would refuse the redirect.
func (c *Console) beginAtIssuer(call *server.Call) error {
	client := c.issuer.Load()
	if client == nil {
		return errNoIssuer
	}
	next := localPath(call.URL.Query().Get("next"))
	address, flow, err := client.Begin(call.Context())
	if err != nil {
		return c.refuseSignIn(call, next, c.issuerFault(client, err))
	}
	value, err := c.flows.seal(pending{Flow: flow, Next: next, Began: c.now()})
	if err != nil {
		return err
	}
	c.setFlowCookie(call, value)
	secure(call.Header())
	redirect(call, address)
	return nil
}

// finishAtIssuer starts the session of a person who returns from the issuer.
func (c *Console) finishAtIssuer(call *server.Call) error {
	client := c.issuer.Load()
	if client == nil {
		return errNoIssuer
	}
	response, err := url.ParseQuery(call.URL.RawQuery)
	p, ok := c.flowOf(call.Request)
	if err != nil || !ok || response.Get("state") != p.State {
		return c.refuseSignIn(call, "/", errOtherFlow) // the cookie stays: it may belong to a sign-in in another tab
	}
	var claims *auth.Claims
	principal, err := call.AuthenticateBy(func() (auth.Principal, error) {
		c.setFlowCookie(call, "") // not before: without a place for the check, the person can repeat the request
		if !c.flows.use(p.State) {
			return auth.Principal{}, errOtherFlow
		}
		if claims, err = client.Finish(call.Context(), p.Flow, response, c.now()); err != nil {
			c.flows.forget(p.State)
			return auth.Principal{}, err
		}
		return c.WritePath.AuthenticateClaims(call.Context(), claims)
	})
	if err == nil && principal.Scopes&(auth.ScopeAdmin|auth.ScopeRead) == 0 {
		err = errNoAccess(client, principal)
	}
	if err != nil {
		if claims != nil {
			principal.Name = claims.Name
		}
		fault := c.issuerFault(client, err)
		c.recordRefusal(call, principal, "oidc", fault)
		return c.refuseSignIn(call, p.Next, fault)
	}
	next := c.startSession(call, principal, session{claims: claims}, "oidc", p.Next)
	return c.continueTo(call, "Signed in", next) // the browser would not send the new cookie after a redirect
}

// errOtherFlow refuses a response that was forged or repeated, or came too late.
var errOtherFlow = plant.InvalidQuery(
	"This sign-in did not begin in this browser, has ended, or began more than 10 minutes ago. Sign in again.")

func errNoAccess(client *oidc.Client, principal auth.Principal) error {
	return plant.Errorf(plant.CodeScopeMissing, "You are signed in at %s as %s, but that account has no access to this "+
		"console: %[1]s sent no value of the claim %[3]s to which oidc-console-grants gives access.",
		hostOf(client), principal.Name, client.Claim())
}

// issuerFault returns the error for a person whose sign-in failed, and logs the cause.
func (c *Console) issuerFault(client *oidc.Client, err error) *plant.Error {
	host := hostOf(client)
	var known *plant.Error
	var refused *oidc.Refusal
	var invalid *auth.Invalid
	switch {
	case errors.As(err, &invalid):
		return plant.Errorf(plant.CodeCredentialInvalid,
			"The sign-in at %s is not valid, or no longer valid. Sign in again.", host)
	case errors.As(err, &known):
		return known
	case errors.As(err, &refused):
		level := slog.LevelInfo
		if refused.Code == "invalid_client" { // the id or the secret in the settings is wrong
			level = slog.LevelWarn
		}
		c.Log.Log(context.Background(), level, "console: the issuer refused a sign-in",
			"issuer", client.Issuer(), "code", refused.Code)
		return plant.Errorf(plant.CodeScopeMissing, "%s refused the sign-in (%s).", host, refused.Code)
	}
	c.Log.Warn("console: could not sign in at the issuer", "issuer", client.Issuer(), "error", err)
	return plant.Errorf(plant.CodeStoreUnavailable, "The server gets no answer from %s that it can use. Try again, or "+
		"sign in with a token; the log of the server has the cause.", host)
}
