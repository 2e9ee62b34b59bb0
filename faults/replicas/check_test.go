package replicas

import (
	"fmt"
	"maps"
	"slices"
	"testing"
)

// check finds what there is no excuse for, given all that clients were told and
// all that is there in the end.
func check(history []operation, there map[int64][]content) (faults []error) {
	byID := map[int64][]operation{}
	for i := range history {
		byID[history[i].id] = append(byID[history[i].id], history[i])
	}
	for _, id := range slices.Sorted(maps.Keys(there)) {
		if len(byID[id]) == 0 {
			faults = append(faults, fmt.Errorf("plant %d was never sent", id))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		for _, fault := range checkPlant(byID[id], there[id]) {
			faults = append(faults, fmt.Errorf("%s; told:%s", fault, describe(byID[id])))
		}
	}
	return faults
}

// checkPlant is check for one id.
func checkPlant(history []operation, there []content) (faults []string) {
	count := map[outcome]int{}
	possible := false // somebody may have made what is there
	for i := range history {
		o := &history[i]
		count[o.outcome]++
		same := len(there) > 0 && there[0] == o.content
		switch o.outcome {
		case created, replayed:
			if !same {
				faults = append(faults, "acknowledged, and absent or changed")
			}
			possible = possible || same
		case unknown:
			possible = possible || same
		case conflict:
			if same || len(there) == 0 {
				faults = append(faults, "refused for another plant, which is not there")
			}
		case refused:
			faults = append(faults, "a wrong answer")
		}
	}
	switch {
	case len(there) > 1:
		faults = append(faults, fmt.Sprintf("there %d times", len(there)))
	case len(there) == 1 && !possible:
		faults = append(faults, "there with what nobody sent, or what was refused each time")
	case len(there) == 1 && count[created] == 0 && count[unknown] == 0:
		faults = append(faults, "there, and nobody was told that it was created")
	}
	if count[created] > 1 {
		faults = append(faults, fmt.Sprintf("created %d times", count[created]))
	}
	return faults
}

// describe lists what clients were told of one id.
func describe(history []operation) (text string) {
	const linesMax = 10
	for i := range history[:min(linesMax, len(history))] {
		text += "\n\t" + history[i].String()
	}
	return text
}

// TestCheck has histories written by hand.
func TestCheck(t *testing.T) {
	t.Parallel()
	a, b := content{name: "a"}, content{name: "b"}
	told := func(c content, o outcome) operation { return operation{id: 1, content: c, outcome: o} }
	for name, test := range map[string]struct {
		history []operation
		there   []content
		want    int
	}{
		"as it should be":          {[]operation{told(a, created), told(a, replayed), told(b, conflict)}, []content{a}, 0},
		"unknown and there":        {[]operation{told(a, unknown), told(a, replayed)}, []content{a}, 0},
		"unknown and absent":       {[]operation{told(a, unknown), told(a, busy)}, nil, 0},
		"lost":                     {[]operation{told(a, created)}, nil, 1},
		"changed":                  {[]operation{told(a, created), told(b, unknown)}, []content{b}, 1},
		"doubled":                  {[]operation{told(a, created)}, []content{a, a}, 1},
		"created twice":            {[]operation{told(a, created), told(a, created)}, []content{a}, 1},
		"never told":               {[]operation{told(a, replayed)}, []content{a}, 1},
		"never sent":               {nil, []content{a}, 1},
		"never sent so":            {[]operation{told(a, unknown)}, []content{b}, 1},
		"busy, and there":          {[]operation{told(a, busy)}, []content{a}, 1},
		"conflict with nothing":    {[]operation{told(a, conflict)}, nil, 1},
		"conflict with the same":   {[]operation{told(a, created), told(a, conflict)}, []content{a}, 1},
		"an answer that is no one": {[]operation{told(a, refused)}, nil, 1},
	} {
		there := map[int64][]content{}
		if test.there != nil {
			there[1] = test.there
		}
		if faults := check(test.history, there); len(faults) != test.want {
			t.Errorf("%s: got %v, want %d faults", name, faults, test.want)
		}
	}
}
