package sqlite

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// TestTokensOfSchema2 opens a store whose tokens have no prefix and whose digests include none.
func TestTokensOfSchema2(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plantstore.db")
	createdAt := time.UnixMicro(1_700_000_000_000_000).UTC()
	old := auth.Token{ID: 1, Name: "two words", Hash: auth.HashOf("old"), Scopes: auth.ScopeCreate, CreatedAt: createdAt}
	writeSchema2(t, path, old)

	e, err := Open(t.Context(), Config{Path: path, Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	secret := auth.Mint()
	fresh := auth.Token{
		Name: "new", Hash: auth.HashOf(secret), Prefix: auth.PrefixOf(secret), Scopes: auth.ScopeCreate, CreatedAt: createdAt,
	}
	if fresh.ID, err = e.CreateToken(t.Context(), fresh, audit.Origin{}); err != nil {
		t.Fatal(err)
	}
	got, err := e.Tokens(t.Context())
	if diff := cmp.Diff([]auth.Token{old, fresh}, got); diff != "" || err != nil {
		t.Errorf("tokens: %v (-want +got):\n%s", err, diff)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if v, err := Verify(t.Context(), path, nil); err != nil || len(v.Faults) > 0 {
		t.Errorf("verify: %v, %q; want no fault", err, v.Faults)
	}
}

// writeSchema2 creates a store of schema 2 with one token and its digest.
func writeSchema2(t *testing.T, path string, token auth.Token) {
	t.Helper()
	c, err := sqlite3.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, file := range migrations[:2] {
		err = errors.Join(err, apply(c, file, i+1))
	}
	var d store.Digester
	for _, text := range []string{fmt.Sprint(token.ID), token.Name, string(token.Hash[:]), token.Scopes.String()} {
		d.Text(text)
	}
	d.Integer(4)
	d.Integer(token.CreatedAt.UnixMicro())
	err = errors.Join(err,
		c.Exec("PRAGMA journal_mode = WAL"),
		c.Exec(fmt.Sprintf("INSERT INTO tokens (id, name, hash, scopes, created_at) VALUES (%d, '%s', x'%x', '%s', %d)",
			token.ID, token.Name, token.Hash, token.Scopes, token.CreatedAt.UnixMicro())),
		c.Exec(fmt.Sprintf("UPDATE state SET token_changes = 1, token_digests = %d", d.Sum())),
		c.Close())
	if err != nil {
		t.Fatal(err)
	}
}
