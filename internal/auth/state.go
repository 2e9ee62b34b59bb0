package auth

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// State is the state of a token at a time.
type State string

// The states.
const (
	StateValid   State = "valid"
	StateRotated State = "rotated" // valid, and replaced by a newer valid token of its name
	StateExpired State = "expired"
	StateRevoked State = "revoked"
)

// States returns the state of each token. The tokens are all tokens of a store, in any order.
func States(tokens []Token, now time.Time) []State {
	states := make([]State, len(tokens))
	newest := map[string]int64{} // highest id of the valid tokens, by name
	for _, t := range tokens {
		if t.IsToken() && t.ValidAt(now) {
			newest[t.Name] = max(newest[t.Name], t.ID)
		}
	}
	for i, t := range tokens {
		switch {
		case t.Revoked():
			states[i] = StateRevoked
		case !t.ValidAt(now):
			states[i] = StateExpired
		case t.IsToken() && newest[t.Name] != t.ID: // two valid tokens share a name only after a rotation
			states[i] = StateRotated
		default:
			states[i] = StateValid
		}
	}
	return states
}

// NameForm says which names CheckName accepts.
const NameForm = "1 to 64 letters, digits, ._-@:/+ and single blanks inside, a letter or digit first"

// CheckName returns an error unless all characters of a new token's name are visible, or single blanks inside it, which
// end no column of a table. Older tokens may have other names.
func CheckName(name string) error {
	const runesMax = 64
	if LooksLikeSecret(name) {
		return errors.New("the name has the form of a secret")
	}
	blanks := strings.HasSuffix(name, " ") || strings.Contains(name, "  ")
	valid := name != "" && !blanks && utf8.RuneCountInString(name) <= runesMax
	for i, r := range name {
		word := unicode.In(r, unicode.L, unicode.Nd) || i > 0 && unicode.Is(unicode.M, r)
		invisible := unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
		valid = valid && !invisible && (word || i > 0 && strings.ContainsRune(" ._-@:/+", r))
	}
	if !valid {
		return fmt.Errorf("name: %q is not a valid name; use %s", name, NameForm)
	}
	return nil
}
