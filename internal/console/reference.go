package console

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"plantstore/internal/adminapi"
	"plantstore/internal/apidoc"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/server"
)

// The paths of the pages about the APIs.
const (
	publicReferencePath = "/reference"
	adminReferencePath  = "/reference/admin"
	tryPath             = "/reference/try"
)

// referenceRoutes returns the routes of the pages about the APIs.
func (c *Console) referenceRoutes() []server.Route {
	page := func(path string, scope auth.Scopes, handle server.HandlerFunc) server.Route {
		return server.Route{Method: "GET", Path: path, Scope: scope, Page: true, Linked: true, Handle: handle}
	}
	return []server.Route{
		page(publicReferencePath, auth.ScopeRead, c.showPublicReference),
		page(adminReferencePath, auth.ScopeRead, c.showAdminReference),
		page(tryPath, auth.ScopeCreate, c.showTry),
		{Method: "POST", Path: tryPath, Scope: auth.ScopeCreate, Page: true, Handle: withForm(c.try)},
	}
}

// headerField is a line of the header of a response.
type headerField struct{ Name, Value string }

// reference is the content of the page of an API document.
type reference struct {
	Document *apidoc.Document
	CanTry   bool
	Base     string // address of the API
	Files    []link // the document itself
	IsPublic bool
}

type link struct{ Name, URL string }

func (c *Console) showPublicReference(w http.ResponseWriter, r *http.Request, principal auth.Principal) error {
	return c.renderReference(w, r, principal, reference{
		Document: server.PublicDocument(w), IsPublic: true, Base: c.PublicURL.String(),
		Files: []link{
			{"openapi.json", c.PublicURL.JoinPath("openapi.json").String()},
			{"openapi.yaml", c.PublicURL.JoinPath("openapi.yaml").String()},
		},
	})
}

func (c *Console) showAdminReference(w http.ResponseWriter, r *http.Request, principal auth.Principal) error {
	document, err := adminapi.Document()
	if err != nil {
		return err
	}
	return c.renderReference(w, r, principal, reference{
		Document: document, Base: "/api/v1", Files: []link{{"openapi.json", "/api/v1/openapi.json"}},
	})
}

func (c *Console) renderReference(
	w http.ResponseWriter, r *http.Request, principal auth.Principal, content reference,
) error {
	content.CanTry = principal.Scopes.Has(auth.ScopeCreate)
	return c.render(w, r, http.StatusOK, "reference", view{Title: content.Document.Title, Content: content})
}

// trial is the content of the page that sends a request of the public operation.
type trial struct {
	Body string
	URL  string // of the public operation

	Sent    bool
	Request string // the head of the request, without the credential
	Curl    string // a command that sends the same request
	Status  int
	Header  []headerField
	Answer  string // the body of the response
	ID      string // of the stored plant; empty: none, or the session cannot read it
}

func (c *Console) showTry(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
	const body = "{\n  \"id\": 42,\n  \"name\": \"Acer campestre\",\n  \"tag\": \"tree\"\n}"
	content := trial{Body: body, URL: c.operationURL()}
	return c.render(w, r, http.StatusOK, "try", view{Title: "Try the public operation", Content: content})
}

// try sends the body of a form to the public operation, with the credential of the session.
func (c *Console) try(w http.ResponseWriter, r *http.Request, form form) error {
	credential, err := c.credentialOf(r)
	if err != nil {
		return err
	}
	// A form has CRLF for each line end.
	content := trial{Body: strings.ReplaceAll(form.Get("body"), "\r\n", "\n"), URL: c.operationURL()}
	request, err := http.NewRequestWithContext(
		r.Context(), http.MethodPost, c.operationURL(), strings.NewReader(content.Body),
	)
	if err != nil {
		return fmt.Errorf("make the request of a trial: %w", err)
	}
	request.URL = &url.URL{Path: request.URL.Path, RawPath: request.URL.RawPath}
	request.Header.Set("Authorization", "Bearer "+credential)
	request.Header.Set("Content-Type", "application/json")
	content.describe(request)
	response := server.ServePublic(w, r, request)
	content.Sent, content.Status, content.Answer = true, response.Status, response.Body.String()
	for name, values := range response.Header() {
		content.Header = append(content.Header, headerField{name, strings.Join(values, ", ")})
	}
	slices.SortFunc(content.Header, func(a, b headerField) int { return strings.Compare(a.Name, b.Name) })
	if n, err := plant.Decode([]byte(content.Body)); err == nil && response.Status == http.StatusOK &&
		form.principal.Scopes.Has(auth.ScopeRead) {
		content.ID = strconv.FormatInt(n.ID, 10)
	}
	return c.render(w, r, http.StatusOK, "try", view{Title: "Try the public operation", Content: content})
}

// describe sets the texts of the request. They have a variable of the shell instead of the credential.
func (t *trial) describe(request *http.Request) {
	const credential = "Bearer $TOKEN"
	t.Request = fmt.Sprintf("POST %s HTTP/1.1\nHost: %s\nAuthorization: %s\nContent-Type: %s\nContent-Length: %d",
		request.URL.EscapedPath(), request.Host, credential, request.Header.Get("Content-Type"), request.ContentLength)
	t.Curl = "curl -i " + shellQuote(t.URL) + " \\\n  -H \"Authorization: " + credential + "\" \\\n" +
		"  -H 'Content-Type: application/json' \\\n  --data-raw " + shellQuote(t.Body)
}

// shellQuote returns a text as one word of a POSIX shell.
func shellQuote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
