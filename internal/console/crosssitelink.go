package console

import (
	"net/http"
	"net/url"

	"plantstore/internal/auth"
)

// continuePath redirects to a page of the console.
const continuePath = "/continue"

// followLink responds to a link on a page of another site. The browser has sent no cookie with it, because the cookie
// of a session is SameSite=Strict. So the response is a page of this site, which continues to the linked one.
func (c *Console) followLink(w http.ResponseWriter, r *http.Request) error {
	to := continuePath + "?" + url.Values{"next": {localPath(r.URL.RequestURI())}}.Encode()
	return c.continueTo(w, r, "Opening the console", to)
}

// continueTo responds with a page of this site that continues to another one at once, without JavaScript. It has a link
// for browsers that ignore the header.
func (c *Console) continueTo(w http.ResponseWriter, r *http.Request, title, to string) error {
	w.Header().Set("Refresh", "0; url="+to)
	return c.render(w, r, http.StatusOK, "continue", view{Title: title, Content: to})
}

// serveContinue redirects to the page of a link. It has an address of its own, because browsers may treat a redirect
// from a page to itself as a reload of the link.
func (c *Console) serveContinue(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
	redirect(w, localPath(r.URL.Query().Get("next")))
	return nil
}
