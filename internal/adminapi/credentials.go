package adminapi

import (
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
)

func (a *API) listCredentials(c *call) (any, error) {
	limit, err := c.query.limit(admin.PageMax)
	if err != nil {
		return nil, err
	}
	q := admin.CredentialQuery{Cursor: c.query.Get("cursor"), Kind: c.query.Get("kind"), Limit: limit}
	kinds := []string{admin.KindToken, admin.KindSubject, admin.KindJWT}
	if c.query.Has("kind") && !slices.Contains(kinds, q.Kind) {
		return nil, mustBe("kind", "token, subject or jwt", q.Kind)
	}
	return a.service.Credentials(c.Context(), q)
}

func (a *API) mint(c *call) (any, error) {
	var n admin.NewToken
	var scopes []string
	var expiresIn int64
	var noExpiry bool
	given, err := c.read(map[string]any{
		"name": &n.Name, "scopes": &scopes, "expires_in": &expiresIn, "no_expiry": &noExpiry,
	})
	if err != nil {
		return nil, err
	}
	switch {
	case given["expires_in"] && noExpiry:
		return nil, plant.InvalidInput("send expires_in or no_expiry, not both")
	case given["expires_in"]:
		if n.Lifetime, err = secondsOf("expires_in", expiresIn, true); err != nil {
			return nil, err
		}
	case !noExpiry:
		n.Lifetime = auth.DefaultLifetime
	}
	if n.Scopes, err = auth.ParseScopes(strings.Join(scopes, " ")); err != nil {
		return nil, plant.InvalidInput("scopes: %v", err)
	}
	return a.service.Mint(c.Context(), n, c.Origin())
}

func (a *API) rotate(c *call) (any, error) {
	const overlapDefault = 24 * 60 * 60 // seconds
	rotation, overlap, expiresIn := admin.Rotation{}, int64(overlapDefault), int64(0)
	given, err := c.read(map[string]any{
		"name": &rotation.Name, "overlap": &overlap, "expires_in": &expiresIn,
	})
	if err != nil {
		return nil, err
	}
	if rotation.Lifetime, err = secondsOf("expires_in", expiresIn, given["expires_in"]); err != nil {
		return nil, err
	}
	if rotation.Overlap, err = secondsOf("overlap", overlap, overlap != 0); err != nil {
		return nil, err
	}
	return a.service.Rotate(c.Context(), rotation, c.Origin())
}

// secondsOf returns a length of time in the body. It must be positive if it is given.
func secondsOf(name string, n int64, given bool) (time.Duration, error) {
	const most = int64(admin.LifetimeMax / time.Second)
	if given && (n < 1 || n > most) {
		return 0, plant.InvalidInput("%s must be a number of seconds from 1 to %d; got %d", name, most, n)
	}
	return time.Duration(n) * time.Second, nil
}

func (a *API) revoke(c *call) (any, error) {
	var v admin.Revocation
	var hash, subject, jwtID string
	given, err := c.read(map[string]any{
		"id": &v.Tokens.ID, "name": &v.Tokens.Name, "secret_sha256": &hash,
		"subject": &subject, "jwt_id": &jwtID, "issuer": &v.Issuer,
	})
	if err != nil {
		return nil, err
	}
	issuer := given["issuer"]
	delete(given, "issuer")
	if len(given) != 1 || issuer && !given["subject"] && !given["jwt_id"] {
		return nil, plant.InvalidInput(
			"send one of id, name, secret_sha256, subject and jwt_id; issuer only with the last two")
	}
	switch {
	case given["id"] && v.Tokens.ID < 1:
		return nil, plant.InvalidInput("id must be at least 1; got %d", v.Tokens.ID)
	case given["name"] && v.Tokens.Name == "":
		return nil, plant.InvalidInput("name is empty")
	case given["secret_sha256"]:
		b, err := hex.DecodeString(hash)
		if err != nil || len(b) != len(v.Tokens.Hash) {
			return nil, plant.InvalidInput("secret_sha256 must be the SHA-256 of a secret in 64 hexadecimal digits")
		}
		copy(v.Tokens.Hash[:], b)
	case given["subject"]:
		v.Kind, v.Identifier = auth.KindSubject, subject
	case given["jwt_id"]:
		v.Kind, v.Identifier = auth.KindJWT, jwtID
	}
	revoked, err := a.service.Revoke(c.Context(), v, c.Origin())
	return map[string]any{"revoked": revoked}, err
}
