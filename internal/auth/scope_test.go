package auth_test

import (
	"testing"

	"plantstore/internal/auth"
)

const (
	everyScope  = "plants:create plants:read admin metrics"
	knownScopes = "; known scopes are plants:create, plants:read, admin, metrics"
)

func TestParseScopes(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, in string
		want     auth.Scopes
		text     string // what String returns
		err      string
	}{
		{"none", "", 0, "", ""},
		{"only separators", " ,, ", 0, "", ""},
		{"create", "plants:create", auth.ScopeCreate, "plants:create", ""},
		{"read", "plants:read", auth.ScopeRead, "plants:read", ""},
		{"admin", "admin", auth.ScopeAdmin, "admin", ""},
		{"all", everyScope, auth.ScopeCreate | auth.ScopeRead | auth.ScopeAdmin | auth.ScopeMetrics, everyScope, ""},
		{"metrics", "metrics", auth.ScopeMetrics, "metrics", ""},
		{"commas and other order", "admin,plants:create", auth.ScopeAdmin | auth.ScopeCreate, "plants:create admin", ""},
		{"commas and spaces", " admin , plants:read ", auth.ScopeAdmin | auth.ScopeRead, "plants:read admin", ""},
		{"twice", "admin admin", auth.ScopeAdmin, "admin", ""},
		{"unknown", "plants:delete", 0, "", `unknown scope "plants:delete"` + knownScopes},
		{"one of them unknown", "admin root", 0, "", `unknown scope "root"` + knownScopes},
		{"other case", "Admin", 0, "", `unknown scope "Admin"` + knownScopes},
		{"tab", "admin\tadmin", 0, "", `unknown scope "admin\tadmin"` + knownScopes},
		{"wildcard", "*", 0, "", `unknown scope "*"` + knownScopes},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got, err := auth.ParseScopes(row.in)
			if message := errorText(err); got != row.want || message != row.err {
				t.Errorf("got %q, %q, want %q, %q", got, message, row.want, row.err)
			}
			if got.String() != row.text {
				t.Errorf("String: got %q, want %q", got, row.text)
			}
			if again, err := auth.ParseScopes(got.String()); again != got || err != nil {
				t.Errorf("parsed again: got %q, %v, want %q", again, err, got)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestHas(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		have, want auth.Scopes
		ok         bool
	}{
		{0, 0, true},
		{0, auth.ScopeCreate, false},
		{auth.ScopeCreate, auth.ScopeCreate, true},
		{auth.ScopeAdmin, auth.ScopeCreate, false}, // admin does not include other scopes
		{auth.ScopeAdmin, auth.ScopeMetrics, false},
		{auth.ScopeAdmin | auth.ScopeRead, auth.ScopeRead, true},
		{auth.ScopeRead, auth.ScopeAdmin | auth.ScopeRead, false},
		{auth.ScopeCreate | auth.ScopeRead | auth.ScopeAdmin, auth.ScopeAdmin | auth.ScopeRead, true},
	} {
		if got := row.have.Has(row.want); got != row.ok {
			t.Errorf("%q has %q: got %t, want %t", row.have, row.want, got, row.ok)
		}
	}
}
