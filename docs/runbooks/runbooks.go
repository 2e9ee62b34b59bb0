// Package runbooks has the runbooks, for the help of the console.
package runbooks

import "embed"

// Files are the pages, each ID.md.
//
//go:embed *.md
var Files embed.FS
