package console

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/server"
)

// credentials is the content of the page of credentials.
type credentials struct {
	admin.CredentialPage

	Sessions []admin.Credential // the console's; the Credentials of the page are all others
	Pager    pager
	Used     []admin.Credential // ended ones that clients still send, the last one first; at most endedShown
	UsedMore bool               // there are more
	Query    admin.CredentialQuery
	States   []choice
	Kinds    []choice
	Minted   *admin.Minted // with the secret, which no other page shows
	URL      string        // where clients create plants
	Fault    *plant.Error  // why the form was refused
	Form     newTokenForm
	Scopes   []choice
	NameForm string
	Lives    []lifetime
	Overs    []lifetime
}

// NameFault reports whether the name in the form is wrong.
func (c credentials) NameFault() bool {
	return c.Fault != nil && (c.Fault.Code.Status() == http.StatusConflict || strings.HasPrefix(c.Fault.Message, "name"))
}

// ListTitle returns the title of the list.
func (c credentials) ListTitle() string {
	i := slices.IndexFunc(c.States, func(s choice) bool { return s.Value == string(c.Query.State) })
	return c.States[max(i, 0)].Text
}

// Filtered reports whether the list has a filter.
func (c credentials) Filtered() bool {
	return c.Query.Name != "" || c.Query.Kind != "" || c.Query.State != ""
}

// CreatesWith reports whether the secret of a new token creates plants.
func (credentials) CreatesWith(m admin.Minted) bool {
	return slices.Contains(m.Scopes, auth.ScopeCreate.String())
}

// credentialTable is a table of the page: of sessions, or of all others.
type credentialTable struct {
	credentials

	List    []admin.Credential
	Caption string
}

// CanRotate reports whether the credential is a token of a client.
func (credentialTable) CanRotate(c admin.Credential) bool {
	return c.Kind == admin.KindToken && c.State == auth.StateValid && !isSession(c)
}

type newTokenForm struct {
	Name, Lifetime string
	Scopes         []string
}

// Chose reports whether the form has a scope.
func (f newTokenForm) Chose(scope string) bool { return slices.Contains(f.Scopes, scope) }

// isSession reports whether a sign-in to the console created the credential, or is its code.
func isSession(t admin.Credential) bool {
	return auth.IsSessionName(t.Name) && !t.ExpiresAt.IsZero() && t.ExpiresAt.Sub(t.CreatedAt) <= sessionTimeMax
}

// lifetime is a choice of a form.
type lifetime struct {
	Value, Name string
	time        time.Duration
}

// choice is a value of a form with its text.
type choice struct{ Value, Text string }

// anyState is the value of the filter for credentials in every state. Without a value it has those that work.
const anyState = "all"

var (
	credentialStates = []choice{
		{"", "Valid"},
		{string(admin.StateExpiring), "Expiring"},
		{string(admin.StateEndedUsed), "Ended but used"},
		{string(auth.StateExpired), "Expired"},
		{string(auth.StateRevoked), "Revoked"},
		{anyState, "All"},
	}
	credentialKinds = []choice{
		{"", "All"},
		{admin.KindToken, "Tokens"},
		{admin.KindSubject, "People and programs of the issuer"},
		{admin.KindJWT, "Revoked JWTs"},
	}
	scopeChoices = []choice{
		{auth.ScopeCreate.String(), "stores new plants and imports files"},
		{auth.ScopeRead.String(), "sees, searches and exports all plants"},
		{auth.ScopeAdmin.String(), "corrects and erases plants, and manages credentials, backups and webhooks"},
		{auth.ScopeMetrics.String(), "reads numbers for monitoring, and no plants"},
	}
)

const day = 24 * time.Hour

// lifetimes are the lifetimes of a new token; 0: no expiry.
var lifetimes = []lifetime{
	{"1d", "1 day", day},
	{"7d", "7 days", 7 * day},
	{"30d", "30 days", 30 * day},
	{"90d", "90 days", 90 * day},
	{"365d", "1 year", 365 * day},
	{"none", "No expiry", 0},
}

// overlaps are the times for which a rotated token stays valid.
var overlaps = []lifetime{
	{"0", "ends at once", 0},
	{"1h", "stays valid for 1 hour", time.Hour},
	{"1d", "stays valid for 1 day", day},
	{"7d", "stays valid for 7 days", 7 * day},
}

// chosen returns the time of a choice.
func chosen(list []lifetime, value string) (time.Duration, error) {
	i := slices.IndexFunc(list, func(l lifetime) bool { return l.Value == value })
	if i < 0 {
		return 0, plant.InvalidInput("choose one of the times in the form")
	}
	return list[i].time, nil
}

func (c *Console) showCredentials(call *server.Call, fault *plant.Error) error {
	return c.renderCredentials(call, view{Fault: fault}, credentials{})
}

// renderCredentials responds with the page of credentials, and adds the list to its content.
func (c *Console) renderCredentials(call *server.Call, v view, content credentials) error {
	const credentialsOnPage, endedShown = 40, 10
	params := call.URL.Query()
	q := admin.CredentialQuery{
		Cursor: cursorOf(call.Request), Newest: true, Limit: credentialsOnPage, Name: params.Get("name"),
		Kind: params.Get("kind"), State: auth.State(params.Get("state")),
	}
	content.Query, content.States, content.Kinds = q, credentialStates, credentialKinds
	switch q.State {
	case "":
		q.State = admin.StateAccepted
	case anyState:
		q.State = ""
	}
	var err error
	if content.CredentialPage, err = c.Operations.Credentials(call.Context(), q); err != nil {
		return err
	}
	used, err := c.Operations.Credentials(call.Context(), admin.CredentialQuery{
		State: admin.StateEndedUsed, Newest: true,
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(used.Credentials, func(a, b admin.Credential) int { return b.Used.Last.Compare(a.Used.Last) })
	content.Used = used.Credentials[:min(len(used.Credentials), endedShown)]
	content.UsedMore = len(used.Credentials) > endedShown
	content.Pager = newPager(call.Request, "credentials", "/credentials", len(content.Credentials), content.Next)
	content.Pager.All = content.Total
	for _, t := range content.Credentials {
		if isSession(t) {
			content.Sessions = append(content.Sessions, t)
		}
	}
	content.Credentials = slices.DeleteFunc(content.Credentials, isSession)
	if content.Fault == nil {
		content.Form = newTokenForm{Lifetime: "90d", Scopes: []string{auth.ScopeCreate.String()}}
	}
	content.Scopes, content.NameForm, content.Lives, content.Overs = scopeChoices, auth.NameForm, lifetimes, overlaps
	content.URL = c.operationURL()
	v.Title, v.Address, v.Content = "Credentials", "/credentials", content
	status := v.status()
	if content.Fault != nil {
		status = content.Fault.Code.Status()
	}
	return c.render(call, status, "credentials", v)
}

func (c *Console) mintCredential(call *server.Call) error {
	given := newTokenForm{call.Form.Get("name"), call.Form.Get("lifetime"), call.Form["scope"]}
	minted, err := c.mint(call, given)
	if e, ok := errors.AsType[*plant.Error](err); ok {
		return c.renderCredentials(call, view{}, credentials{Fault: e, Form: given})
	}
	if err != nil {
		return err
	}
	return c.renderCredentials(call, view{}, credentials{Minted: &minted})
}

func (c *Console) mint(call *server.Call, given newTokenForm) (admin.Minted, error) {
	if scopes, err := auth.ParseScopes(strings.Join(given.Scopes, " ")); err != nil || scopes == 0 {
		return admin.Minted{}, plant.InvalidInput("choose one or more scopes in the form")
	}
	lifetime, err := chosen(lifetimes, given.Lifetime)
	if err != nil {
		return admin.Minted{}, err
	}
	n := admin.NewToken{Name: given.Name, Scopes: given.Scopes, NoExpiry: lifetime == 0}
	if !n.NoExpiry {
		n.ExpiresIn = admin.Seconds(lifetime)
	}
	return c.Operations.Mint(call.Context(), n, call.Origin())
}

func (c *Console) rotateCredential(call *server.Call) error {
	overlap, err := chosen(overlaps, call.Form.Get("overlap"))
	if err != nil {
		return err
	}
	rotation := admin.Rotation{Name: call.Form.Get("name"), Overlap: admin.Seconds(overlap)}
	minted, err := c.Operations.Rotate(call.Context(), rotation, call.Origin())
	if err != nil {
		return err
	}
	return c.renderCredentials(call, view{}, credentials{Minted: &minted})
}

func (c *Console) revokeCredential(call *server.Call) error {
	id, err := strconv.ParseInt(call.Form.Get("id"), 10, 64)
	if err != nil || id == 0 {
		return plant.InvalidInput("id must be the id of a credential; got %.100q", call.Form.Get("id"))
	}
	_, err = c.Operations.Revoke(call.Context(), admin.Revocation{ID: &id}, call.Origin())
	return redirectAfter(call, err, "/credentials?done=revoked")
}
