package auth_test

import (
	"errors"
	"hash/crc32"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
)

// bearerForm is the header of RFC 6750 section 2.1, with the scheme in any case and with spaces at the end.
var bearerForm = regexp.MustCompile(`^(?i:Bearer) +([A-Za-z0-9\-._~+/]+=*) *$`)

func FuzzBearer(f *testing.F) {
	f.Fuzz(func(t *testing.T, value string) {
		got, err := auth.Bearer(http.Header{"Authorization": {value}})
		want := ""
		if match := bearerForm.FindStringSubmatch(value); match != nil {
			want = match[1]
		}
		if got != want || (err == nil) != (want != "") {
			t.Fatalf("Bearer(%q): got %q, %v, want %q", value, got, err, want)
		}
		if err == nil {
			return
		}
		scheme, _, _ := strings.Cut(value, " ")
		code := plant.CodeCredentialMissing
		if strings.EqualFold(scheme, "Bearer") {
			code = plant.CodeAuthMalformed
		}
		var refusal *plant.Error
		if !errors.As(err, &refusal) || refusal.Code != code {
			t.Fatalf("Bearer(%q): got %#v, want code %d", value, err, code)
		}
		if value != "" && len(value) > 20 && strings.Contains(refusal.Message, value) {
			t.Fatalf("Bearer(%q): the message contains the credential: %q", value, refusal.Message)
		}
	})
}

func FuzzWellFormed(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		got := auth.WellFormed(text)
		want := len(text) == 53 && strings.HasPrefix(text, "pst_") &&
			number(text[47:]) == int64(crc32.ChecksumIEEE([]byte(text[:47])))
		if got != want {
			t.Fatalf("WellFormed(%q): got %t, want %t", text, got, want)
		}
		if got && !auth.LooksLikeSecret(text) {
			t.Fatalf("%q is well-formed, but does not look like a secret", text)
		}
	})
}

// number parses a number in base 62; it returns -1 for any other text.
func number(text string) int64 {
	var n int64
	for i := range len(text) {
		digit := strings.IndexByte(digits, text[i])
		if digit < 0 {
			return -1
		}
		n = n*62 + int64(digit)
	}
	return n
}
