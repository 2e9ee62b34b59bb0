package admin

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/server"
)

// credentialRoutes returns the routes of the credentials.
func (a api) credentialRoutes() []server.Route {
	return []server.Route{
		{Method: "GET", Path: base + "/credentials", Scope: auth.ScopeAdmin, Handle: a.listCredentials},
		{Method: "POST", Path: base + "/credentials", Scope: auth.ScopeAdmin, Handle: a.mint},
		{Method: "POST", Path: base + "/credentials/rotate", Scope: auth.ScopeAdmin, Handle: a.rotate},
		{Method: "POST", Path: base + "/credentials/revoke", Scope: auth.ScopeAdmin, Handle: a.revoke},
	}
}

func (a api) listCredentials(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
	values, err := parameters(r, "limit", "cursor", "kind")
	if err != nil {
		return err
	}
	q := CredentialQuery{Cursor: values.Get("cursor"), Kind: values.Get("kind")}
	if values.Has("kind") && q.Kind == "" {
		return invalid("kind is empty; use token, subject or jwt, or omit it")
	}
	if q.Limit, err = intParameter(values, "limit", limitDefault, 1, PageMax); err != nil {
		return err
	}
	page, err := a.service.Credentials(r.Context(), q)
	if err != nil {
		return err
	}
	return respond(w, page)
}

func (a api) mint(w http.ResponseWriter, r *http.Request, p auth.Principal) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	var n NewToken
	var scopes []string
	var expiresIn int64
	var noExpiry bool
	given, err := readBody(w, r, map[string]any{
		"name": &n.Name, "scopes": &scopes, "expires_in": &expiresIn, "no_expiry": &noExpiry,
	})
	if err != nil {
		return err
	}
	if given["expires_in"] == noExpiry {
		return badInput("send expires_in, the lifetime in seconds, or no_expiry with the value true")
	}
	if n.Lifetime, err = secondsOf("expires_in", expiresIn, given["expires_in"]); err != nil {
		return err
	}
	if n.Scopes, err = auth.ParseScopes(strings.Join(scopes, " ")); err != nil {
		return badInput("scopes: " + err.Error())
	}
	m, err := a.service.Mint(r.Context(), n, server.OriginOf(w, r, p))
	if err != nil {
		return err
	}
	return respond(w, m)
}

func (a api) rotate(w http.ResponseWriter, r *http.Request, p auth.Principal) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	const overlapDefault = 24 * 60 * 60 // seconds
	rotation, overlap, expiresIn := Rotation{}, int64(overlapDefault), int64(0)
	given, err := readBody(w, r, map[string]any{
		"name": &rotation.Name, "overlap": &overlap, "expires_in": &expiresIn,
	})
	if err != nil {
		return err
	}
	if rotation.Lifetime, err = secondsOf("expires_in", expiresIn, given["expires_in"]); err != nil {
		return err
	}
	if rotation.Overlap, err = secondsOf("overlap", overlap, overlap != 0); err != nil {
		return err
	}
	m, err := a.service.Rotate(r.Context(), rotation, server.OriginOf(w, r, p))
	if err != nil {
		return err
	}
	return respond(w, m)
}

// secondsOf returns a length of time of the body. 0 is allowed only if the member is absent.
func secondsOf(name string, n int64, given bool) (time.Duration, error) {
	const most = int64(LifetimeMax / time.Second)
	if given && (n < 1 || n > most) {
		return 0, badInput(fmt.Sprintf("%s must be a number of seconds from 1 to %d; got %d", name, most, n))
	}
	return time.Duration(n) * time.Second, nil
}

func (a api) revoke(w http.ResponseWriter, r *http.Request, p auth.Principal) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	var v Revocation
	var hash, subject, jwtID string
	given, err := readBody(w, r, map[string]any{
		"id": &v.Tokens.ID, "name": &v.Tokens.Name, "secret_sha256": &hash,
		"subject": &subject, "jwt_id": &jwtID, "issuer": &v.Issuer,
	})
	if err != nil {
		return err
	}
	identity := given["subject"] || given["jwt_id"]
	count := len(given)
	if given["issuer"] {
		count--
	}
	if count != 1 || given["issuer"] && !identity {
		return badInput("send one of id, name, secret_sha256, subject and jwt_id; issuer only with the last two")
	}
	switch {
	case given["id"] && v.Tokens.ID < 1:
		return badInput(fmt.Sprintf("id must be at least 1; got %d", v.Tokens.ID))
	case given["name"] && v.Tokens.Name == "":
		return badInput("name is empty")
	case given["secret_sha256"]:
		b, err := hex.DecodeString(hash)
		if err != nil || len(b) != len(v.Tokens.Hash) {
			return badInput("secret_sha256 must be the SHA-256 of a secret in 64 hexadecimal digits")
		}
		copy(v.Tokens.Hash[:], b)
	case given["subject"]:
		v.Kind, v.Identifier = auth.KindSubject, subject
	case given["jwt_id"]:
		v.Kind, v.Identifier = auth.KindJWT, jwtID
	}
	revoked, err := a.service.Revoke(r.Context(), v, server.OriginOf(w, r, p))
	if err != nil {
		return err
	}
	return respond(w, struct {
		Revoked []Credential `json:"revoked"`
	}{revoked})
}
