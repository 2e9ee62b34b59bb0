package console

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"plantstore/internal/adminapi"
	"plantstore/internal/apidoc"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/server"
)

// reference is the content of the page of an API document.
type reference struct {
	Document *apidoc.Document
	CanTry   bool
	Base     string // address of the API
	IsPublic bool
}

func (c *Console) showPublicReference(call *server.Call) error {
	return c.renderReference(call, reference{
		Document: call.PublicDocument(), IsPublic: true, Base: strings.TrimSuffix(c.PublicURL.String(), "/"),
	})
}

func (c *Console) showAdminReference(call *server.Call) error {
	document, err := adminapi.Document()
	if err != nil {
		return err
	}
	return c.renderReference(call, reference{Document: document, Base: "/api/v1"})
}

func (c *Console) renderReference(call *server.Call, content reference) error {
	content.CanTry = call.Principal.Scopes.Has(auth.ScopeCreate)
	return c.render(call, http.StatusOK, "reference", view{Title: content.Document.Title, Content: content})
}

// trial is the content of the page that sends a request of the public operation.
type trial struct {
	Body string
	URL  string // of the public operation

	Request  *http.Request // nil: nothing was sent
	Response *server.Trial
	ID       string // of the stored plant; empty: none, or the session cannot read it
}

func (c *Console) showTry(call *server.Call) error {
	return c.renderTrial(call, trial{Body: "{\n  \"id\": 42,\n  \"name\": \"Acer campestre\",\n  \"tag\": \"tree\"\n}"})
}

func (c *Console) renderTrial(call *server.Call, content trial) error {
	content.URL = c.operationURL()
	return c.render(call, http.StatusOK, "try", view{Title: "Try the public operation", Content: content})
}

// try sends the body of a form to the public operation, with the credential of the session. The page shows a variable
// of the shell instead of the credential.
func (c *Console) try(call *server.Call, form url.Values) error {
	credential, err := c.credentialOf(call.Request)
	if err != nil {
		return err
	}
	// A form has CRLF for each line end.
	content := trial{Body: strings.ReplaceAll(form.Get("body"), "\r\n", "\n")}
	request, err := http.NewRequestWithContext(
		call.Context(), http.MethodPost, c.operationURL(), strings.NewReader(content.Body),
	)
	if err != nil {
		return fmt.Errorf("make the request of a trial: %w", err)
	}
	request.URL = &url.URL{Path: request.URL.Path, RawPath: request.URL.RawPath}
	request.Header.Set("Authorization", "Bearer "+credential)
	request.Header.Set("Content-Type", "application/json")
	content.Request, content.Response = request, call.ServePublic(request)
	if n, err := plant.Decode([]byte(content.Body)); err == nil && content.Response.Status == http.StatusOK &&
		call.Principal.Scopes.Has(auth.ScopeRead) {
		content.ID = strconv.FormatInt(n.ID, 10)
	}
	return c.renderTrial(call, content)
}
