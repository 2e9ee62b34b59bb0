package auth_test

import (
	"fmt"
	"net/http"
	"time"

	"plantstore/internal/auth"
)

// A store keeps the hash of a secret. A request is authenticated by the secret in its Authorization header.
func Example() {
	secret := auth.Mint()
	token := auth.Token{ID: 1, Name: "gardener", Hash: auth.HashOf(secret), Scopes: auth.ScopeCreate}
	var keyring auth.Keyring
	keyring.Replace([]auth.Token{token})

	header := http.Header{"Authorization": {"Bearer " + secret}}
	credential, err := auth.Bearer(header)
	if err != nil {
		fmt.Println(err)
		return
	}
	principal, err := keyring.Authenticate(credential, time.Now())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(principal.Name, principal.Require(auth.ScopeCreate))
	// Output: gardener <nil>
}

// The old token stays valid during the overlap.
func ExampleRotate() {
	may, june := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	old := auth.Token{ID: 1, Name: "gardener", Scopes: auth.ScopeCreate, CreatedAt: may}
	fresh := auth.Token{Name: "gardener", Hash: auth.HashOf(auth.Mint()), CreatedAt: june}
	r, ok := auth.Rotate([]auth.Token{old}, fresh, 24*time.Hour)
	if !ok {
		fmt.Println("no valid token")
		return
	}
	fmt.Println("new token:", r.New.Scopes)
	for _, t := range r.Ended {
		fmt.Println("token", t.ID, "expires at", t.ExpiresAt.Format(time.RFC3339))
	}
	// Output:
	// new token: plants:create
	// token 1 expires at 2026-06-02T00:00:00Z
}
