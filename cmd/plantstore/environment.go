package main

import (
	"cmp"
	"iter"
	"path/filepath"
	"slices"
	"strings"
)

// environment is the environment of the program. It is not safe for concurrent changes.
type environment struct {
	vars  map[string]string // the variables by name
	given []string          // values of settings in the variables and the settings file, for hide
}

// newEnvironment returns the environment with entries of the form name=value.
func newEnvironment(entries []string) *environment {
	e := &environment{vars: map[string]string{}}
	for _, entry := range entries {
		name, value, _ := strings.Cut(entry, "=")
		e.vars[name] = value
		if strings.HasPrefix(name, environPrefix) {
			e.given = append(e.given, value)
		}
	}
	return e
}

// remember adds values to those that hide looks for, each one once.
func (e *environment) remember(values iter.Seq[string]) {
	for value := range values {
		if !slices.Contains(e.given, value) {
			e.given = append(e.given, value)
		}
	}
}

// hide is hideSecrets for a message that may repeat the values of settings and more texts of the user.
func (e *environment) hide(message string, more ...string) string {
	return hideSecrets(message, slices.Concat(e.given, more))
}

// scratchDir returns the directory for temporary copies of a store: TMPDIR, else the directory of the store.
func (e *environment) scratchDir(db string) string {
	return cmp.Or(e.vars["TMPDIR"], filepath.Dir(db))
}
