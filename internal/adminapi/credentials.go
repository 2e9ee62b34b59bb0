package adminapi

import (
	"slices"

	"plantstore/internal/admin"
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
