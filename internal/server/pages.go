package server

// publicPages returns the routes of the API document: JSON, YAML and an HTML page.
// They require no credential. It returns the document in JSON too.
func publicPages(c Config, base string) ([]route, []byte, error) {
	document, err := newDocument(c.BaseURL, !c.OwnHostOnly, c.Limits)
	if err != nil {
		return nil, nil, err
	}
	docs, err := newDocs(base)
	if err != nil {
		return nil, nil, err
	}
	docs["/openapi.json"] = newDocsFile(mediaType, document.JSON)
	docs["/openapi.yaml"] = newDocsFile("application/yaml", document.YAML)
	list := make([]route, 0, len(docs))
	for path, file := range docs {
		list = append(list, route{method: "GET", path: base + path, open: true, untimed: true, handle: fromHandler(file)})
	}
	return list, document.JSON, nil
}
