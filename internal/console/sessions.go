package console

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
)

// The limits of sessions.
const (
	sessionTimeMax     = 12 * time.Hour
	sessionsMax        = 1000
	sessionsMaxOfToken = 20 // of one credential; another sign-in ends the oldest of them
)

// session is the use of the console by one browser. The server checks the credential of
// the session with every request, as it checks the header Authorization of an API. So a
// revocation ends the session, and the session needs no state beside the credential.
type session struct {
	credential string
	began      time.Time
	minted     bool // the sign-in created the credential, so the sign-out revokes it
}

// sessions are the sessions of a server by the hash of their cookie. A restart ends them.
type sessions struct {
	mu   sync.Mutex
	open map[[sha256.Size]byte]session // at most sessionsMax; guarded by mu
}

// add starts a session and returns the value of its cookie: 256 random bits. It returns
// false if there are too many sessions.
func (s *sessions) add(n session) (cookie string, ok bool) {
	var random [32]byte
	_, _ = rand.Read(random[:]) // it never returns an error
	cookie = base64.RawURLEncoding.EncodeToString(random[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[[sha256.Size]byte]session{}
	}
	same, oldest := 0, [sha256.Size]byte{}
	for key, other := range s.open {
		switch {
		case n.began.Sub(other.began) >= sessionTimeMax:
			delete(s.open, key)
		case other.credential == n.credential:
			if same++; same == 1 || other.began.Before(s.open[oldest].began) {
				oldest = key
			}
		}
	}
	if same >= sessionsMaxOfToken {
		delete(s.open, oldest)
	}
	if len(s.open) >= sessionsMax {
		return "", false
	}
	s.open[sha256.Sum256([]byte(cookie))] = n
	return cookie, true
}

// find returns the session of a cookie that is open at that time.
func (s *sessions) find(cookie string, now time.Time) (session, bool) {
	key := sha256.Sum256([]byte(cookie))
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.open[key]
	if ok && now.Sub(found.began) >= sessionTimeMax {
		delete(s.open, key)
		ok = false
	}
	return found, ok
}

// remove ends the session of a cookie and returns it.
func (s *sessions) remove(cookie string) (session, bool) {
	key := sha256.Sum256([]byte(cookie))
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.open[key]
	delete(s.open, key)
	return found, ok
}

// cookieName returns the name of the cookie. Cookies do not differ by port (RFC 6265
// section 8.5), so the name has the port of the listener: two servers on one host have
// separate sessions. The prefix makes browsers refuse a cookie that was set without TLS or
// by another host of the domain.
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
func (c *Console) setCookie(w http.ResponseWriter, r *http.Request, value string) {
	age := int(sessionTimeMax.Seconds())
	if value == "" {
		age = -1
	}
	http.SetCookie(w, &http.Cookie{
		Name: c.cookieName(r), Value: value, Path: "/", MaxAge: age,
		HttpOnly: true, Secure: c.Secure, SameSite: http.SameSiteStrictMode,
	})
}

// credentialOf returns the credential of the session of a request.
func (c *Console) credentialOf(r *http.Request) (string, error) {
	cookie := c.cookieOf(r)
	if cookie == "" {
		return "", &plant.Error{Code: plant.CodeCredentialMissing, Message: "sign in to the console"}
	}
	found, ok := c.sessions.find(cookie, c.now())
	if !ok {
		return "", &plant.Error{Code: plant.CodeCredentialInvalid, Message: "the session has ended; sign in again"}
	}
	return found.credential, nil
}

// codeTimeMax is the time for which a sign-in code is valid.
const codeTimeMax = 15 * time.Minute

// NewCode returns a sign-in code and its token, which the caller stores in an engine. The
// code signs in to the console of every server of the store, once, within 15 minutes.
func NewCode(now time.Time) (code string, t auth.Token) {
	code = auth.Mint()
	return code, auth.Token{
		Name: "console-code-" + suffixOf(code), Hash: auth.HashOf(code), Prefix: auth.PrefixOf(code),
		Scopes: auth.ScopeConsole, CreatedAt: now, ExpiresAt: now.Add(codeTimeMax),
	}
}

// suffixOf returns a part of the name of a token, so that names differ. It is a part of
// the hash and shows nothing of the secret.
func suffixOf(secret string) string {
	hash := auth.HashOf(secret)
	return base64.RawURLEncoding.EncodeToString(hash[:6])
}
