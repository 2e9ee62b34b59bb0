package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/oidc"
	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// Credential is a token, a subject or a revoked JWT, for the operator. Times are in UTC. Its JSON is that of the API
// and of the token commands.
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

// NewCredential returns the credential of a token.
func NewCredential(t auth.Token, state auth.State) Credential {
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

// NewCredentials returns the credentials of all tokens of a store, by ascending id.
func NewCredentials(tokens []auth.Token, now time.Time) []Credential {
	all, states := make([]Credential, len(tokens)), auth.States(tokens, now)
	for i, t := range tokens {
		all[i] = NewCredential(t, states[i])
	}
	return all
}

// CredentialQuery selects a page of credentials.
type CredentialQuery struct {
	Cursor string // CredentialPage.Next of the page before; empty: the first page
	Kind   string // only credentials of this kind; empty: all
	Limit  int    // from 1 to PageMax
}

// CredentialPage is a page of credentials by ascending id.
type CredentialPage struct {
	Credentials []Credential `json:"credentials"`
	Next        string       `json:"next,omitempty"` // cursor of the next page; empty: this is the last page
}

// Credentials returns a page of credentials, also expired and revoked ones. The error is a *plant.Error.
func (s *Service) Credentials(ctx context.Context, q CredentialQuery) (CredentialPage, error) {
	page := CredentialPage{Credentials: []Credential{}}
	from := int64(math.MinInt64)
	if q.Cursor != "" {
		var err error
		if from, err = parseCursor(q.Cursor); err != nil {
			return page, err
		}
	}
	if q.Kind != "" && !slices.Contains([]string{KindToken, KindSubject, KindJWT}, q.Kind) {
		return page, invalid(fmt.Sprintf("kind must be token, subject or jwt; got %q", q.Kind))
	}
	if q.Limit < 1 || q.Limit > PageMax {
		return page, invalid(fmt.Sprintf("limit must be from 1 to %d; got %d", PageMax, q.Limit))
	}
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return page, err
	}
	defer end()
	tokens, err := s.engine.Tokens(ctx)
	if err != nil {
		return page, s.unreadable(err)
	}
	for _, c := range NewCredentials(tokens, time.Now()) {
		if c.ID < from || q.Kind != "" && c.Kind != q.Kind {
			continue
		}
		if len(page.Credentials) == q.Limit {
			page.Next = cursorAfter(page.Credentials[q.Limit-1].ID)
			break
		}
		page.Credentials = append(page.Credentials, c)
	}
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
	Lifetime time.Duration // of the new token; 0: that of the old one
}

// Minted is a new token. Only this value has the secret.
type Minted struct {
	Credential
	Secret    string    `json:"secret,omitempty"`
	OldID     int64     `json:"old_id,omitempty"`     // of the token that it replaces
	OldEndsAt time.Time `json:"old_ends_at,omitzero"` // end of the validity of that token
}

// LifetimeMax is the longest lifetime, and overlap, of a token.
const LifetimeMax = 36500 * 24 * time.Hour

// fresh returns a new token with its secret.
func fresh(name string, lifetime time.Duration) (auth.Token, string) {
	secret := auth.Mint()
	t := auth.Token{
		Name: name, Hash: auth.HashOf(secret), Prefix: auth.PrefixOf(secret),
		CreatedAt: time.Now().UTC().Truncate(time.Microsecond),
	}
	if lifetime != 0 {
		t.ExpiresAt = t.CreatedAt.Add(lifetime)
	}
	return t, secret
}

// Mint creates a token in an engine. The caller has checked the values. The errors are those of the engine.
func Mint(ctx context.Context, engine store.Engine, n NewToken, by audit.Origin) (Minted, error) {
	t, secret := fresh(n.Name, n.Lifetime)
	t.Scopes = n.Scopes
	id, err := engine.CreateToken(ctx, t, by)
	if err != nil {
		return Minted{}, err
	}
	t.ID = id
	return Minted{Credential: NewCredential(t, auth.StateValid), Secret: secret}, nil
}

// Rotate rotates a token in an engine. The caller has checked the values. The errors are those of the engine.
func Rotate(ctx context.Context, engine store.Engine, r Rotation, by audit.Origin) (Minted, error) {
	t, secret := fresh(r.Name, r.Lifetime)
	stored, old, err := engine.RotateToken(ctx, t, r.Overlap, by)
	if err != nil {
		return Minted{}, err
	}
	m := Minted{
		Credential: NewCredential(stored, auth.StateValid), Secret: secret,
		OldID: old.ID, OldEndsAt: t.CreatedAt.Add(r.Overlap),
	}
	if !old.ExpiresAt.IsZero() && old.ExpiresAt.Before(m.OldEndsAt) {
		m.OldEndsAt = old.ExpiresAt
	}
	return m, nil
}

// Revocation selects tokens, or a subject or JWT of an issuer, to revoke.
type Revocation struct {
	Tokens             store.Selector // used if Kind is auth.KindToken
	Kind               auth.Kind
	Issuer, Identifier string // of a subject or a JWT
}

// Revoke revokes the selected credentials in an engine and returns them by ascending id. The caller has checked the
// values. The errors are those of the engine; with a *store.Unrecorded it also returns the credentials.
func Revoke(ctx context.Context, engine store.Engine, r Revocation, by audit.Origin) ([]Credential, error) {
	now := time.Now()
	var tokens []auth.Token
	var err error
	switch r.Kind {
	case auth.KindToken:
		tokens, err = engine.RevokeTokens(ctx, r.Tokens, now, by)
		slices.SortFunc(tokens, func(a, b auth.Token) int { return cmp.Compare(a.ID, b.ID) })
	case auth.KindSubject:
		t := auth.NewSubject(r.Issuer, r.Identifier, now)
		t.RevokedAt = t.CreatedAt
		t, err = engine.RevokeIdentity(ctx, t, store.SubjectsMax, by)
		tokens = []auth.Token{t}
	default:
		var t auth.Token
		t, err = engine.RevokeIdentity(ctx, auth.NewRevokedJWT(r.Issuer, r.Identifier, now), store.RevokedJWTsMax, by)
		tokens = []auth.Token{t}
	}
	if _, stored := errors.AsType[*store.Unrecorded](err); err != nil && !stored {
		return nil, err
	}
	revoked := make([]Credential, len(tokens))
	for i, t := range tokens {
		revoked[i] = NewCredential(t, auth.StateRevoked)
	}
	return revoked, err
}

// Mint creates a token. The error is a *plant.Error.
func (s *Service) Mint(ctx context.Context, n NewToken, by audit.Origin) (m Minted, err error) {
	switch {
	case n.Scopes == 0 || !auth.Grantable.Has(n.Scopes):
		return m, badInput("a token needs one or more of the scopes " + listed(auth.Grantable))
	case n.Lifetime < 0 || n.Lifetime > LifetimeMax:
		return m, badInput("the lifetime must be at most 100 years")
	}
	if err := auth.CheckName(n.Name); err != nil {
		return m, badInput(err.Error())
	}
	err = s.change(ctx, func(ctx context.Context) (err error) {
		m, err = Mint(ctx, s.engine, n, by)
		if errors.Is(err, store.ErrNameTaken) {
			return &plant.Error{
				Code:    plant.CodeNameTaken,
				Message: fmt.Sprintf("a valid token has the name %q; use another name, or rotate the token", n.Name),
			}
		}
		return err
	})
	return m, err
}

// Rotate replaces a token. The error is a *plant.Error.
func (s *Service) Rotate(ctx context.Context, r Rotation, by audit.Origin) (m Minted, err error) {
	switch {
	case auth.LooksLikeSecret(r.Name):
		return m, badInput("the name has the form of a secret")
	case r.Lifetime < 0 || r.Lifetime > LifetimeMax || r.Overlap < 0 || r.Overlap > LifetimeMax:
		return m, badInput("the lifetime and the overlap must be at most 100 years")
	}
	err = s.change(ctx, func(ctx context.Context) (err error) {
		m, err = Rotate(ctx, s.engine, r, by)
		if errors.Is(err, store.ErrNotFound) {
			return &plant.Error{
				Code:    plant.CodeTokenNotFound,
				Message: fmt.Sprintf("no valid token has the name %q", r.Name),
			}
		}
		return err
	})
	return m, err
}

// Revoke revokes credentials and returns them. For a subject or a JWT without an issuer, it uses that of the settings.
// The error is a *plant.Error.
func (s *Service) Revoke(ctx context.Context, r Revocation, by audit.Origin) (revoked []Credential, err error) {
	if r.Kind != auth.KindToken {
		if r, err = s.checkIdentity(r); err != nil {
			return nil, err
		}
	} else if auth.LooksLikeSecret(r.Tokens.Name) {
		return nil, badInput("the name has the form of a secret")
	}
	err = s.change(ctx, func(ctx context.Context) (err error) {
		revoked, err = Revoke(ctx, s.engine, r, by)
		if unrecorded, ok := errors.AsType[*store.Unrecorded](err); ok {
			s.log.Warn("revoked a credential without an entry in the audit log", "error", unrecorded.Cause)
			for _, event := range unrecorded.Events {
				s.record(event)
			}
			return nil
		}
		switch {
		case errors.Is(err, store.ErrNotFound):
			return &plant.Error{Code: plant.CodeTokenNotFound, Message: "no such token, or it is already revoked"}
		case errors.Is(err, store.ErrTooManyJWTs), errors.Is(err, store.ErrTooManySubjects):
			return &plant.Error{Code: plant.CodeRevocationsFull, Message: err.Error()}
		}
		return err
	})
	return revoked, err
}

// checkIdentity returns a revocation of a subject or a JWT with its issuer.
func (s *Service) checkIdentity(r Revocation) (Revocation, error) {
	configured := s.issuer
	r.Issuer = cmp.Or(r.Issuer, configured)
	switch {
	case r.Issuer == "":
		return r, badInput("issuer is missing, and the server accepts no JWTs (--oidc-issuer)")
	case configured != "" && r.Issuer != configured:
		return r, badInput(fmt.Sprintf("issuer must be that of the server, %q; it refuses JWTs of others", configured))
	}
	if err := oidc.CheckIssuer(r.Issuer); err != nil {
		return r, badInput("issuer: " + err.Error())
	}
	if err := oidc.CheckIdentifier(r.Identifier); err != nil {
		return r, badInput("the subject or JWT id " + err.Error())
	}
	return r, nil
}

func listed(scopes auth.Scopes) string { return strings.ReplaceAll(scopes.String(), " ", ", ") }
