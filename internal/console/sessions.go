package console

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/server"
)

// The limits of sessions.
const (
	sessionTimeMax     = 12 * time.Hour
	sessionsMax        = 1000
	sessionsMaxOfOwner = 20
)

// session is the use of the console by one browser. The server checks the credential of the session with every request,
// as it checks the Authorization header of the API, so a revocation ends the session. A person who signed in at the
// issuer is checked as the subject of a JWT.
type session struct {
	key        [sha256.Size]byte // hash of the cookie
	credential string            // empty with claims
	owner      int64             // id of the token or of the subject
	began      time.Time
	minted     bool // the sign-in created the credential, so the sign-out revokes it

	claims *auth.Claims // set for a person who signed in at the issuer; nil: none
}

func (s session) isOpen(now time.Time) bool { return now.Sub(s.began) < sessionTimeMax }

// sessions are the sessions of a server. A restart ends them.
type sessions struct {
	mu  sync.Mutex
	all []session // the oldest first, at most sessionsMax; guarded by mu
}

// add starts a session and returns the value of its cookie: 256 random bits. At a limit it ends the oldest session of
// the owner, or of the owner with the most sessions.
func (s *sessions) add(n session) (cookie string) {
	var random [32]byte
	_, _ = rand.Read(random[:]) // it never returns an error
	cookie = base64.RawURLEncoding.EncodeToString(random[:])
	n.key = sha256.Sum256([]byte(cookie))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(other session) bool { return !other.isOpen(n.began) })
	count := map[int64]int{}
	for _, other := range s.all {
		count[other.owner]++
	}
	switch {
	case count[n.owner] >= sessionsMaxOfOwner:
		s.end(func(other session) bool { return other.owner == n.owner })
	case len(s.all) >= sessionsMax:
		most := slices.Max(slices.Collect(maps.Values(count)))
		s.end(func(other session) bool { return count[other.owner] == most })
	}
	s.all = append(s.all, n)
	return cookie
}

// end ends the oldest session that matches, and returns it. The caller has locked mu.
func (s *sessions) end(matches func(session) bool) (ended session, ok bool) {
	i := slices.IndexFunc(s.all, matches)
	if i < 0 {
		return session{}, false
	}
	ended = s.all[i]
	s.all = slices.Delete(s.all, i, i+1)
	return ended, true
}

// find returns the session of a cookie that is open at that time.
func (s *sessions) find(cookie string, now time.Time) (session, bool) {
	key := sha256.Sum256([]byte(cookie))
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.all, func(other session) bool { return other.key == key && other.isOpen(now) })
	if i < 0 {
		return session{}, false
	}
	return s.all[i], true
}

// remove ends the session of a cookie and returns it.
func (s *sessions) remove(cookie string) (session, bool) {
	key := sha256.Sum256([]byte(cookie))
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end(func(other session) bool { return other.key == key })
}

// cookieName returns the name of the cookie. It contains the port of the listener, so two servers on one host have
// separate sessions: browsers ignore the port of cookies (RFC 6265 section 8.5). The prefix makes browsers refuse a
// cookie that was set without TLS or by another host of the domain.
func (c *Console) cookieName(r *http.Request) string {
	port := 0
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		port = local.Port
	}
	name := "plantstore-" + strconv.Itoa(port)
	if c.Secure {
		return "__Host-" + name
	}
	return name
}

// cookieOf returns the cookie of a request; empty without one.
func (c *Console) cookieOf(r *http.Request) string {
	cookie, err := r.Cookie(c.cookieName(r))
	if err != nil {
		return ""
	}
	return cookie.Value
}

// setCookie sets the cookie of a session, or removes it with an empty value.
func (c *Console) setCookie(call *server.Call, value string) {
	c.setAnyCookie(call, c.cookieName(call.Request), value, sessionTimeMax, http.SameSiteStrictMode)
}

func (c *Console) setAnyCookie(w http.ResponseWriter, name, value string, age time.Duration, site http.SameSite) {
	if value == "" {
		age = -time.Second
	}
	http.SetCookie(w, &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: int(age.Seconds()), HttpOnly: true, Secure: c.Secure, SameSite: site,
	})
}

// authenticate returns the principal of the session of a request. check checks a credential.
func (c *Console) authenticate(
	r *http.Request, check func(credential string) (auth.Principal, error),
) (auth.Principal, error) {
	cookie := c.cookieOf(r)
	if cookie == "" {
		return auth.Principal{}, plant.Errorf(plant.CodeCredentialMissing, "sign in to the console")
	}
	found, ok := c.sessions.find(cookie, c.now())
	if !ok {
		return auth.Principal{}, plant.Errorf(plant.CodeCredentialInvalid, "the session has ended; sign in again")
	}
	return c.principal(r.Context(), found, check)
}

// principal returns the principal of a session. check checks a credential.
func (c *Console) principal(
	ctx context.Context, s session, check func(credential string) (auth.Principal, error),
) (auth.Principal, error) {
	if s.claims != nil {
		return c.WritePath.AuthenticateClaims(ctx, s.claims)
	}
	return check(s.credential)
}

// session returns the principal of the session of a request, by the tokens in memory.
func (c *Console) session(r *http.Request) (auth.Principal, error) {
	return c.authenticate(r, func(credential string) (auth.Principal, error) {
		return c.WritePath.AuthenticateKnown(r.Context(), credential)
	})
}

// serveSession responds whether the session of a request is open. Pages poll it, so an ended session is neither an
// error nor a failed sign-in.
func (c *Console) serveSession(call *server.Call) error {
	_, err := c.session(call.Request)
	if e, ok := errors.AsType[*plant.Error](err); err != nil && (!ok || e.Code.Status() != http.StatusUnauthorized) {
		return err
	}
	return call.Respond(map[string]bool{"open": err == nil})
}

// codeTimeMax is the time for which a sign-in code is valid.
const codeTimeMax = 15 * time.Minute

// NewCode returns a sign-in code for a person, and its token, which the caller stores in an engine. The code signs in
// to the console of any server of the store, once, within 15 minutes. An empty person is unknown.
func NewCode(person string) (t auth.Token, code string) {
	return auth.NewToken(auth.CodeName(person), auth.ScopeConsole, codeTimeMax)
}
