package store

import (
	"fmt"

	"plantstore/internal/auth"
)

const (
	tokenColumns = "id, name, hash, scopes, created_at, expires_at, last_used_at, revoked_at, prefix, " +
		"kind, issuer, identifier"
	selectTokens = "SELECT " + tokenColumns + " FROM tokens "
)

func tokenRow(scan Scan) (t auth.Token, err error) {
	var hash []byte
	var scopes string
	if err := scan(&t.ID, &t.Name, &hash, &scopes, &t.CreatedAt, &t.ExpiresAt, &t.LastUsedAt, &t.RevokedAt, &t.Prefix,
		(*string)(&t.Kind), &t.Issuer, &t.Identifier); err != nil {
		return t, err
	}
	if n := copy(t.Hash[:], hash); n != len(t.Hash) || n != len(hash) {
		return t, fmt.Errorf("token %d: its hash has %d bytes, want %d", t.ID, len(hash), len(t.Hash))
	}
	if t.Scopes, err = auth.ParseScopes(scopes); err != nil {
		return t, fmt.Errorf("token %d: %w", t.ID, err)
	}
	return t, nil
}

// tokens returns all tokens by ascending id, of every auth.Kind, including expired and revoked ones.
func (t Tables) tokens() ([]auth.Token, error) {
	return collect(t, tokenRow, selectTokens+"ORDER BY id")
}

// tokenOfHash returns the token with a hash, of every auth.Kind.
func (t Tables) tokenOfHash(hash auth.Hash) (token auth.Token, found bool, err error) {
	tokens, err := collect(t, tokenRow, selectTokens+"WHERE hash = $1", hash[:])
	if err != nil || len(tokens) == 0 {
		return token, false, err
	}
	return tokens[0], true, nil
}

// tokensBy returns the selected tokens by ascending id; no subjects and no JWTs.
func (t Tables) tokensBy(s Selector) ([]auth.Token, error) {
	column, value := s.Column()
	return collect(t, tokenRow, selectTokens+"WHERE "+column+" = $1 AND kind IS NULL ORDER BY id", value)
}

// checkPlace returns an error if the store has most tokens of the kind of a token. Expired ones don't count. No id is
// used twice, so the highest id is at least the number of tokens, and the query usually reads no others.
func (t Tables) checkPlace(token auth.Token, most int) error {
	last, err := collect(t, tokenRow, selectTokens+"WHERE kind = $1 AND coalesce(expires_at >= $2, TRUE) "+
		"AND (SELECT max(id) FROM tokens) > $3 LIMIT 1 OFFSET $3", string(token.Kind), token.CreatedAt, most-1)
	switch {
	case err != nil || len(last) == 0:
		return err
	case token.Kind == auth.KindJWT:
		return ErrTooManyJWTs
	}
	return ErrTooManySubjects
}

// insertToken stores a new token and returns it with its id. No id is used twice, because the token with the highest id
// is never deleted.
func (t Tables) insertToken(token auth.Token) (auth.Token, error) {
	if err := queryRow(t, "SELECT coalesce(max(id), 0) + 1 FROM tokens", &token.ID); err != nil {
		return token, err
	}
	return token, t.putTokens(token)
}

// putTokens stores tokens with their ids. Of a stored token it updates the times of expiry, revocation and last use.
func (t Tables) putTokens(tokens ...auth.Token) error {
	args := make([][]any, len(tokens))
	for i, t := range tokens {
		args[i] = []any{
			t.ID, t.Name, t.Hash[:], t.Scopes.String(), t.CreatedAt, t.ExpiresAt, t.LastUsedAt, t.RevokedAt, t.Prefix,
			string(t.Kind), t.Issuer, t.Identifier,
		}
	}
	return t.ChangeTokens(`INSERT INTO tokens (`+tokenColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, nullif($9, ''), nullif($10, ''), nullif($11, ''), nullif($12, ''))
		ON CONFLICT (id) DO UPDATE SET
		expires_at = excluded.expires_at, last_used_at = excluded.last_used_at, revoked_at = excluded.revoked_at`, args)
}

func (t Tables) markUsed(uses []auth.Use) error {
	args := make([][]any, len(uses))
	for i, use := range uses {
		args[i] = []any{use.At, use.TokenID}
	}
	_, err := t.ExecEach(
		"UPDATE tokens SET last_used_at = $1 WHERE id = $2 AND coalesce(last_used_at < $1, TRUE)", args)
	return err
}

// deleteExpired removes at most ChangeMax revoked JWTs that have expired when a JWT is revoked, except this one, if the
// database allows that.
func (t Tables) deleteExpired(token auth.Token) error {
	if allowed, err := t.MayDeleteTokens(); err != nil || !allowed {
		return err
	}
	_, err := t.deleteTokens("kind = $2 AND expires_at < $3 AND hash <> $4",
		ChangeMax, string(auth.KindJWT), token.CreatedAt, token.Hash[:])
	return err
}

// deleteSubjects removes the selected subjects and returns them by ascending id.
func (t Tables) deleteSubjects(p SubjectPrune) ([]auth.Token, error) {
	return t.deleteTokens("kind = $2 AND coalesce(last_used_at, created_at) < $3 AND coalesce(revoked_at < $4, TRUE)",
		p.Limit, string(auth.KindSubject), p.UnusedSince, p.RevokedBefore())
}

// deleteTokens removes the tokens that match a condition, but never the one with the highest id; see insertToken. The
// first of the arguments is the most that it removes.
func (t Tables) deleteTokens(condition string, args ...any) ([]auth.Token, error) {
	tokens, err := collect(t, tokenRow, selectTokens+"WHERE "+condition+
		" AND id < (SELECT max(id) FROM tokens) ORDER BY id LIMIT $1", args...)
	if err != nil {
		return nil, err
	}
	ids := make([][]any, len(tokens))
	for i, token := range tokens {
		ids[i] = []any{token.ID}
	}
	return tokens, t.ChangeTokens("DELETE FROM tokens WHERE id = $1", ids)
}
