package console

import (
	"net/http"
	"strings"

	"plantstore/internal/adminapi"
	"plantstore/internal/apidoc"
	"plantstore/internal/server"
)

// reference is the content of the page of an API document.
type reference struct {
	Document *apidoc.Document
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
	return c.render(call, http.StatusOK, "reference", view{Title: content.Document.Title, Content: content})
}
