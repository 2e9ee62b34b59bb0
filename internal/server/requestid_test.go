package server_test

import (
	"io"
	"strings"
	"testing"

	"plantstore/internal/auth"
)

func TestRequestID(t *testing.T) { overBoth(t, testRequestID) }

func testRequestID(t *testing.T, over func(*setup)) {
	h := start(t, over)
	seen := map[string]bool{}
	for _, row := range []struct {
		name    string
		headers []string
		kept    string // empty: the server generates an id
	}{
		{"one character", []string{"X-Request-Id: 0"}, "0"},
		{"all valid characters", []string{"X-Request-Id: AZaz09._~+/=:@-"}, "AZaz09._~+/=:@-"},
		{"name in lower case", []string{"-X-Request-Id", "+x-request-id: a"}, "a"},
		{"longest", []string{"X-Request-Id: " + strings.Repeat("a", 128)}, strings.Repeat("a", 128)},
		{"white space around it", []string{"X-Request-Id: \t b \t"}, "b"},
		{"too long", []string{"X-Request-Id: " + strings.Repeat("a", 129)}, ""},
		{"none", []string{"-X-Request-Id"}, ""},
		{"empty", []string{"X-Request-Id: "}, ""},
		{"space", []string{"X-Request-Id: a b"}, ""},
		{"tab", []string{"X-Request-Id: a\tb"}, ""},
		{"quotes", []string{`X-Request-Id: "a"`}, ""},
		{"comma", []string{"X-Request-Id: a,b"}, ""},
		{"beyond ASCII", []string{"X-Request-Id: é"}, ""},
		{"not UTF-8", []string{"X-Request-Id: \xff"}, ""},
		{"JSON", []string{`X-Request-Id: a","level":"ERROR`}, ""},
		{"HTML", []string{"X-Request-Id: <script>"}, ""},
		{"twice", []string{"+X-Request-Id: a"}, ""},
		{"twice the same", []string{"X-Request-Id: a", "+X-Request-Id: a"}, ""},
		{"a token", []string{"X-Request-Id: " + auth.Mint()}, ""},
		{"part of a JWT", []string{"X-Request-Id: eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJodHRwczovL2xvZ2luIn0"}, ""},
		{"part of a token", []string{"X-Request-Id: a/pst_0"}, ""},
	} {
		c := h.dial(t, h.public)
		c.write(message("GET /healthz HTTP/1.1", "", row.headers...))
		want := row.kept
		if want == "" {
			want = generatedID
		}
		same(t, c.read("GET"), jsonResponse(200, `{"status":"ready"}`+"\n", "X-Request-Id", want))
		if row.kept != "" {
			h.log.await(t, row.kept)
		}
	}
	lines, _ := h.log.lines(t)
	for _, l := range lines {
		id := l["request_id"].(string)
		if seen[id] {
			t.Errorf("the log has the id %q twice", id)
		}
		seen[id] = true
	}
}

// A generated id is the same in the response and in the log.
func TestGeneratedRequestID(t *testing.T) { overBoth(t, testGeneratedRequestID) }

func testGeneratedRequestID(t *testing.T, over func(*setup)) {
	h := start(t, over)
	c := h.dial(t, h.public)
	c.write(message("GET /healthz HTTP/1.1", "", "-X-Request-Id"))
	c.closeWrite()
	raw, err := io.ReadAll(c.reader)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), "X-Request-Id: ")
	id, _, _ := strings.Cut(rest, "\r\n")
	if !hexID.MatchString(id) {
		t.Fatalf("%q has no id", raw)
	}
	h.log.await(t, id)
}
