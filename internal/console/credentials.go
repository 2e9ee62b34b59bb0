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
	"plantstore/internal/store"
)

// credentials is the content of the page of credentials.
type credentials struct {
	admin.CredentialPage

	All    bool          // with expired and revoked ones
	Minted *admin.Minted // with the secret, which no other page shows
	Fault  string
	Name   string // in the form with the fault
	Scopes []string
	Lives  []lifetime
	Overs  []lifetime
}

// lifetime is a choice of a form.
type lifetime struct {
	Value, Name string
	time        time.Duration
}

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

func (c *Console) showCredentials(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
	return c.renderCredentials(w, r, http.StatusOK, credentials{})
}

// renderCredentials responds with the page of credentials, and adds the list to its content.
func (c *Console) renderCredentials(w http.ResponseWriter, r *http.Request, status int, content credentials) error {
	const credentialsOnPage = 40
	q := r.URL.Query()
	content.All = q.Has("all")
	var err error
	content.CredentialPage, err = c.Operations.Credentials(r.Context(), admin.CredentialQuery{
		Cursor: q.Get("cursor"), Valid: !content.All, Newest: true, Limit: credentialsOnPage,
	})
	if err != nil {
		return err
	}
	content.Scopes, content.Lives, content.Overs = strings.Fields(auth.Grantable.String()), lifetimes, overlaps
	return c.render(w, r, status, "credentials", view{Title: "Credentials", Content: content})
}

func (c *Console) mintCredential(w http.ResponseWriter, r *http.Request, form form) error {
	scopes, err := auth.ParseScopes(strings.Join(form.Values["scope"], " "))
	if err != nil {
		return plant.InvalidInput("choose one or more scopes in the form")
	}
	n := admin.NewToken{Name: form.Get("name"), Scopes: scopes}
	n.Lifetime, err = chosen(lifetimes, form.Get("lifetime"))
	var minted admin.Minted
	if err == nil {
		minted, err = c.Operations.Mint(r.Context(), n, form.by)
	}
	if e, ok := errors.AsType[*plant.Error](err); ok {
		return c.renderCredentials(w, r, e.Code.Status(), credentials{Fault: e.Message, Name: n.Name})
	}
	if err != nil {
		return err
	}
	return c.renderCredentials(w, r, http.StatusOK, credentials{Minted: &minted})
}

func (c *Console) rotateCredential(w http.ResponseWriter, r *http.Request, form form) error {
	overlap, err := chosen(overlaps, form.Get("overlap"))
	if err != nil {
		return err
	}
	minted, err := c.Operations.Rotate(r.Context(), admin.Rotation{Name: form.Get("name"), Overlap: overlap}, form.by)
	if err != nil {
		return err
	}
	return c.renderCredentials(w, r, http.StatusOK, credentials{Minted: &minted})
}

func (c *Console) revokeCredential(w http.ResponseWriter, r *http.Request, form form) error {
	id, err := strconv.ParseInt(form.Get("id"), 10, 64)
	if err != nil || id == 0 {
		return plant.InvalidInput("id must be the id of a credential; got %.100q", form.Get("id"))
	}
	_, err = c.Operations.Revoke(r.Context(), admin.Revocation{Tokens: store.Selector{ID: id}}, form.by)
	return redirectAfter(w, err, "/credentials?done=revoked")
}
