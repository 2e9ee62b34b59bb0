package admin

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/oidc"
	"plantstore/internal/plant"
	"plantstore/internal/store"
	"plantstore/internal/writepath"
)

// Credential is a token, a subject or a revoked JWT, in the form of the API and of the token commands. Times are in
// UTC.
type Credential struct {
	Kind       string     `json:"kind"` // token, subject or jwt
	ID         int64      `json:"id"`
	Name       string     `json:"name"`
	Issuer     string     `json:"issuer,omitempty"`  // subject, jwt
	Subject    string     `json:"subject,omitempty"` // subject
	JWTID      string     `json:"jwt_id,omitempty"`  // jwt
	Prefix     string     `json:"prefix,omitempty"`  // of the secret
	State      auth.State `json:"state"`
	Scopes     []string   `json:"scopes"`
	CreatedAt  time.Time  `json:"created_at"`
	ExpiresAt  time.Time  `json:"expires_at,omitzero"`
	LastUsedAt time.Time  `json:"last_used_at,omitzero"`
	RevokedAt  time.Time  `json:"revoked_at,omitzero"`
}

// The kinds of a Credential.
const (
	KindToken   = "token"
	KindSubject = string(auth.KindSubject)
	KindJWT     = string(auth.KindJWT)
)

func newCredential(t auth.Token, state auth.State) Credential {
	c := Credential{
		Kind: KindToken, ID: t.ID, Name: t.Name, Issuer: t.Issuer, Prefix: t.Prefix, State: state,
		Scopes:    append([]string{}, strings.Fields(t.Scopes.String())...),
		CreatedAt: t.CreatedAt, ExpiresAt: t.ExpiresAt, LastUsedAt: t.LastUsedAt, RevokedAt: t.RevokedAt,
	}
	switch t.Kind {
	case auth.KindSubject:
		c.Kind, c.Subject = KindSubject, t.Identifier
	case auth.KindJWT:
		c.Kind, c.JWTID = KindJWT, t.Identifier
	}
	return c
}

// CredentialQuery selects a page of credentials.
type CredentialQuery struct {
	Cursor string // CredentialPage.Next of the previous page; empty: the first page
	Kind   string // only credentials of this kind; empty: all
	Limit  int    // 0: no limit

	// For the console; the API has no parameters for them.
	Valid  bool // neither expired nor revoked ones
	Newest bool // by descending id; false: by ascending id
}

// CredentialPage is a page of credentials.
type CredentialPage struct {
	Credentials []Credential `json:"credentials"`
	Next        string       `json:"next,omitempty"` // cursor of the next page; empty: this is the last page
}

// Credentials returns a page of credentials.
func (s *Service) Credentials(ctx context.Context, q CredentialQuery) (CredentialPage, error) {
	page := CredentialPage{Credentials: []Credential{}}
	from, err := parseIDCursor(q.Cursor)
	if err != nil {
		return page, err
	}
	tokens, err := run(ctx, s, s.unreadable, s.engine.Tokens)
	if err != nil {
		return page, err
	}
	states := auth.States(tokens, time.Now())
	for i, t := range tokens {
		c := newCredential(t, states[i])
		before := c.ID < from
		if q.Newest {
			before = q.Cursor != "" && c.ID > from
		}
		ended := c.State == auth.StateExpired || c.State == auth.StateRevoked
		if !before && (q.Kind == "" || c.Kind == q.Kind) && !(q.Valid && ended) {
			page.Credentials = append(page.Credentials, c)
		}
	}
	next := func(last Credential) string { return cursorAfter(last.ID) }
	if q.Newest {
		slices.Reverse(page.Credentials)
		next = func(last Credential) string { return newCursor(last.ID-1, "") }
	}
	page.Credentials, page.Next = cut(page.Credentials, q.Limit, next)
	return page, nil
}

// NewToken describes a token to create.
type NewToken struct {
	Name     string // see auth.CheckName
	Scopes   auth.Scopes
	Lifetime time.Duration // 0: no expiry
}

// Rotation describes the replacement of a token by a new one of its name and scopes.
type Rotation struct {
	Name     string
	Overlap  time.Duration // for which the old token stays valid
	Lifetime time.Duration // of the new token; 0: as long as the old token's
}

// Minted is a new token. Only this value contains the secret.
type Minted struct {
	Credential
	Secret    string    `json:"secret,omitempty"`
	OldID     int64     `json:"old_id,omitempty"`     // of the token that it replaces
	OldEndsAt time.Time `json:"old_ends_at,omitzero"` // when that token expires
}

// LifetimeMax is the longest lifetime and overlap of a token.
const LifetimeMax = 36500 * 24 * time.Hour

// Revocation selects tokens, or a subject or JWT of an issuer, to revoke.
type Revocation struct {
	Tokens             store.Selector // used if Kind is auth.KindToken
	Kind               auth.Kind
	Issuer, Identifier string // of a subject or a JWT
}

// revoke revokes the selected credentials. It returns them even with a *store.Unrecorded.
func (s *Service) revoke(ctx context.Context, r Revocation, by audit.Origin) (tokens []auth.Token, err error) {
	now, most := time.Now(), writepath.RevokedJWTsMax
	var t auth.Token
	switch r.Kind {
	case auth.KindToken:
		return s.engine.RevokeTokens(ctx, r.Tokens, now, by)
	case auth.KindSubject:
		t, most = auth.NewSubject(r.Issuer, r.Identifier, now), writepath.SubjectsMax
		t.RevokedAt = t.CreatedAt
	default:
		t = auth.NewRevokedJWT(r.Issuer, r.Identifier, now)
	}
	t, err = s.engine.RevokeIdentity(ctx, t, most, by)
	return []auth.Token{t}, err
}

// Mint creates a token.
func (s *Service) Mint(ctx context.Context, n NewToken, by audit.Origin) (m Minted, err error) {
	switch {
	case n.Scopes == 0 || !auth.Grantable.Has(n.Scopes):
		return m, plant.InvalidInput("a token needs one or more of the scopes %s",
			strings.ReplaceAll(auth.Grantable.String(), " ", ", "))
	case n.Lifetime < 0 || n.Lifetime > LifetimeMax:
		return m, plant.InvalidInput("the lifetime must be at most 100 years")
	}
	if err := auth.CheckName(n.Name); err != nil {
		return m, plant.InvalidInput("%v", err)
	}
	return change(ctx, s, func(ctx context.Context) (Minted, error) {
		t, secret := auth.NewToken(n.Name, n.Scopes, n.Lifetime)
		id, err := s.engine.CreateToken(ctx, t, by)
		if errors.Is(err, store.ErrNameTaken) {
			err = plant.Errorf(plant.CodeNameTaken,
				"a valid token has the name %q; use another name, or rotate the token", n.Name)
		}
		t.ID = id
		return Minted{Credential: newCredential(t, auth.StateValid), Secret: secret}, err
	})
}

// Rotate replaces a token.
func (s *Service) Rotate(ctx context.Context, r Rotation, by audit.Origin) (m Minted, err error) {
	switch {
	case auth.LooksLikeSecret(r.Name):
		return m, plant.InvalidInput("the name has the form of a secret")
	case r.Lifetime < 0 || r.Lifetime > LifetimeMax || r.Overlap < 0 || r.Overlap > LifetimeMax:
		return m, plant.InvalidInput("the lifetime and the overlap must be at most 100 years")
	}
	return change(ctx, s, func(ctx context.Context) (Minted, error) {
		t, secret := auth.NewToken(r.Name, 0, r.Lifetime)
		stored, old, err := s.engine.RotateToken(ctx, t, r.Overlap, by)
		if errors.Is(err, store.ErrNotFound) {
			err = plant.Errorf(plant.CodeTokenNotFound, "no valid token has the name %q; see the list of tokens", r.Name)
		}
		m := Minted{
			Credential: newCredential(stored, auth.StateValid), Secret: secret,
			OldID: old.ID, OldEndsAt: t.CreatedAt.Add(r.Overlap),
		}
		if !old.ExpiresAt.IsZero() && old.ExpiresAt.Before(m.OldEndsAt) {
			m.OldEndsAt = old.ExpiresAt
		}
		return m, err
	})
}

// Revoke revokes credentials and returns them by ascending id. The default issuer of a subject or a JWT is from the
// settings.
func (s *Service) Revoke(ctx context.Context, r Revocation, by audit.Origin) (_ []Credential, err error) {
	if r.Kind != auth.KindToken {
		if r, err = s.checkIdentity(r); err != nil {
			return nil, err
		}
	} else if auth.LooksLikeSecret(r.Tokens.Name) {
		return nil, plant.InvalidInput("the name has the form of a secret")
	}
	return change(ctx, s, func(ctx context.Context) ([]Credential, error) {
		tokens, err := s.revoke(ctx, r, by)
		unrecorded, ok := errors.AsType[*store.Unrecorded](err)
		switch {
		case ok:
			if s.config.Unrecorded != nil {
				s.config.Unrecorded(unrecorded)
			}
		case errors.Is(err, store.ErrNotFound):
			return nil, plant.Errorf(plant.CodeTokenNotFound,
				"no such token, or it is already revoked; see the list of tokens")
		case errors.Is(err, store.ErrTooManyJWTs), errors.Is(err, store.ErrTooManySubjects):
			return nil, plant.Errorf(plant.CodeRevocationsFull, "%v", err)
		case err != nil:
			return nil, err
		}
		slices.SortFunc(tokens, func(a, b auth.Token) int { return cmp.Compare(a.ID, b.ID) })
		var revoked []Credential
		for _, t := range tokens {
			revoked = append(revoked, newCredential(t, auth.StateRevoked))
		}
		return revoked, nil
	})
}

// checkIdentity returns a revocation of a subject or a JWT with its issuer.
func (s *Service) checkIdentity(r Revocation) (Revocation, error) {
	configured := s.config.Issuer
	r.Issuer = cmp.Or(r.Issuer, configured)
	switch {
	case r.Issuer == "":
		return r, plant.InvalidInput("issuer is missing, and the server accepts no JWTs (--oidc-issuer)")
	case configured != "" && r.Issuer != configured:
		return r, plant.InvalidInput("issuer must be %q, the issuer of the server, which refuses other JWTs", configured)
	}
	if err := oidc.CheckIssuer(r.Issuer); err != nil {
		return r, plant.InvalidInput("issuer: %v", err)
	}
	if err := oidc.CheckIdentifier(r.Identifier); err != nil {
		return r, plant.InvalidInput("the subject or JWT id %v", err)
	}
	return r, nil
}
