package server

import (
	"net/http"

	"plantstore/internal/auth"
)

// publicPages returns the routes of the API document: JSON, YAML and an HTML page.
// They require no credential.
func publicPages(c Config, base string) ([]route, error) {
	document, err := newDocument(c.BaseURL, !c.OwnHostOnly, c.Limits)
	if err != nil {
		return nil, err
	}
	docs, err := newDocs(base)
	if err != nil {
		return nil, err
	}
	docs["/openapi.json"] = newDocsFile(mediaType, document.JSON)
	docs["/openapi.yaml"] = newDocsFile("application/yaml", document.YAML)
	list := make([]route, 0, len(docs))
	for path, file := range docs {
		list = append(list, route{method: "GET", path: base + path, open: true, untimed: true, handle: static(file)})
	}
	return list, nil
}

// static returns the function of a route for a file.
func static(file http.Handler) handlerFunc {
	return func(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
		file.ServeHTTP(w, r)
		return nil
	}
}
