package replicas

import (
	"fmt"
	"maps"
	"slices"
	"testing"
)

// check compares the results of all requests with the stored plants, and returns every violation of a guarantee.
func check(history []operation, stored map[int64][]content) (violations []error) {
	byID := map[int64][]operation{}
	for i := range history {
		byID[history[i].id] = append(byID[history[i].id], history[i])
	}
	for _, id := range slices.Sorted(maps.Keys(stored)) {
		if len(byID[id]) == 0 {
			violations = append(violations, fmt.Errorf("plant %d is stored and was never sent", id))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		for _, violation := range checkPlant(byID[id], stored[id]) {
			violations = append(violations, fmt.Errorf("%s; requests:%s", violation, describe(byID[id])))
		}
	}
	return violations
}

// checkPlant is check for one id. stored has the rows with the id.
func checkPlant(history []operation, stored []content) (violations []string) {
	count := map[outcome]int{}
	possible := false // a request may have stored the row
	for i := range history {
		o := &history[i]
		count[o.outcome]++
		same := len(stored) > 0 && stored[0] == o.content
		switch o.outcome {
		case created, replayed:
			if !same {
				violations = append(violations, "the plant was acknowledged and is absent or changed")
			}
			possible = possible || same
		case unknown:
			possible = possible || same
		case conflict:
			if same || len(stored) == 0 {
				violations = append(violations, "a request was refused as a conflict, and no other plant is stored")
			}
		case unexpected:
			violations = append(violations, "a response is unexpected")
		}
	}
	switch {
	case len(stored) > 1:
		violations = append(violations, fmt.Sprintf("the plant is stored %d times", len(stored)))
	case len(stored) == 1 && !possible:
		violations = append(violations, "the stored content was never sent, or every request with it was refused")
	case len(stored) == 1 && count[created] == 0 && count[unknown] == 0:
		violations = append(violations, "the plant is stored, and no response reported its creation")
	}
	if count[created] > 1 {
		violations = append(violations, fmt.Sprintf("%d responses reported the creation", count[created]))
	}
	return violations
}

// describe lists the first requests of one id.
func describe(history []operation) (text string) {
	const linesMax = 10
	for i := range history[:min(linesMax, len(history))] {
		text += "\n\t" + history[i].String()
	}
	return text
}

// TestCheck runs check on histories that were written by hand.
func TestCheck(t *testing.T) {
	t.Parallel()
	a, b := content{name: "a"}, content{name: "b"}
	op := func(c content, o outcome) operation { return operation{id: 1, content: c, outcome: o} }
	for name, test := range map[string]struct {
		history []operation
		stored  []content
		want    int
	}{
		"correct":                {[]operation{op(a, created), op(a, replayed), op(b, conflict)}, []content{a}, 0},
		"unknown and stored":     {[]operation{op(a, unknown), op(a, replayed)}, []content{a}, 0},
		"unknown and absent":     {[]operation{op(a, unknown), op(a, busy)}, nil, 0},
		"lost":                   {[]operation{op(a, created)}, nil, 1},
		"changed":                {[]operation{op(a, created), op(b, unknown)}, []content{b}, 1},
		"stored twice":           {[]operation{op(a, created)}, []content{a, a}, 1},
		"created twice":          {[]operation{op(a, created), op(a, created)}, []content{a}, 1},
		"creation not reported":  {[]operation{op(a, replayed)}, []content{a}, 1},
		"id never sent":          {nil, []content{a}, 1},
		"content never sent":     {[]operation{op(a, unknown)}, []content{b}, 1},
		"busy and stored":        {[]operation{op(a, busy)}, []content{a}, 1},
		"conflict without plant": {[]operation{op(a, conflict)}, nil, 1},
		"conflict with same":     {[]operation{op(a, created), op(a, conflict)}, []content{a}, 1},
		"unexpected response":    {[]operation{op(a, unexpected)}, nil, 1},
	} {
		stored := map[int64][]content{}
		if test.stored != nil {
			stored[1] = test.stored
		}
		if violations := check(test.history, stored); len(violations) != test.want {
			t.Errorf("%s: got %v, want %d violations", name, violations, test.want)
		}
	}
}
