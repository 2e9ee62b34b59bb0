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
	Prefix     string     `json:"prefix,omitempty"`  // start of the secret
	State      auth.State `json:"state"`
	Scopes     []string   `json:"scopes"`
	CreatedAt  time.Time  `json:"created_at"`
	ExpiresAt  time.Time  `json:"expires_at,omitzero"`
	LastUsedAt time.Time  `json:"last_used_at,omitzero"`
	RevokedAt  time.Time  `json:"revoked_at,omitzero"`

	// For the console; the API has no members for them.
	Expiring bool           `json:"-"` // within writepath.ExpiresSoon
	Used     *auth.EndedUse `json:"-"` // after its end, on this server; nil: it was not
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
	Name   string     // only credentials with this part of the name, in any case
	State  auth.State // only credentials in this state, or in one of those below; empty: all
	Newest bool       // by descending id; false: by ascending id
}

// The states of a CredentialQuery that package auth does not have.
const (
	StateAccepted  auth.State = "accepted"   // valid or rotated
	StateExpiring  auth.State = "expiring"   // see Credential.Expiring
	StateEndedUsed auth.State = "ended-used" // see Credential.Used
)

func (q CredentialQuery) selects(c Credential) bool {
	if q.Kind != "" && c.Kind != q.Kind || newMatcher(q.Name).find([]byte(c.Name)) < 0 {
		return false
	}
	switch q.State {
	case "":
		return true
	case StateAccepted:
		return c.State == auth.StateValid || c.State == auth.StateRotated
	case StateExpiring:
		return c.Expiring
	case StateEndedUsed:
		return c.Used != nil
	}
	return c.State == q.State
}

// CredentialPage is a page of credentials.
type CredentialPage struct {
	Credentials []Credential `json:"credentials"`
	Next        string       `json:"next,omitempty"` // cursor of the next page; empty: this is the last page
	Total       int64        `json:"-"`              // number of credentials on all pages
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
	now := time.Now()
	states, used := auth.States(tokens, now), map[int64]*auth.EndedUse{}
	for _, use := range s.endedUses() {
		used[use.ID] = &use
	}
	for i, t := range tokens {
		c := newCredential(t, states[i])
		c.Expiring, c.Used = t.Expires(states[i], now.Add(writepath.ExpiresSoon)), used[t.ID]
		if !q.selects(c) {
			continue
		}
		page.Total++
		before := c.ID < from
		if q.Newest {
			before = q.Cursor != "" && c.ID > from
		}
		if !before {
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

// endedUses returns the uses of ended credentials on this server, the last one first.
func (s *Service) endedUses() []auth.EndedUse {
	if s.config.WritePath == nil {
		return nil
	}
	return s.config.WritePath.EndedUses()
}

// NewToken describes a token to create, in the form of the API.
type NewToken struct {
	Name      string   `json:"name"` // see auth.CheckName
	Scopes    []string `json:"scopes"`
	ExpiresIn *int64   `json:"expires_in,omitempty"` // seconds; nil: auth.DefaultLifetime, or no expiry with NoExpiry
	NoExpiry  bool     `json:"no_expiry,omitempty"`
}

// Rotation describes the replacement of a token by a new one of its name and scopes, in the form of the API.
type Rotation struct {
	Name      string `json:"name"`
	Overlap   *int64 `json:"overlap,omitempty"`    // seconds for which the old token stays valid; nil: a day
	ExpiresIn *int64 `json:"expires_in,omitempty"` // seconds; nil: the lifetime of the old token
}

// Seconds returns a length of time as the API has it, rounded up.
func Seconds(d time.Duration) *int64 { return new(int64((d + time.Second - 1) / time.Second)) }

// ofSeconds returns the length of time of a member of the API; without is for an absent member.
func ofSeconds(name string, n *int64, least int64, without time.Duration) (time.Duration, error) {
	const most = int64(LifetimeMax / time.Second)
	switch {
	case n == nil:
		return without, nil
	case *n < least || *n > most:
		return 0, plant.InvalidInput("%s must be a number of seconds from %d to %d; got %d", name, least, most, *n)
	}
	return time.Duration(*n) * time.Second, nil
}

// Minted is a new token. Only this value contains the secret.
type Minted struct {
	Credential
	Secret    string    `json:"secret,omitempty"`
	OldID     int64     `json:"old_id,omitempty"`     // token that it replaces
	OldEndsAt time.Time `json:"old_ends_at,omitzero"` // when that token expires
}

// LifetimeMax is the longest lifetime and overlap of a token.
const LifetimeMax = 36500 * 24 * time.Hour

// Revocation selects the credentials to revoke, in the form of the API: one of the fields, and the issuer only with the
// last two.
type Revocation struct {
	ID           *int64     `json:"id,omitempty"`            // a token
	Name         *string    `json:"name,omitempty"`          // all tokens with this name
	SecretSHA256 *auth.Hash `json:"secret_sha256,omitempty"` // a token by its secret
	Subject      *string    `json:"subject,omitempty"`
	JWTID        *string    `json:"jwt_id,omitempty"`
	Issuer       string     `json:"issuer,omitempty"` // for a subject or a JWT; empty: the issuer of the settings
}

// tokens returns the selector of a revocation of tokens.
func (r Revocation) tokens() (selected store.Selector, err error) {
	switch {
	case r.ID != nil && *r.ID < 1:
		return selected, plant.InvalidInput("id must be at least 1; got %d", *r.ID)
	case r.ID != nil:
		return store.Selector{ID: *r.ID}, nil
	case r.SecretSHA256 != nil:
		return store.Selector{Hash: *r.SecretSHA256}, nil
	case *r.Name == "":
		return selected, plant.InvalidInput("name is empty")
	case auth.LooksLikeSecret(*r.Name):
		return selected, plant.InvalidInput("the name has the form of a secret")
	}
	return store.Selector{Name: *r.Name}, nil
}

// identity returns the revoked subject or JWT, and the number of its kind that the store may have.
func (r Revocation) identity() (t auth.Token, most int) {
	now := time.Now()
	if r.JWTID != nil {
		return auth.NewRevokedJWT(r.Issuer, *r.JWTID, now), writepath.RevokedJWTsMax
	}
	t = auth.NewSubject(r.Issuer, *r.Subject, now)
	t.RevokedAt = t.CreatedAt
	return t, writepath.SubjectsMax
}

// Revoked is the result of a revocation, in the form of the API.
type Revoked struct {
	Credentials []Credential `json:"revoked"` // by ascending id
}

// Mint creates a token.
func (s *Service) Mint(ctx context.Context, n NewToken, by audit.Origin) (m Minted, err error) {
	if n.ExpiresIn != nil && n.NoExpiry {
		return m, plant.InvalidInput("send expires_in or no_expiry, not both")
	}
	without := auth.DefaultLifetime
	if n.NoExpiry {
		without = 0
	}
	lifetime, err := ofSeconds("expires_in", n.ExpiresIn, 1, without)
	if err != nil {
		return m, err
	}
	scopes, err := auth.ParseScopes(strings.Join(n.Scopes, " "))
	switch {
	case err != nil:
		return m, plant.InvalidInput("scopes: %v", err)
	case scopes == 0 || !auth.Grantable.Has(scopes):
		return m, plant.InvalidInput("a token needs one or more of the scopes %s",
			strings.ReplaceAll(auth.Grantable.String(), " ", ", "))
	}
	if err := auth.CheckName(n.Name); err != nil {
		return m, plant.InvalidInput("%v", err)
	}
	return change(ctx, s, func(ctx context.Context) (Minted, error) {
		t, secret := auth.NewToken(n.Name, scopes, lifetime)
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
	lifetime, err := ofSeconds("expires_in", r.ExpiresIn, 1, 0)
	if err != nil {
		return m, err
	}
	overlap, err := ofSeconds("overlap", r.Overlap, 0, 24*time.Hour)
	if err != nil {
		return m, err
	}
	if auth.LooksLikeSecret(r.Name) {
		return m, plant.InvalidInput("the name has the form of a secret")
	}
	return change(ctx, s, func(ctx context.Context) (Minted, error) {
		t, secret := auth.NewToken(r.Name, 0, lifetime)
		stored, old, err := s.engine.RotateToken(ctx, t, overlap, by)
		if errors.Is(err, store.ErrNotFound) {
			err = plant.Errorf(plant.CodeTokenNotFound, "no valid token has the name %q; see the list of tokens", r.Name)
		}
		m := Minted{
			Credential: newCredential(stored, auth.StateValid), Secret: secret,
			OldID: old.ID, OldEndsAt: t.CreatedAt.Add(overlap),
		}
		if !old.ExpiresAt.IsZero() && old.ExpiresAt.Before(m.OldEndsAt) {
			m.OldEndsAt = old.ExpiresAt
		}
		return m, err
	})
}

// Revoke revokes credentials.
func (s *Service) Revoke(ctx context.Context, r Revocation, by audit.Origin) (Revoked, error) {
	revoke, err := s.revocation(r, by)
	if err != nil {
		return Revoked{}, err
	}
	return change(ctx, s, func(ctx context.Context) (result Revoked, err error) {
		tokens, err := revoke(ctx)
		unrecorded, ok := errors.AsType[*store.Unrecorded](err)
		switch {
		case ok:
			if s.config.Unrecorded != nil {
				s.config.Unrecorded(unrecorded)
			}
		case errors.Is(err, store.ErrNotFound):
			return result, plant.Errorf(plant.CodeTokenNotFound,
				"no such token, or it is already revoked; see the list of tokens")
		case errors.Is(err, store.ErrTooManyJWTs), errors.Is(err, store.ErrTooManySubjects):
			return result, plant.Errorf(plant.CodeRevocationsFull, "%v", err)
		case err != nil:
			return result, err
		}
		slices.SortFunc(tokens, func(a, b auth.Token) int { return cmp.Compare(a.ID, b.ID) })
		for _, t := range tokens {
			result.Credentials = append(result.Credentials, newCredential(t, auth.StateRevoked))
		}
		return result, nil
	})
}

// revocation returns the function that revokes the selected credentials. It returns them even with a *store.Unrecorded.
func (s *Service) revocation(r Revocation, by audit.Origin) (func(context.Context) ([]auth.Token, error), error) {
	given := 0
	for _, is := range []bool{r.ID != nil, r.Name != nil, r.SecretSHA256 != nil, r.Subject != nil, r.JWTID != nil} {
		if is {
			given++
		}
	}
	identifier := cmp.Or(r.Subject, r.JWTID)
	switch {
	case given != 1 || r.Issuer != "" && identifier == nil:
		return nil, plant.InvalidInput(
			"send one of id, name, secret_sha256, subject and jwt_id; issuer only with the last two")
	case identifier == nil:
		selected, err := r.tokens()
		return func(ctx context.Context) ([]auth.Token, error) {
			return s.engine.RevokeTokens(ctx, selected, time.Now(), by)
		}, err
	}
	r.Issuer = cmp.Or(r.Issuer, s.config.Issuer)
	err := s.checkIdentity(r.Issuer, *identifier)
	return func(ctx context.Context) ([]auth.Token, error) {
		t, most := r.identity()
		t, err := s.engine.RevokeIdentity(ctx, t, most, by)
		return []auth.Token{t}, err
	}, err
}

// checkIdentity checks the issuer and the identifier of a subject or a JWT.
func (s *Service) checkIdentity(issuer, identifier string) error {
	configured := s.config.Issuer
	switch {
	case issuer == "":
		return plant.InvalidInput("issuer is missing, and the server accepts no JWTs (--oidc-issuer)")
	case configured != "" && issuer != configured:
		return plant.InvalidInput("issuer must be %q, the issuer of the server, which refuses other JWTs", configured)
	}
	if err := oidc.CheckIssuer(issuer); err != nil {
		return plant.InvalidInput("issuer: %v", err)
	}
	if err := oidc.CheckIdentifier(identifier); err != nil {
		return plant.InvalidInput("the subject or JWT id %v", err)
	}
	return nil
}
