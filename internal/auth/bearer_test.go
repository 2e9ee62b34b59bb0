package auth_test

import (
	"errors"
	"net/http"
	"testing"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
)

const (
	none = "the request has no bearer credential; " +
		"send Authorization: Bearer TOKEN with a token from the store's operator"
	malformed = "the Authorization header is malformed; send Authorization: Bearer TOKEN"
	twice     = "the request has more than one Authorization header; send one"
)

func TestBearer(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		in   []string // Authorization headers
		want string
		code plant.Code
		text string
	}{
		{"valid", []string{"Bearer abc"}, "abc", 0, ""},
		{"every character", []string{"Bearer AZaz09-._~+/=="}, "AZaz09-._~+/==", 0, ""},
		{"lower case", []string{"bearer abc"}, "abc", 0, ""},
		{"mixed case", []string{"bEaReR abc"}, "abc", 0, ""},
		{"spaces between", []string{"Bearer    abc"}, "abc", 0, ""},
		{"spaces behind", []string{"Bearer abc   "}, "abc", 0, ""},
		{"no header", nil, "", plant.CodeCredentialMissing, none},
		{"empty", []string{""}, "", plant.CodeCredentialMissing, none},
		{"other scheme", []string{"Basic YWJj"}, "", plant.CodeCredentialMissing, none},
		{"scheme with the same prefix", []string{"BearerX abc"}, "", plant.CodeCredentialMissing, none},
		{"no scheme", []string{"abc"}, "", plant.CodeCredentialMissing, none},
		{"space before", []string{" Bearer abc"}, "", plant.CodeCredentialMissing, none},
		{"tab between", []string{"Bearer\tabc"}, "", plant.CodeCredentialMissing, none},
		{"colon", []string{"Bearer: abc"}, "", plant.CodeCredentialMissing, none},
		{"no token", []string{"Bearer"}, "", plant.CodeAuthMalformed, malformed},
		{"spaces instead of a token", []string{"Bearer    "}, "", plant.CodeAuthMalformed, malformed},
		{"only equals signs", []string{"Bearer =="}, "", plant.CodeAuthMalformed, malformed},
		{"equals sign inside", []string{"Bearer a=b"}, "", plant.CodeAuthMalformed, malformed},
		{"two tokens", []string{"Bearer a b"}, "", plant.CodeAuthMalformed, malformed},
		{"tab in the token", []string{"Bearer a\tb"}, "", plant.CodeAuthMalformed, malformed},
		{"quotes", []string{`Bearer "abc"`}, "", plant.CodeAuthMalformed, malformed},
		{"list", []string{"Bearer a,Bearer b"}, "", plant.CodeAuthMalformed, malformed},
		{"at sign", []string{"Bearer a@b"}, "", plant.CodeAuthMalformed, malformed},
		{"bracket", []string{"Bearer a[b"}, "", plant.CodeAuthMalformed, malformed},
		{"backquote", []string{"Bearer a`b"}, "", plant.CodeAuthMalformed, malformed},
		{"braces", []string{"Bearer a{b"}, "", plant.CodeAuthMalformed, malformed},
		{"beyond ASCII", []string{"Bearer é"}, "", plant.CodeAuthMalformed, malformed},
		{"NUL", []string{"Bearer a\x00"}, "", plant.CodeAuthMalformed, malformed},
		{"two headers", []string{"Bearer a", "Bearer a"}, "", plant.CodeAuthMalformed, twice},
		{"two headers of other schemes", []string{"Basic a", "Digest b"}, "", plant.CodeAuthMalformed, twice},
		{"two empty headers", []string{"", ""}, "", plant.CodeAuthMalformed, twice},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			header := http.Header{"Proxy-Authorization": {"Bearer proxy"}, "Cookie": {"access_token=cookie"}}
			if row.in != nil {
				header["Authorization"] = row.in
			}
			got, err := auth.Bearer(header)
			checkRefusal(t, err, row.code, row.text)
			if got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

// checkRefusal checks for a *plant.Error with that code, or for no error if the code is 0.
func checkRefusal(t *testing.T, err error, code plant.Code, text string) {
	t.Helper()
	if code == 0 && err == nil {
		return
	}
	var refusal *plant.Error
	if !errors.As(err, &refusal) || refusal.Code != code || refusal.Message != text {
		t.Errorf("got %#v, want %d %q", err, code, text)
	}
}
