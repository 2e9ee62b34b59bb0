package history

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// register is the plant of one id. Only an operator changes it once it is set.
type register struct {
	content content
	present bool
}

// model is the store, reduced to one id.
var model = porcupine.Model{
	Init: func() any { return register{} },
	Step: func(state, input, _ any) (bool, any) { return state.(register).step(input.(operation)) },
	DescribeOperation: func(input, _ any) string {
		return input.(operation).String()
	},
}

// step reports whether the outcome of an operation is legal, and returns the next state.
func (r register) step(o operation) (bool, register) {
	switch o.outcome {
	case created:
		return !r.present, register{o.content, true}
	case replayed:
		return r.present && r.content == o.content, r
	case conflict:
		code := differentTag
		if r.content.name != o.content.name {
			code = differentName
		}
		return r.present && r.content != o.content && o.code == code, r
	case erased:
		return r.present, register{}
	case corrected:
		return r.present, register{o.content, true}
	case missing:
		return !r.present || o.raced, r
	case read:
		return r.present == o.present && r.content == o.content, r
	case unknown:
		// A request without effect equals one that takes effect after all recorded operations.
		switch {
		case o.kind == erase:
			r = register{}
		case r.present == (o.kind == correct):
			r = register{o.content, true}
		}
		return true, r
	default:
		return true, r
	}
}

// linearizable checks the operations of each id. It returns the number of ids, and an error for each id whose
// operations are not linearizable.
func linearizable(history []operation) (ids int, faults []error) {
	byID, corrections := map[int64][]porcupine.Operation{}, correctionsOf(history)
	for _, o := range history {
		o.raced = o.outcome == missing && corrections.during(o)
		p := porcupine.Operation{ClientId: o.client, Input: o, Call: int64(o.call), Return: int64(o.end)}
		if o.outcome == unknown {
			p.Return = math.MaxInt64
		}
		byID[o.id] = append(byID[o.id], p)
	}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		const limit = 20 * time.Second
		switch porcupine.CheckOperationsTimeout(model, byID[id], limit) {
		case porcupine.Illegal:
			faults = append(faults, fmt.Errorf("plant %d: not linearizable:%s", id, describe(byID[id])))
		case porcupine.Unknown:
			faults = append(faults, fmt.Errorf("plant %d: %d operations were not checked within %s", id, len(byID[id]), limit))
		}
	}
	return len(byID), faults
}

// corrections are the operations that may have corrected plants, by id.
type corrections map[int64][]operation

func correctionsOf(history []operation) corrections {
	all := corrections{}
	for _, o := range history {
		if o.kind == correct && (o.outcome == corrected || o.outcome == unknown) {
			all[o.id] = append(all[o.id], o)
		}
	}
	return all
}

// during reports whether one of them may have changed the plant of an operation while that ran. An operator's request
// first reads the plant, and then changes only what it has read.
func (c corrections) during(o operation) bool {
	return slices.ContainsFunc(c[o.id], func(other operation) bool {
		return other.call < o.end && (other.outcome == unknown || other.end > o.call)
	})
}

// concurrent counts the requests that started during another request for the same id.
func concurrent(history []operation) int {
	sorted := slices.Clone(history)
	slices.SortFunc(sorted, func(a, b operation) int {
		return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.call, b.call))
	})
	count := 0
	var until time.Duration
	for i, o := range sorted {
		if i == 0 || sorted[i-1].id != o.id {
			until = 0
		}
		if o.call < until {
			count++
		}
		until = max(until, o.end)
	}
	return count
}

// describe lists the operations of one id.
func describe(history []porcupine.Operation) string {
	const linesMax = 40
	slices.SortFunc(history, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	var text strings.Builder
	for i, o := range history {
		if i == linesMax {
			fmt.Fprintf(&text, "\n\tand %d more", len(history)-i)
			break
		}
		fmt.Fprintf(&text, "\n\t%s", o.Input)
	}
	return text.String()
}

// first joins the first errors of a list.
func first(faults []error) error {
	const errorsMax = 5
	if len(faults) <= errorsMax {
		return errors.Join(faults...)
	}
	more := fmt.Errorf("and %d more", len(faults)-errorsMax)
	return errors.Join(append(slices.Clone(faults[:errorsMax]), more)...)
}
