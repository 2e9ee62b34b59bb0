package auth_test

import (
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"plantstore/internal/auth"
)

// use sends a credential at a time from an address.
func use(ring *auth.Keyring, secret string, at time.Time, from string) {
	_, err := ring.Authenticate(secret, at)
	if invalid, ok := errors.AsType[*auth.Invalid](err); ok {
		invalid.RecordUse(at, netip.MustParseAddr(from))
	}
}

// The keyring remembers the uses of a token since its end, and no others, also after Replace.
func TestEndedUses(t *testing.T) {
	t.Parallel()
	var never time.Time
	tokens := []auth.Token{
		token(1, "valid", 0, never, never), token(2, "expired", 0, noon, never), token(3, "revoked", 0, never, noon),
		token(4, "console-ABCDEFGH-anna", 0, noon, never), token(5, "console-code-ABCDEFGH", 0, never, noon),
		token(6, "unused", 0, noon, never),
	}
	var ring auth.Keyring
	ring.Replace(tokens)
	second := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Second) }
	use(&ring, "expired", second(-1), "192.0.2.9")
	for i, name := range []string{"valid", "expired", "revoked", tokens[3].Name, tokens[4].Name, "unknown"} {
		use(&ring, name, second(i), "::ffff:192.0.2.1")
	}
	ring.Replace(tokens)
	use(&ring, "expired", second(9), "2001:db8::1:2:3:4%eth0")
	want := []auth.EndedUse{
		{Token: tokens[1], First: second(1), Last: second(9), Count: 2, Network: "2001:db8::/64"},
		{Token: tokens[2], First: second(2), Last: second(2), Count: 1, Network: "192.0.2.1"},
	}
	if diff := gocmp.Diff(want, ring.EndedUses(noon)); diff != "" {
		t.Errorf("uses (-want +got):\n%s", diff)
	}
	if got := ring.EndedUses(second(3)); len(got) != 1 || got[0].ID != 2 || !got[0].EndedAt().Equal(noon) {
		t.Errorf("since then: got %+v", got)
	}
	ring.Replace(tokens[:1])
	if got := ring.EndedUses(never); got != nil {
		t.Errorf("after the token was removed: got %+v", got)
	}
}

func TestEndedUsesAtOnce(t *testing.T) {
	t.Parallel()
	const clients, requests = 4, 250
	var ring auth.Keyring
	ring.Replace([]auth.Token{token(1, "expired", 0, noon, time.Time{})})
	var sending sync.WaitGroup
	for range clients {
		sending.Go(func() {
			for range requests {
				use(&ring, "expired", noon, "192.0.2.1")
			}
		})
	}
	sending.Wait()
	if got := ring.EndedUses(noon); len(got) != 1 || got[0].Count != clients*requests {
		t.Errorf("got %+v, want %d uses", got, clients*requests)
	}
}

func TestSessionNames(t *testing.T) {
	t.Parallel()
	for _, person := range []string{"", "anna", "Jörg Müller", "console-ABCDEFGH"} {
		for _, name := range []string{auth.SessionName(person), auth.CodeName(person)} {
			if !auth.IsSessionName(name) || auth.PersonOf(name) != person {
				t.Errorf("%q: got %q, want %q", name, auth.PersonOf(name), person)
			}
		}
	}
	for _, name := range []string{
		"", "anna", "console-job", "console-code-short", "a-console-ABCDEFGH", "console-ABCDEFGHI",
	} {
		if auth.IsSessionName(name) || auth.PersonOf(name) != "" {
			t.Errorf("%q is the name of a session", name)
		}
	}
}
