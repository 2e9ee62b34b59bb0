package apidoc

// RenderMarkdown renders a text of a document.
func RenderMarkdown(text string) string { return string(markdown(text).HTML()) }
