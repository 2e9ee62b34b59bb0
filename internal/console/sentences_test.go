package console_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"plantstore/internal/audit"
)

var tags = regexp.MustCompile(`<[^>]*>`)

// events returns the events on the page of the audit log, the newest first, without the details.
func (c *client) events() (texts []string) {
	c.h.t.Helper()
	page := c.get("/audit").body
	for _, m := range regexp.MustCompile(`(?s)</time></td><td>(.*?)<details`).FindAllStringSubmatch(page, -1) {
		texts = append(texts, strings.TrimSpace(tags.ReplaceAllString(m[1], "")))
	}
	return texts
}

// The page of the audit log says in a sentence what each event is.
func TestEventsAreSentences(t *testing.T) {
	t.Parallel()
	h := start(t)
	c := h.signIn(h.admin)
	source, err := os.ReadFile("../audit/audit.go")
	if err != nil {
		t.Fatal(err)
	}
	root := audit.Origin{Actor: audit.Actor{Kind: audit.User, ID: "0", Name: "root"}, Address: "192.0.2.1"}
	actions := regexp.MustCompile(`Action = "([a-z_.]+)"`).FindAllStringSubmatch(string(source), -1)
	if len(actions) < 25 {
		t.Fatalf("got %d actions", len(actions))
	}
	record := func(action audit.Action, by audit.Origin, details ...audit.Detail) string {
		t.Helper()
		e := audit.Event{Time: time.Now(), Action: action, Origin: by, Details: details}
		if err := h.engine.AppendAudit(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		return c.events()[0]
	}
	for _, action := range actions {
		got := record(audit.Action(action[1]), root)
		if strings.Contains(got, action[1]) || !strings.Contains(got, " ") || strings.ContainsAny(got, "{}[]|") {
			t.Errorf("%s: got %q", action[1], got)
		}
	}
	anna := audit.Origin{Actor: audit.Actor{Kind: audit.Token, ID: "7", Name: "anna"}}
	sudo := audit.Origin{Actor: audit.Actor{Kind: audit.User, ID: "0", Name: "root", SudoUser: "bob"}}
	for _, row := range []struct {
		action  audit.Action
		by      audit.Origin
		details string
		want    string
	}{
		{audit.TokenCreate, root, "token_name=first scopes=plants:create", "root created the token first (plants:create)"},
		{audit.TokenCreate, sudo, "token_name=first scopes=admin", "bob (as root) created the token first (admin)"},
		{audit.TokenRevoke, anna, "token_name=web-shop", "anna revoked the token web-shop"},
		{audit.TokenRevoke, anna, "kind=subject identifier=x", "anna revoked the subject x"},
		{
			audit.TokenCreate, root, "token_name=console-code-ABCDEFGH-anna scopes=console",
			"root made a sign-in link for anna",
		},
		{audit.TokenCreate, anna, "token_name=console-ABCDEFGH scopes=admin", "A session of anna in the console began"},
		{audit.PlantsErase, anna, "plants=1 reason=test", "anna erased 1 plant: test"},
		{
			audit.PlantsImport, anna, "file=a.csv result=complete created=1 conflicting=0 invalid=3",
			"anna imported a.csv: complete, 1 new plant, 3 invalid rows",
		},
		{audit.SignIn, anna, "console=code", "anna signed in to the console by code"},
		{audit.SignIn, root, "", "root used the admin listener from 192.0.2.1"},
		{
			audit.SignInRefused,
			audit.Origin{},
			"console=token count=4",
			"Somebody could not sign in to the console by token (4 times)",
		},
		{audit.ServerReload, root, "setting.log-format=json", "root changed the settings log-format of the running server"},
		{audit.TokenCreate, root, "token_name=<b> scopes=admin", "root created the token &lt;b&gt; (admin)"},
	} {
		var details []audit.Detail
		for _, pair := range strings.Fields(row.details) {
			key, value, _ := strings.Cut(pair, "=")
			details = append(details, audit.Detail{Key: key, Value: value})
		}
		if got := record(row.action, row.by, details...); got != row.want {
			t.Errorf("%s: got %q, want %q", row.details, got, row.want)
		}
	}
	settings := []audit.Detail{
		{Key: "setting.db", Value: "a.db"},
		{Key: "source.db", Value: "--db"},
		{Key: "setting.log-level", Value: "info"},
		{Key: "version", Value: "1.0.0"},
	}
	if got := record(audit.ServerStart, root, settings...); got != "root started the server, version 1.0.0" {
		t.Errorf("got %q", got)
	}
	shown, rest, found := strings.Cut(c.get("/audit").body, "1 settings with their defaults")
	if !found || !strings.Contains(shown, "setting.db<") || strings.Contains(shown, "setting.log-level<") ||
		!strings.Contains(rest, "setting.log-level<") {
		t.Errorf("the changed settings are not apart from the others: %s", shown)
	}
}
