package console

import (
	"net/http"
	"net/url"

	"plantstore/internal/server"
)

// continuePath redirects to a page of the console.
const continuePath = "/continue"

// followLink responds to a link on a page of another site. The browser has sent no cookie with it, because the cookie
// of a session is SameSite=Strict. So the response is a page of this site, which continues to the linked one.
func (c *Console) followLink(call *server.Call) error {
	to := continuePath + "?" + url.Values{"next": {localPath(call.URL.RequestURI())}}.Encode()
	return c.continueTo(call, "Opening the console", to)
}

// continueTo responds with a page of this site that continues to another one at once, without JavaScript. It has a link
// for browsers that ignore the header.
func (c *Console) continueTo(call *server.Call, title, to string) error {
	call.Header().Set("Refresh", "0; url="+to)
	return c.render(call, http.StatusOK, "continue", view{Title: title, Content: to})
}

// serveContinue redirects to the page of a link. It has an address of its own, because browsers may treat a redirect
// from a page to itself as a reload of the link.
func (c *Console) serveContinue(call *server.Call) error {
	redirect(call, localPath(call.URL.Query().Get("next")))
	return nil
}
