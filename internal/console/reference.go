package console

import (
	"net/http"

	"plantstore/internal/auth"
)

// reference is the content of the page about the APIs.
type reference struct {
	Public   string // of the public operation
	Document string // of the public API, as a page
	JSON     string
	YAML     string
}

func (c *Console) showReference(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
	return c.render(w, r, http.StatusOK, "reference", view{Title: "API", Content: reference{
		Public: c.operationURL(), Document: c.PublicURL.JoinPath("docs").String(),
		JSON: c.PublicURL.JoinPath("openapi.json").String(), YAML: c.PublicURL.JoinPath("openapi.yaml").String(),
	}})
}
