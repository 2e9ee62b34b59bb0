package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

const (
	noticesFile = "THIRD_PARTY_NOTICES"
	noticesHead = `The program plantstore contains software of other projects. This file lists it
with the licences, which require that their texts accompany the program.
"make notices" writes this file.

`
)

// sharedText is the text of a licence and the files that have it, as COMPONENT/FILE.
type sharedText struct {
	text  string
	files []string
}

// notices returns the content of THIRD_PARTY_NOTICES. A text of several components occurs once.
func notices(ctx context.Context, root string) ([]byte, error) {
	all, err := components(ctx, root)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.WriteString(noticesHead)
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "COMPONENT\tVERSION\tLICENCES\n")
	for _, c := range all {
		version := c.version
		if version == "" {
			version = "-"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", c.name, version, strings.Join(c.ids, ", "))
	}
	if err := table.Flush(); err != nil {
		return nil, err
	}
	for _, t := range sharedTexts(all) {
		fmt.Fprintf(&out, "\n%s\n%s\n\n%s", strings.Repeat("=", 80), strings.Join(t.files, "\n"), t.text)
	}
	return out.Bytes(), nil
}

func sharedTexts(all []component) (shared []sharedText) {
	for _, c := range all {
		for _, file := range c.files {
			name := c.name + "/" + file.name
			at := slices.IndexFunc(shared, func(t sharedText) bool { return t.text == file.text })
			if at < 0 {
				shared = append(shared, sharedText{file.text, []string{name}})
				continue
			}
			shared[at].files = append(shared[at].files, name)
		}
	}
	return shared
}
