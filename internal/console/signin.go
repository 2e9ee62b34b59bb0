package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/server"
)

const signInPath = "/sign-in"

// signIn is the content of the sign-in page.
type signIn struct {
	Code  string // from the link; only a form uses it up, because programs fetch links too
	Next  string // the page after the sign-in
	Fault string
	Ended bool // the session has ended

	Issuer string // host of the issuer; empty: none
	Begin  string // address that starts a sign-in at the issuer
}

func (c *Console) showSignIn(call *server.Call) error {
	q := call.URL.Query()
	code := q.Get("code")
	if !auth.WellFormed(code) {
		code = ""
	}
	return c.renderSignIn(call, http.StatusOK, signIn{
		Code: code, Next: localPath(q.Get("next")), Ended: q.Has("ended"),
	})
}

func (c *Console) renderSignIn(call *server.Call, status int, s signIn) error {
	s.Issuer, s.Begin = c.issuerSignIn(s.Next)
	return c.render(call, status, "sign-in", view{Title: "Sign in", Content: s})
}

// refuseSignIn responds to a failed sign-in with the sign-in page.
func (c *Console) refuseSignIn(call *server.Call, next string, e *plant.Error) error {
	return c.renderSignIn(call, e.Code.Status(), signIn{Next: next, Fault: e.Message})
}

// signIn checks a token or a sign-in code, and starts a session.
func (c *Console) signIn(call *server.Call) error {
	credential, next := strings.TrimSpace(call.Form.Get("credential")), localPath(call.Form.Get("next"))
	n, way := session{credential: credential}, "token"
	principal, err := call.Authenticate(credential)
	_, invalid := errors.AsType[*auth.Invalid](err)
	switch {
	case invalid:
		err = errBadCredential
	case err != nil: // the store or a limit refused it
	case principal.Scopes == auth.ScopeConsole:
		n.minted, way = true, "code"
		n.credential, principal, err = c.redeem(call.Context(), credential, call.Origin())
	case principal.Scopes&(auth.ScopeAdmin|auth.ScopeRead) == 0:
		err = plant.Errorf(plant.CodeScopeMissing,
			"the token has neither the scope admin nor the scope plants:read; use another token")
	}
	if e, ok := errors.AsType[*plant.Error](err); ok {
		c.recordRefusal(call, principal, "token", e)
		return c.refuseSignIn(call, next, e)
	}
	if err != nil {
		return err
	}
	redirect(call, c.startSession(call, principal, n, way, next))
	return nil
}

// startSession starts a session, and returns the page after the sign-in.
func (c *Console) startSession(
	call *server.Call, principal auth.Principal, n session, way, next string,
) string {
	c.sessions.remove(c.cookieOf(call.Request)) // the previous session, if there is one
	n.owner, n.began = principal.TokenID, c.now()
	cookie := c.sessions.add(n)
	c.Audit.SignedIn(call.OriginOf(principal), principal.Scopes.Has(auth.ScopeAdmin),
		audit.Detail{Key: "console", Value: way})
	c.setCookie(call, cookie)
	if next == "/" && !principal.Scopes.Has(auth.ScopeAdmin) {
		next = "/plants"
	}
	return next
}

// recordRefusal records a refused sign-in in the audit log, unless the limits of the server or the store refused it.
func (c *Console) recordRefusal(call *server.Call, by auth.Principal, way string, e *plant.Error) {
	if e.Code.Status() != http.StatusUnauthorized && e.Code.Status() != http.StatusForbidden {
		return
	}
	origin := call.OriginOf(by)
	if by.TokenID == 0 {
		origin.Actor.ID = ""
	}
	c.Audit.Collect(audit.Event{
		Time: c.now(), Action: audit.SignInRefused, Origin: origin, Details: []audit.Detail{{Key: "console", Value: way}},
	})
}

var errBadCredential = plant.Errorf(plant.CodeCredentialInvalid, "This token or code is not valid. "+
	"A code works once, for 15 minutes; run plantstore console on the server for another one.")

// redeem revokes a sign-in code and creates the token of its session. The engine revokes the code for one caller only,
// so one of several sign-ins with a code succeeds, even on several servers.
func (c *Console) redeem(ctx context.Context, code string, by audit.Origin) (string, auth.Principal, error) {
	var m admin.Minted
	scopes := auth.ScopeAdmin | auth.ScopeRead | auth.ScopeCreate
	revoked, err := c.Operations.Revoke(ctx, admin.Revocation{SecretSHA256: new(auth.HashOf(code))}, by)
	if err == nil {
		person := auth.PersonOf(revoked.Credentials[0].Name)
		m, err = c.Operations.Mint(ctx, admin.NewToken{
			Name: auth.SessionName(person), Scopes: strings.Fields(scopes.String()), ExpiresIn: admin.Seconds(sessionTimeMax),
		}, by)
	}
	if e, ok := errors.AsType[*plant.Error](err); ok {
		switch e.Code {
		case plant.CodeTokenNotFound:
			err = errBadCredential
		case plant.CodeStoreFull:
			err = errFull
		}
	}
	if err != nil {
		return "", auth.Principal{}, err
	}
	return m.Secret, auth.Principal{TokenID: m.ID, Name: auth.PrincipalName(m.Name), Scopes: scopes}, nil
}

// errFull refuses a code: its first use and the token of its session are changes of the store.
var errFull = plant.Errorf(plant.CodeStoreFull,
	"the disk of the store is full; free space on it, or sign in with an admin token instead of a code")

// signOut ends the session of a request, even if its credential is no longer valid.
func (c *Console) signOut(call *server.Call) error {
	ended, ok := c.sessions.remove(c.cookieOf(call.Request))
	c.setCookie(call, "")
	if ok && ended.minted {
		principal, _ := c.WritePath.AuthenticateKnown(call.Context(), ended.credential) // unknown: it has expired
		// Operations logs an error. The token expires, and no browser has it.
		_, _ = c.Operations.Revoke(call.Context(),
			admin.Revocation{SecretSHA256: new(auth.HashOf(ended.credential))}, call.OriginOf(principal))
	}
	redirect(call, signInPath)
	return nil
}

// localPath returns a text that is a path of this console, with its query, or "/".
func localPath(text string) string {
	const bytesMax = 2 << 10
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(text, "/") ||
		strings.HasPrefix(text, "//") || strings.ContainsAny(text, "\\\t\r\n") || len(text) > bytesMax ||
		u.Path == signInPath || strings.HasPrefix(u.Path, signInPath+"/") || u.Path == continuePath {
		return "/"
	}
	return u.RequestURI()
}

// redirect responds with another page, which the browser requests by GET.
func redirect(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusSeeOther)
}

// redirectAfter responds with another page after a change, unless it has an error.
func redirectAfter(w http.ResponseWriter, err error, to string) error {
	if err == nil {
		redirect(w, to)
	}
	return err
}
