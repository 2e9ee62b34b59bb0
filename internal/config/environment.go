package config

import (
	"cmp"
	"iter"
	"path/filepath"
	"slices"
	"strings"
)

// Environment is the environment of the program. It is not safe for concurrent changes.
type Environment struct {
	Vars         map[string]string // the variables by name
	SettingsFile string            // has the settings unless something else names a store; empty: none

	given []string // values of settings in the variables and the settings file, for Hide
}

// NewEnvironment returns the environment with entries of the form name=value.
func NewEnvironment(entries []string) *Environment {
	e := &Environment{Vars: map[string]string{}}
	for _, entry := range entries {
		name, value, _ := strings.Cut(entry, "=")
		e.Vars[name] = value
		if strings.HasPrefix(name, VariablePrefix) {
			e.given = append(e.given, value)
		}
	}
	return e
}

// remember adds values to those that Hide looks for, each one once.
func (e *Environment) remember(values iter.Seq[string]) {
	for value := range values {
		if !slices.Contains(e.given, value) {
			e.given = append(e.given, value)
		}
	}
}

// Hide is hideSecrets for a message that may repeat the values of settings and more texts of the user.
func (e *Environment) Hide(message string, more ...string) string {
	return HideSecrets(message, slices.Concat(e.given, more))
}

// ScratchDir returns the directory for temporary copies of a store: TMPDIR, else the directory of the store.
func (e *Environment) ScratchDir(db string) string {
	return cmp.Or(e.Vars["TMPDIR"], filepath.Dir(db))
}
