package plant

import (
	"slices"
	"strings"
)

// Faults collects the validation errors of one plant, so that one response has
// all of them. The zero value is ready to use.
type Faults struct {
	list []Error
}

// faultsMax limits the message for a body with many faults.
const faultsMax = 16

// Add adds a fault. The text names the member, the rule and the value or the
// remedy, as in "id must be a 64-bit integer; got 1.5". Its first semicolon must
// not be part of a value, because Err may replace it.
func (f *Faults) Add(code Code, text string) {
	if len(f.list) < faultsMax {
		f.list = append(f.list, Error{Code: code, Message: text})
	}
}

// Err returns nil if there is no fault. Otherwise it returns an *Error with the
// lowest code and the texts of all faults, in ascending order of their codes.
// Semicolons separate several faults; a comma replaces the one within each.
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

// Differences compares a plant with the stored plant of the same id. It returns
// nil if their content is the same, otherwise an *Error with every member that
// differs. The error does not contain the stored values, because a client that
// may create plants may not read them.
func Differences(sent, stored Plant) error {
	if sent == stored {
		return nil
	}
	var faults Faults
	if sent.Name != stored.Name {
		faults.Add(CodeDifferentName, "a plant with this id is stored with a different name")
	}
	if sent.Tag != stored.Tag {
		faults.Add(CodeDifferentTag, "a plant with this id is stored with "+tagDifference(sent.Tag, stored.Tag))
	}
	return faults.Err()
}

func tagDifference(sent, stored Tag) string {
	switch {
	case !stored.present:
		return "no tag"
	case !sent.present:
		return "a tag"
	default:
		return "a different tag"
	}
}
