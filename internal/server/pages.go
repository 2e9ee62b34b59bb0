package server

import (
	"net/http"
	"strings"

	"plantstore/internal/auth"
)

// publicPages returns the routes of the API document: as JSON, as YAML and as
// a page to read. Nobody needs a credential to learn how to use the service.
func publicPages(c Config, base string) ([]route, error) {
	document, err := NewDocument(c.BaseURL, !c.OwnHostOnly, DocumentLimits{
		BodyMax:        c.Limits.BodyMax,
		HeaderMax:      c.Limits.HeaderMax,
		RequestTimeout: c.Limits.RequestTimeout,
		AnswerTimeout:  c.Limits.AnswerTimeout,
		QueueMax:       c.Limits.QueueMax,
	})
	if err != nil {
		return nil, err
	}
	docs, err := NewDocs(base)
	if err != nil {
		return nil, err
	}
	list := []route{
		{method: "GET", path: base + "/openapi.json", open: true, untimed: true, handle: static(newDocsFile(mediaType, document.JSON))},
		{method: "GET", path: base + "/openapi.yaml", open: true, untimed: true, handle: static(newDocsFile("application/yaml", document.YAML))},
	}
	for path, file := range docs {
		list = append(list, route{method: "GET", path: base + strings.TrimSuffix(path, "{$}"), open: true, untimed: true, handle: static(file)})
	}
	return list, nil
}

// static is a route that answers with a file.
func static(file http.Handler) handlerFunc {
	return func(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
		file.ServeHTTP(w, r)
		return nil
	}
}
