package admin_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/auth"
)

// The pages of credentials are in both orders, with or without revoked ones.
func TestCredentialPages(t *testing.T) {
	t.Parallel()
	service, _ := open(t, admin.Config{})
	for _, name := range []string{"a", "b", "c", "d"} {
		n := admin.NewToken{Name: name, Scopes: []string{"plants:read"}}
		if name == "d" {
			n.ExpiresIn = admin.Seconds(48 * time.Hour)
		}
		if _, err := service.Mint(t.Context(), n, audit.Origin{}); err != nil {
			t.Fatal(err)
		}
	}
	revocation := admin.Revocation{Name: new("b")}
	if _, err := service.Revoke(t.Context(), revocation, audit.Origin{}); err != nil {
		t.Fatal(err)
	}
	for want, q := range map[string]admin.CredentialQuery{
		"a b|c d|": {Limit: 2}, "d c|b a|": {Limit: 2, Newest: true},
		"d c|a|": {Limit: 2, Newest: true, State: admin.StateAccepted}, "a c d|": {State: admin.StateAccepted},
		"|": {Kind: admin.KindJWT}, "b|": {State: auth.StateRevoked}, "c|": {Name: "C"}, "d|": {State: admin.StateExpiring},
	} {
		got := ""
		for more := true; more; more = q.Cursor != "" {
			page, err := service.Credentials(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for i, c := range page.Credentials {
				if i > 0 {
					got += " "
				}
				got += c.Name
			}
			got += "|"
			q.Cursor = page.Next
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", q, diff)
		}
	}
}
