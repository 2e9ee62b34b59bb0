package auth_test

import (
	"crypto/sha256"
	"regexp"
	"strings"
	"testing"
	"time"

	"plantstore/internal/auth"
)

// known is a secret with a checksum of another program. It fixes the format, which scanners for leaked secrets match.
const known = "pst_0000000000000000000000000000000000000000000" + "0O7J8C"

const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

func TestMint(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^pst_[0-9A-Za-z]{43}[0-9A-Za-z]{6}$`)
	seen := map[string]bool{}
	values := make([]map[byte]bool, 43)
	for range 2000 {
		secret := auth.Mint()
		if !form.MatchString(secret) {
			t.Fatalf("%q does not match %s", secret, form)
		}
		if !auth.WellFormed(secret) || !auth.LooksLikeSecret(secret) {
			t.Errorf("%q is not recognized as a secret", secret)
		}
		if seen[secret] {
			t.Errorf("%q was minted twice", secret)
		}
		seen[secret] = true
		for i := range values {
			if values[i] == nil {
				values[i] = map[byte]bool{}
			}
			values[i][secret[4+i]] = true
		}
	}
	// 256 bits fill 43 digits of base 62, except for the highest, which has 11 values.
	for i, distinct := range values {
		if want := map[bool]int{true: 8, false: 55}[i == 0]; len(distinct) < want {
			t.Errorf("digit %d: only %d values in 2000 secrets, want at least %d", i, len(distinct), want)
		}
	}
}

func TestWellFormed(t *testing.T) {
	t.Parallel()
	minted := auth.Mint()
	for _, row := range []struct {
		name, in string
		want     bool
	}{
		{"minted", minted, true},
		{"known", known, true},
		{"empty", "", false},
		{"only the prefix", "pst_", false},
		{"without the prefix", minted[4:], false},
		{"without the checksum", minted[:47], false},
		{"shorter", minted[:52], false},
		{"longer", minted + "0", false},
		{"space before", " " + minted, false},
		{"space instead of p", " " + minted[1:], false},
		{"prefix in upper case", "PST_" + minted[4:], false},
		{"other prefix", "ghp_" + minted[4:], false},
		{"only the length", strings.Repeat("0", 53), false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			if got := auth.WellFormed(row.in); got != row.want {
				t.Errorf("WellFormed(%q): got %t, want %t", row.in, got, row.want)
			}
		})
	}
}

// CRC-32 detects every change of one character, and every swap of two neighbors.
func TestWellFormedDetectsErrors(t *testing.T) {
	t.Parallel()
	for range 20 {
		secret := auth.Mint()
		for i := range len(secret) {
			changed := []byte(secret)
			for _, c := range []byte(digits + "_-. \x00\xff") {
				if changed[i] = c; c != secret[i] && auth.WellFormed(string(changed)) {
					t.Errorf("%q for %q is well-formed", changed, secret)
				}
			}
			if i == 0 || secret[i] == secret[i-1] {
				continue
			}
			swapped := []byte(secret)
			swapped[i-1], swapped[i] = swapped[i], swapped[i-1]
			if auth.WellFormed(string(swapped)) {
				t.Errorf("%q for %q is well-formed", swapped, secret)
			}
		}
	}
}

func TestLooksLikeSecret(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]bool{
		auth.Mint(): true, "/plants/" + auth.Mint(): true, auth.Mint()[:10]: true, "pst_": true, "xpst_x": true,
		"eyJhbGciOiJub25lIn0.eyJ9.AA": true, "a eyJhbGciOiJub25lIn0.e": true, "eyJx eyJhbGciOiJub25lIn0.e": true,
		"heyJude.example": false, "eyJhbGciOiJub25lIn0": false, "eyJhbGciOiJub25lIn0.": false, "eyJ eyJ.eyJ": false,
		"": false, "pst": false, "pst-0": false, "PST_0": false, "past_": false,
	} {
		if got := auth.LooksLikeSecret(in); got != want {
			t.Errorf("LooksLikeSecret(%q): got %t, want %t", in, got, want)
		}
	}
}

func TestNewToken(t *testing.T) {
	t.Parallel()
	got, secret := auth.NewToken("shop", auth.ScopeCreate, time.Hour)
	want := auth.Token{
		Name: "shop", Scopes: auth.ScopeCreate, Hash: auth.HashOf(secret), Prefix: secret[:8],
		CreatedAt: got.CreatedAt, ExpiresAt: got.CreatedAt.Add(time.Hour),
	}
	if got != want || !auth.WellFormed(secret) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, _ := auth.NewToken("shop", auth.ScopeCreate, 0); !got.ExpiresAt.IsZero() {
		t.Errorf("without a lifetime: got %+v", got)
	}
}

func TestHashOf(t *testing.T) {
	t.Parallel()
	if got, want := auth.HashOf(known), auth.Hash(sha256.Sum256([]byte(known))); got != want {
		t.Errorf("got %x, want %x", got, want)
	}
}

// A name has letters of any script, their marks, digits and single blanks, and nothing that a page or a log hides or
// turns.
func TestCheckName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü", 64)
	for _, name := range []string{
		"web-shop", "Web shop Müller", "Mu\u0308ller", "नर्सरी 2", "ورد جوري", "9@a:/+._-", long,
	} {
		if err := auth.CheckName(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{
		"", " a", "a ", "a  b", "a\tb", "a\nb", "a\u00a0b", "a\u2003b", "a\u200bb", "a\u200fb", "a\u202eb", "a\u2067b",
		"a\u00adb", "\u0308a", "-a", "a\x00", "a\xffb", "a=b", `a"b`, long + "a", known,
	} {
		if auth.CheckName(name) == nil {
			t.Errorf("%q is a valid name", name)
		}
	}
}

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// A token is invalid from its time of expiry on. Any time of revocation makes it invalid.
func TestValidAt(t *testing.T) {
	t.Parallel()
	const tick = time.Microsecond
	for _, row := range []struct {
		name             string
		expires, revoked time.Time
		want             bool
	}{
		{"neither", time.Time{}, time.Time{}, true},
		{"expires later", noon.Add(tick), time.Time{}, true},
		{"expires now", noon, time.Time{}, false},
		{"expired", noon.Add(-tick), time.Time{}, false},
		{"revoked by a clock ahead", time.Time{}, noon.Add(1000 * time.Hour), false},
		{"revoked now", time.Time{}, noon, false},
		{"revoked", time.Time{}, noon.Add(-tick), false},
		{"expires later, revoked", noon.Add(tick), noon.Add(-tick), false},
		{"expired, revoked by a clock ahead", noon.Add(-tick), noon.Add(tick), false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			if got := (auth.Token{ExpiresAt: row.expires, RevokedAt: row.revoked}).ValidAt(noon); got != row.want {
				t.Errorf("got %t, want %t", got, row.want)
			}
		})
	}
}
