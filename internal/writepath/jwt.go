package writepath

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// VerifyJWT returns the claims of a JWT that is valid at that time. The error is an *auth.Invalid if the JWT is
// invalid; any other error means that it cannot be verified now. VerifyJWT checks no revocation. With wait, it waits
// for new keys of the issuer if the JWT names an unknown key.
type VerifyJWT func(ctx context.Context, token string, now time.Time, wait bool) (*auth.Claims, error)

// Limits of the rows that are not tokens of the operator. An issuer can have any number of subjects.
const (
	SubjectsMax    = 100_000
	RevokedJWTsMax = 10_000
)

func (c *credentials) authenticateJWT(
	ctx context.Context, token string, now time.Time, wait bool,
) (auth.Principal, error) {
	claims, err := c.verifyJWT(ctx, token, now, wait)
	if err != nil {
		if invalid := (*auth.Invalid)(nil); errors.As(err, &invalid) {
			return auth.Principal{}, err
		}
		return auth.Principal{}, plant.Errorf(plant.CodeStoreUnavailable, "nothing was stored because the server has no "+
			"keys of the issuer of this token yet; send the request again")
	}
	return c.authenticateClaims(ctx, claims, now)
}

// authenticateClaims returns the principal of claims that are verified.
func (c *credentials) authenticateClaims(
	ctx context.Context, claims *auth.Claims, now time.Time,
) (auth.Principal, error) {
	if err := c.refresh(ctx, time.Now()); err != nil { // the verifier may have waited for keys
		return auth.Principal{}, err
	}
	principal, err := c.keyring.AuthenticateJWT(claims, now)
	if err != nil || principal.TokenID != 0 || principal.Scopes == 0 { // without a scope nothing is stored
		return principal, err
	}
	return c.register(ctx, claims, now)
}

// register stores the subject of a JWT at its first use. One request at a time does so, and a disconnect of its client
// does not cancel it.
func (c *credentials) register(ctx context.Context, claims *auth.Claims, now time.Time) (auth.Principal, error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeMax)
	defer cancel()
	select {
	case c.registering <- struct{}{}:
	case <-ctx.Done():
		return auth.Principal{}, c.unregistered(context.Cause(ctx))
	}
	defer func() { <-c.registering }()
	principal, err := c.keyring.AuthenticateJWT(claims, now)
	if err != nil || principal.TokenID != 0 {
		return principal, err
	}
	storing, stop := context.WithTimeout(context.WithoutCancel(ctx), pollTimeMax)
	defer stop()
	stored, err := c.engine.PutSubject(storing, claims.Token(now), SubjectsMax)
	if err != nil {
		c.logUnregistered(err)
		return auth.Principal{}, c.unregistered(err)
	}
	return c.keyring.Add(stored, claims, now)
}

// logUnregistered logs a failure of PutSubject, at most once a minute as a warning. The caller holds registering.
func (c *credentials) logUnregistered(err error) {
	level, now := slog.LevelDebug, time.Now()
	if !c.outage.unreachable() && now.Sub(c.unregisteredAt) >= time.Minute {
		level = slog.LevelWarn
		c.unregisteredAt = now
	}
	c.log.Log(context.Background(), level, "could not store a subject of the issuer", "error", err)
}

// unregistered returns the error of a client whose subject could not be stored.
func (c *credentials) unregistered(err error) error {
	if errors.Is(err, store.ErrTooManySubjects) {
		return plant.Errorf(plant.CodeStoreUnavailable,
			"nothing was stored because the store has too many subjects of the issuer; ask the store's operator")
	}
	if errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrStandby) { // it stores what the owner has stored
		return store.ClientError(err, "nothing was stored because", "")
	}
	return c.unreadable(err)
}
