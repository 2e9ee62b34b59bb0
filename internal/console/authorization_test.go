package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"

	"plantstore/internal/auth"
	"plantstore/internal/store"
)

// consoleRow is a row of the section Console of docs/reference/authorization.md.
type consoleRow struct {
	method, path, scope      string
	none, ended, other, want int // status by session
}

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
		if len(cells) != 7 || cells[0] != "GET" && cells[0] != "POST" {
			continue
		}
		row := consoleRow{method: cells[0], path: cells[1], scope: strings.ReplaceAll(cells[2], "`", "")}
		for i, status := range []*int{&row.none, &row.ended, &row.other, &row.want} {
			if *status, err = strconv.Atoi(cells[3+i]); err != nil {
				t.Fatal(err)
			}
		}
		rows = append(rows, row)
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
		if r.Or != 0 {
			scope += " or " + r.Or.String()
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

// TestConsoleAuthorization sends a request for each cell of the section, also with a token in
// the header Authorization, which the console ignores.
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
		ended := h.signIn(h.mint(name, auth.ScopeAdmin|auth.ScopeRead|auth.ScopeCreate))
		h.revoke(store.Selector{Name: name})
		cookie := ended.cookie
		for ended.get("/settings").status == 200 { // the revocation takes up to a second
		}
		ended.cookie = cookie
		for session, c := range map[string]struct {
			client *client
			want   int
		}{
			"no session":    {&client{h: h}, row.none},
			"token instead": {&client{h: h, header: http.Header{"Authorization": {"Bearer " + h.admin}}}, row.none},
			"ended session": {ended, row.ended},
			"other scope":   {others[row.scope], row.other},
			"right scope":   {h.signIn(h.admin), row.want},
		} {
			if c.client == nil {
				c.client = h.signIn(h.admin) // an open route has no other scope
			}
			res := c.client.do(row.method, target, form)
			if res.status != c.want {
				t.Errorf("%s %s, %s: got %d, want %d", row.method, target, session, res.status, c.want)
			}
			if signIn := strings.HasPrefix(res.Header.Get("Location"), "/sign-in"); c.want == 303 && row.scope != "" &&
				(session == "right scope") == signIn {
				t.Errorf("%s %s, %s: got a redirect to %q", row.method, target, session, res.Header.Get("Location"))
			}
		}
	}
}
