package oidctest

import (
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"net/url"
	"time"
)

// The client of the sign-ins of an Issuer. The secret has characters that forms encode.
const (
	ClientID     = "console"
	ClientSecret = "Pil0sella: au%rantiaca+" //nolint:gosec // it protects nothing
)

// authorization is a code that no token request has used.
type authorization struct{ nonce, challenge, redirect string }

// signIns are the sign-ins of people at an Issuer. The issuer asks for no password and consents at once.
type signIns struct {
	codes  map[string]authorization
	person Object // changes of the claims of an ID token
}

// SetPerson changes the claims of the next ID tokens; nil removes a claim.
func (i *Issuer) SetPerson(changes Object) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.signIns.person = changes
}

// authorize responds to an authorization request (RFC 6749 section 4.1.1) with a redirect that has a code.
func (i *Issuer) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("client_id") != ClientID || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	code := i.NewCode(q.Get("nonce"), q.Get("code_challenge"), q.Get("redirect_uri"))
	to := url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {i.URL}}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+to.Encode(), http.StatusSeeOther)
}

// NewCode returns a code for a token request.
func (i *Issuer) NewCode(nonce, challenge, redirect string) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.signIns.codes == nil {
		i.signIns.codes = map[string]authorization{}
	}
	code := rand.Text()
	i.signIns.codes[code] = authorization{nonce, challenge, redirect}
	return code
}

// token responds to a token request (RFC 6749 section 4.1.3).
func (i *Issuer) token(w http.ResponseWriter, r *http.Request) {
	user, password, _ := r.BasicAuth()
	id, _ := url.QueryUnescape(user)
	secret, _ := url.QueryUnescape(password)
	refuse := func(status int, code string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		writeJSON(w, Object{"error": code})
	}
	if id != ClientID || secret != ClientSecret {
		refuse(http.StatusUnauthorized, "invalid_client")
		return
	}
	code := r.PostFormValue("code")
	i.mu.Lock()
	known, ok := i.signIns.codes[code]
	delete(i.signIns.codes, code)
	person := i.signIns.person
	i.mu.Unlock()
	challenge := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if !ok || r.PostFormValue("grant_type") != "authorization_code" || Base64(challenge[:]) != known.challenge ||
		r.PostFormValue("redirect_uri") != known.redirect {
		refuse(http.StatusBadRequest, "invalid_grant")
		return
	}
	k := i.Key()
	claims := Changed(Changed(i.IDClaims(time.Now()), Object{"nonce": known.nonce}), person)
	header := Changed(k.Header(), Object{"typ": "JWT"})
	writeJSON(w, Object{"access_token": rand.Text(), "token_type": "Bearer", "id_token": k.Sign(header, claims)})
}

// IDClaims returns the claims of a good ID token of a person in the group plant-admins, without a nonce.
func (i *Issuer) IDClaims(now time.Time) Object {
	return Object{
		"iss": i.URL, "aud": ClientID, "sub": "flora", "groups": []any{"staff", "plant-admins"},
		"iat": now.Unix(), "exp": now.Add(time.Hour).Unix(), "email": "flora@plants.example",
	}
}
