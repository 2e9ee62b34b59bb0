package sqlite_test

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/sqlite"
	"plantstore/internal/sqlite/backupfile"
	"plantstore/internal/sqlite/sqlitetest"
	"plantstore/internal/store"
)

// TestTokenDigests shows that the stored sum of digests follows every change of tokens, and that no such change hides
// one by another program.
func TestTokenDigests(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plantstore.db")
	e := sqlitetest.Open(t, sqlite.Config{Path: path})
	ctx, by, at := t.Context(), audit.Origin{}, time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	const issuer = "https://login.example"
	token := func(name string) auth.Token {
		return auth.Token{Name: name, Hash: auth.HashOf(auth.Mint()), Scopes: auth.ScopeCreate, CreatedAt: at}
	}
	subject := auth.NewSubject(issuer, "a", at)
	for _, change := range []func() error{
		func() error { return second(e.CreateFirstTokens(ctx, []auth.Token{token("a"), token("b")}, by)) },
		func() error { return second(e.CreateToken(ctx, token("c"), by)) },
		func() error { _, _, err := e.RotateToken(ctx, token("c"), time.Hour, by); return err },
		func() error { return second(e.RevokeTokens(ctx, store.Selector{Name: "c"}, at, by)) },
		func() error { return second(e.PutSubject(ctx, subject, 10)) },
		func() error { return second(e.RevokeIdentity(ctx, auth.NewRevokedJWT(issuer, "a", at), 10, by)) },
		func() error { return second(e.PutSubject(ctx, auth.NewSubject(issuer, "b", at), 10)) },
		func() error {
			subject.RevokedAt = at
			return second(e.RevokeIdentity(ctx, subject, 10, by))
		},
		func() error { // removes the first JWT
			return second(e.RevokeIdentity(ctx, auth.NewRevokedJWT(issuer, "b", at.Add(1000*time.Hour)), 10, by))
		},
		func() error {
			month := 31 * 24 * time.Hour
			prune := store.SubjectPrune{UnusedSince: at.Add(month), At: at.Add(2 * month), Limit: 10}
			return second(e.PruneSubjects(ctx, prune, by))
		},
		func() error {
			tokens, err := e.Tokens(ctx)
			moved := token("moved")
			moved.ID = 100
			tokens[0].RevokedAt = at
			return errors.Join(err, e.PutTokens(ctx, append(tokens, moved)))
		},
	} {
		must(t, change())
	}
	must(t, e.Close())
	v, err := backupfile.Verify(ctx, path, nil)
	if err != nil || len(v.Faults) > 0 || v.Tokens != 6 {
		t.Fatalf("got %+v, %v; want 6 undamaged tokens", v, err)
	}

	sqlitetest.Exec(t, path, "UPDATE tokens SET scopes = 'admin' WHERE name = 'b'")
	e = sqlitetest.Open(t, sqlite.Config{Path: path})
	must(t, second(e.CreateToken(ctx, token("d"), by)))
	must(t, e.Close())
	v, err = backupfile.Verify(ctx, path, nil)
	if err != nil || !slices.Contains(v.Faults, "a token was changed, removed or added by another program") {
		t.Errorf("got %+v, %v; want the change by another program", v, err)
	}
}

// second returns the error of a call.
func second[T any](_ T, err error) error { return err }
