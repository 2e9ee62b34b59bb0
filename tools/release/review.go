package main

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// This file has the facts that no program can derive from the sources. Review a row when a test names it.

// notLinked are files of linked modules about software that is not in the program.
var notLinked = map[string]bool{
	"modernc.org/memory/LICENSE-LOGO":         true, // an image of the project's page
	"modernc.org/sqlite/LICENSE-SQLITE_VEC":   true, // the package vec
	"modernc.org/sqlite/LICENSE-3RD-PARTY.md": true, // a list of all modules it requires; the linked ones are listed here
}

// texts has the licences of embedded files whose module does not have them.
//
//go:embed texts
var texts embed.FS

// embeddedFile is a file of another project in a package. The licence of the module does not cover it.
type embeddedFile struct {
	component, version string
	file               string // package and name
	sha256             string // the file's
	text               string // file below texts
	ids                []string
}

// embeddedFiles are the embedded files with licences of their own.
var embeddedFiles = []embeddedFile{
	{
		"sample plants of IPNI", "-", "plantstore/cmd/plantstore/samples.csv",
		"9a3ff8028804976fb0c293989134acc4aca4497203ceb1a4c65f4b06ed54cbcb",
		"sample-plants.txt",
		[]string{"CC-BY-4.0", "MIT"},
	},
}

// coveredByModule are the packages with embedded files that the licence of their module covers.
var coveredByModule = map[string]bool{
	"google.golang.org/protobuf/internal/editiondefaults": true,
}

// reviewed returns the licences of a text that a person has reviewed; none for all others.
func (c *component) reviewed(file licenceText) []string {
	for _, e := range embeddedFiles {
		if e.component == c.name && e.text == file.name {
			return e.ids
		}
	}
	return nil
}

// embeddedComponents returns the components of embedded files. It fails for a file that is not in the tables above or
// differs from its row.
func embeddedComponents(packages []listed) ([]*component, error) {
	var all []*component
	for _, p := range packages {
		if len(p.EmbedFiles) > 0 && !p.Standard && !p.Module.Main && !coveredByModule[p.ImportPath] {
			return nil, fmt.Errorf("%s embeds %q: add the licence of these files to tools/release/review.go",
				p.ImportPath, p.EmbedFiles)
		}
	}
	for _, e := range embeddedFiles {
		c, err := e.load(packages)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

func (e *embeddedFile) load(packages []listed) (*component, error) {
	for _, p := range packages {
		name, ok := strings.CutPrefix(e.file, p.ImportPath+"/")
		if !ok || strings.Contains(name, "/") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			return nil, err
		}
		if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != e.sha256 {
			return nil, fmt.Errorf("%s %s differs from the reviewed file (SHA-256 %x): update its version and its licences in "+
				"tools/release/review.go", e.file, p.Module.Version, sum)
		}
		text, err := texts.ReadFile("texts/" + e.text)
		if err != nil {
			return nil, err
		}
		return &component{
			name: e.component, version: e.version, files: []licenceText{{e.text, plainText(text)}},
		}, nil
	}
	return nil, fmt.Errorf("the program does not embed %s: remove its row from tools/release/review.go", e.file)
}
