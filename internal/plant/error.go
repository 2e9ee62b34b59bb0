package plant

import (
	"fmt"
	"slices"
	"strings"
)

// Error is the error body of a response: a code and a text without internals.
type Error struct {
	Code    Code
	Message string
}

func (e *Error) Error() string { return e.Message }

// Errorf returns the error with a code and a formatted message. It wraps none of the arguments.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// InvalidQuery returns the error for a parameter of a request to the admin listener.
func InvalidQuery(format string, args ...any) *Error {
	return Errorf(CodeQueryInvalid, format, args...)
}

// InvalidInput returns the error for a member of a body, or a field of a form, that the admin listener received.
func InvalidInput(format string, args ...any) *Error {
	return Errorf(CodeInputInvalid, format, args...)
}

// Faults collects the validation errors of one plant, so that one response has all of them. The zero value is ready to
// use.
type Faults struct {
	list []Error
}

// faultsMax limits the message for a body with many faults.
const faultsMax = 16

// Add adds a fault. The text names the member, the rule and the value or the remedy, as in "id must be a 64-bit
// integer; got 1.5". Its first semicolon must not be part of a value, because Err may replace it.
func (f *Faults) Add(code Code, text string) {
	if len(f.list) < faultsMax {
		f.list = append(f.list, Error{Code: code, Message: text})
	}
}

// Err returns nil if there is no fault. Otherwise it returns an *Error with the lowest code and the texts of all
// faults, in ascending order of their codes. Semicolons separate several faults; a comma replaces the one within each.
func (f *Faults) Err() error {
	if len(f.list) == 0 {
		return nil
	}
	slices.SortStableFunc(f.list, func(a, b Error) int { return int(a.Code - b.Code) })
	first := f.list[0]
	if len(f.list) == 1 {
		return &first
	}
	texts := make([]string, len(f.list))
	for i, fault := range f.list {
		texts[i] = strings.Replace(fault.Message, "; ", ", ", 1)
	}
	return &Error{Code: first.Code, Message: strings.Join(texts, "; ")}
}
