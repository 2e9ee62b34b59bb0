package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"plantstore/internal/auth"
	"plantstore/internal/store"
)

// consoleRow is a row of the section Console of docs/reference/authorization.md.
type consoleRow struct{ method, path, scope string }

func consoleRows(t *testing.T) (rows []consoleRow) {
	t.Helper()
	text, err := os.ReadFile("../../docs/reference/authorization.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Console\n")
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.Trim(cells[i], " `–")
		}
		if len(cells) != 3 || cells[0] != "GET" && cells[0] != "POST" {
			continue
		}
		rows = append(rows, consoleRow{cells[0], cells[1], strings.ReplaceAll(cells[2], "`", "")})
	}
	return rows
}

// The page has the routes of the console with their scopes, and no others.
func TestConsoleAuthorizationPage(t *testing.T) {
	t.Parallel()
	h := start(t)
	want := map[string]string{}
	for _, r := range h.routes {
		scope := r.Scope.String()
		if r.OtherScope != 0 {
			scope += " or " + r.OtherScope.String()
		}
		want[r.Method+" "+r.Path] = scope
	}
	for _, row := range consoleRows(t) {
		name := row.method + " " + row.path
		if scope, ok := want[name]; !ok || scope != row.scope {
			t.Errorf("%s: the page has the scope %q, the route %q (exists: %t)", name, row.scope, scope, ok)
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("the page has no row for %s", name)
	}
}

// TestConsoleAuthorization sends a request for each kind of session to each route, also with a token in the header
// Authorization, which the console ignores. An open route responds to all in the same way.
func TestConsoleAuthorization(t *testing.T) {
	t.Parallel()
	h := start(t, stored(1, "Rosa canina", plantTag("shrub")))
	others := map[string]*client{ // sessions without the scope
		"admin": h.signIn(h.mint("reader", auth.ScopeRead)), "plants:read": h.signIn(h.mint("bare", auth.ScopeAdmin)),
	}
	others["plants:create"], others["plants:create or admin"] = others["admin"], others["admin"]
	for i, row := range consoleRows(t) {
		target := strings.NewReplacer("{id}", "1", "{name}", "none").Replace(row.path)
		form := url.Values(nil)
		if row.method == http.MethodPost {
			form = url.Values{}
		}
		name := fmt.Sprintf("ended%d", i)
		secret := h.mint(name, auth.ScopeAdmin|auth.ScopeRead|auth.ScopeCreate)
		ended := h.signIn(secret)
		h.revoke(store.Selector{Name: name})
		h.awaitInvalid(secret) // a request would be cut if it lasted for so long
		valid := h.signIn(h.admin)
		other := others[row.scope]
		if other == nil {
			other = valid // an open route has no other scope
		}
		res := valid.do(row.method, target, form)
		refused, missing := 303, 403
		if row.scope == "" {
			refused, missing = res.status, res.status
		} else if isSignIn(res) || res.status == 403 || res.status >= 500 {
			t.Errorf("%s %s, right scope: got %d", row.method, target, res.status)
		}
		for session, c := range map[string]struct {
			client *client
			want   int
		}{
			"no session":    {&client{h: h}, refused},
			"token instead": {&client{h: h, header: http.Header{"Authorization": {"Bearer " + h.admin}}}, refused},
			"ended session": {ended, refused},
			"other scope":   {other, missing},
		} {
			res := c.client.do(row.method, target, form)
			if res.status != c.want {
				t.Errorf("%s %s, %s: got %d, want %d", row.method, target, session, res.status, c.want)
			}
			if row.scope != "" && res.status == 303 && !isSignIn(res) {
				t.Errorf("%s %s, %s: got a redirect to %q", row.method, target, session, res.Header.Get("Location"))
			}
		}
	}
}

// isSignIn reports whether a response redirects to the sign-in page.
func isSignIn(res response) bool { return strings.HasPrefix(res.Header.Get("Location"), "/sign-in") }
