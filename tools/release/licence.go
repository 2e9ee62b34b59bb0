package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// licence is a licence that the project accepts in the program: each of them allows the use, X ship its text.
type licence struct {
	id      string   // SPDX identifier
	phrases []string // in small letters with single spaces; a text with all of them has this licence
	without string   // a text with this phrase has another licence; empty: none
}

const (
	redistribution = "redistribution and use in source and binary forms, with or without modification, are permitted"
	endorsement    = "to endorse or promote products derived from this software without specific prior written permission"
	withoutFee     = "for any purpose with or without fee is hereby granted"
	grantMIT       = "permission is hereby granted, free of charge, to any person obtaining a copy of this software"
)

var allowed = []licence{
	{id: "Apache-2.0", phrases: []string{"apache license, version 2.0"}},
	{id: "Apache-2.0", phrases: []string{"apache license version 2.0", "terms and conditions for use, reproduction"}},
	{id: "BSD-2-Clause", phrases: []string{redistribution}, without: endorsement},
	{id: "BSD-3-Clause", phrases: []string{redistribution, endorsement}},
	{id: "ISC", phrases: []string{"permission to use, copy, modify, and/or distribute this software", withoutFee}},
	{id: "ISC", phrases: []string{"permission to use, copy, modify, and distribute this software", withoutFee}},
	{id: "MIT", phrases: []string{grantMIT, "the above copyright notice and this permission notice shall be included"}},
	{id: publicDomain, phrases: []string{"has been dedicated to the public domain by the authors"}},
}

// publicDomain is the identifier of the dedication of SQLite, which has no SPDX identifier.
const publicDomain = "LicenseRef-public-domain"

// refused matches texts of licences with conditions that the project does not accept.
var refused = regexp.MustCompile(`gnu (lesser |affero |library )?general public|server side public licen[cs]e|` +
	`business source licen[cs]e|commons clause|mozilla public licen[cs]e|eclipse public licen[cs]e|` +
	`common development and distribution licen[cs]e|creative commons|elastic licen[cs]e|fair source`)

var (
	space   = regexp.MustCompile(`[\s*#>]+`)
	grant   = regexp.MustCompile(`(^|/)(NOTICE|PATENTS)[^/]*$`) // no licence of their own
	bigFile = 256 << 10
)

// identify sets the licences of a component. It fails if a text has no licence or one that is not allowed.
func (c *component) identify() error {
	var problems []error
	for _, file := range c.files {
		if len(file.text) > bigFile {
			problems = append(problems, fmt.Errorf("%s: %s has %d bytes: review it", c.name, file.name, len(file.text)))
		}
		ids := c.reviewed(file)
		if len(ids) == 0 {
			ids = licencesOf(file.text)
		}
		if len(ids) == 0 && !grant.MatchString(file.name) {
			problems = append(problems, fmt.Errorf("%s %s: %s has no licence of the allow list in tools/release/licence.go",
				c.name, c.version, file.name))
		}
		c.ids = append(c.ids, ids...)
	}
	slices.Sort(c.ids)
	c.ids = slices.Compact(c.ids)
	if len(c.ids) == 0 {
		problems = append(problems, fmt.Errorf("%s %s has no licence", c.name, c.version))
	}
	return errors.Join(problems...)
}

// licencesOf returns the identifiers of the allowed licences in a text; none if the text also has another licence.
func licencesOf(text string) (ids []string) {
	text = strings.ToLower(space.ReplaceAllString(text, " "))
	if refused.MatchString(text) {
		return nil
	}
	for _, l := range allowed {
		missing := func(phrase string) bool { return !strings.Contains(text, phrase) }
		if !slices.ContainsFunc(l.phrases, missing) && (l.without == "" || !strings.Contains(text, l.without)) {
			ids = append(ids, l.id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
