package history

import (
	"testing"
	"time"
)

// at returns an operation on plant 1.
func at(call, end time.Duration, name string, o outcome) operation {
	op := operation{id: 1, content: content{name: name}, call: call, end: end, outcome: o, present: true}
	if o == conflict {
		op.code = differentName
	}
	return op
}

// absent returns the read of an export without plant 1.
func absent(when time.Duration) operation {
	return operation{id: 1, call: when, end: when, outcome: read}
}

func erasure(call, end time.Duration, o outcome) operation {
	return operation{kind: erase, id: 1, call: call, end: end, outcome: o}
}

func correction(call, end time.Duration, name string, o outcome) operation {
	op := at(call, end, name, o)
	op.kind = correct
	return op
}

// TestModel checks that the model accepts the legal histories of a table and rejects the others.
func TestModel(t *testing.T) {
	one, tag := at(1, 2, "a", created), at(3, 4, "a", conflict)
	tag.content.tagged = true
	taggedRight := tag
	taggedRight.code = differentTag
	for name, c := range map[string]struct {
		history []operation
		legal   bool
	}{
		"nothing":                          {nil, true},
		"created and read":                 {[]operation{at(1, 2, "a", created), at(9, 9, "a", read)}, true},
		"created and lost":                 {[]operation{at(1, 2, "a", created), absent(9)}, false},
		"created and changed":              {[]operation{at(1, 2, "a", created), at(9, 9, "b", read)}, false},
		"created twice":                    {[]operation{at(1, 2, "a", created), at(3, 4, "a", created)}, false},
		"created, replayed":                {[]operation{at(1, 2, "a", created), at(3, 4, "a", replayed)}, true},
		"replayed first, apart":            {[]operation{at(1, 2, "a", replayed), at(3, 4, "a", created)}, false},
		"replayed first, at the same time": {[]operation{at(1, 4, "a", replayed), at(3, 4, "a", created)}, true},
		"replayed as another":              {[]operation{at(1, 2, "a", created), at(3, 4, "b", replayed)}, false},
		"conflict":                         {[]operation{at(1, 2, "a", created), at(3, 4, "b", conflict)}, true},
		"conflict with the same":           {[]operation{at(1, 2, "a", created), at(3, 4, "a", conflict)}, false},
		"conflict with nothing":            {[]operation{at(1, 2, "a", conflict)}, false},
		"conflict of a tag, wrong number":  {[]operation{at(1, 2, "a", created), tag}, false},
		"conflict of a tag":                {[]operation{at(1, 2, "a", created), taggedRight}, true},
		"unknown and stored":               {[]operation{at(1, 2, "a", unknown), at(3, 4, "a", replayed)}, true},
		"unknown and not stored":           {[]operation{at(1, 2, "a", unknown), at(3, 4, "a", created)}, true},
		"unknown, stored late":             {[]operation{at(1, 2, "a", unknown), absent(3), at(9, 9, "a", read)}, true},
		"unknown and never stored":         {[]operation{at(1, 2, "a", unknown), absent(9)}, true},
		"unknown, then another": {
			[]operation{at(1, 2, "a", unknown), at(3, 4, "b", created), at(5, 6, "a", replayed)},
			false,
		},
		"conflict with an unknown":     {[]operation{at(1, 2, "a", unknown), at(3, 4, "b", conflict)}, true},
		"unknown too late to conflict": {[]operation{at(1, 2, "b", conflict), at(3, 4, "a", unknown)}, false},
		"two unknown, the second is stored": {
			[]operation{at(1, 2, "a", unknown), at(1, 2, "b", unknown), at(3, 4, "b", replayed), at(5, 6, "a", conflict)},
			true,
		},
		"erased, created again":         {[]operation{one, erasure(3, 4, erased), at(5, 6, "b", created)}, true},
		"erased and back":               {[]operation{one, erasure(3, 4, erased), at(9, 9, "a", read)}, false},
		"erased, then a replay":         {[]operation{one, erasure(3, 4, erased), at(5, 6, "a", replayed)}, false},
		"erased twice":                  {[]operation{one, erasure(3, 4, erased), erasure(5, 6, erased)}, false},
		"not erased":                    {[]operation{one, erasure(3, 4, missing)}, false},
		"nothing to erase":              {[]operation{erasure(1, 2, missing), at(3, 4, "a", created)}, true},
		"unknown erasure":               {[]operation{one, erasure(3, 4, unknown), absent(9)}, true},
		"unknown erasure, no loss":      {[]operation{one, erasure(3, 4, unknown), at(9, 9, "a", read)}, true},
		"corrected":                     {[]operation{one, correction(3, 4, "b", corrected), at(9, 9, "b", read)}, true},
		"correction lost":               {[]operation{one, correction(3, 4, "b", corrected), at(9, 9, "a", read)}, false},
		"corrected, not created":        {[]operation{correction(1, 2, "b", corrected)}, false},
		"unknown correction":            {[]operation{one, correction(3, 4, "b", unknown), at(5, 6, "b", replayed)}, true},
		"unknown correction of nothing": {[]operation{correction(1, 2, "b", unknown), at(9, 9, "b", read)}, false},
		"corrected during an erasure": {
			[]operation{one, erasure(3, 6, missing), correction(4, 5, "b", corrected)},
			true,
		},
		"corrected before an erasure": {
			[]operation{one, correction(3, 4, "b", corrected), erasure(5, 6, missing)},
			false,
		},
		"busy and stored":       {[]operation{at(1, 2, "a", busy), at(3, 4, "a", replayed)}, false},
		"busy and created then": {[]operation{at(1, 2, "a", busy), at(3, 4, "a", created)}, true},
	} {
		_, faults := linearizable(c.history)
		if legal := len(faults) == 0; legal != c.legal {
			t.Errorf("%s: legal is %t, want %t", name, legal, c.legal)
		}
	}
}

// TestCompare compares stores that differ from a history in one way each.
func TestCompare(t *testing.T) {
	a, b := content{name: "a"}, content{name: "b"}
	one := make([]error, 1)
	acknowledged := []operation{at(1, 2, "a", created), at(3, 4, "b", conflict)}
	for name, c := range map[string]struct {
		store   stored
		history []operation
		want    setFaults // only the numbers count
	}{
		"no difference":       {stored{1: {a}}, acknowledged, setFaults{}},
		"unknown, stored":     {stored{1: {a}}, []operation{at(1, 2, "a", unknown)}, setFaults{}},
		"unknown, not stored": {stored{}, []operation{at(1, 2, "a", unknown)}, setFaults{}},
		"busy, then unknown": {
			stored{1: {a}},
			[]operation{at(1, 2, "a", unknown), at(1, 2, "a", busy)},
			setFaults{},
		},
		"lost": {stored{}, acknowledged[:1], setFaults{lost: one}},
		"changed": {
			stored{1: {b}},
			[]operation{at(1, 2, "a", created), at(1, 2, "b", unknown)},
			setFaults{changed: one},
		},
		"erased": {stored{}, []operation{at(1, 2, "a", created), erasure(3, 4, erased)}, setFaults{}},
		"corrected": {
			stored{1: {b}},
			[]operation{at(1, 2, "a", created), correction(3, 4, "b", corrected)},
			setFaults{},
		},
		"another id":    {stored{1: {a}, 2: {a}}, acknowledged, setFaults{stray: one}},
		"other content": {stored{1: {b}}, []operation{at(1, 2, "a", unknown)}, setFaults{stray: one}},
		"refused, stored": {
			stored{1: {b}},
			[]operation{at(1, 2, "a", unknown), at(3, 4, "b", conflict)},
			setFaults{refused: one},
		},
		"busy, stored": {stored{1: {a}}, []operation{at(1, 2, "a", busy)}, setFaults{refused: one}},
		"duplicate":    {stored{1: {a, a}}, acknowledged, setFaults{duplicated: one}},
		"conflict with nothing": {
			stored{},
			[]operation{at(1, 2, "a", unknown), at(3, 4, "b", conflict)},
			setFaults{noConflict: one},
		},
	} {
		if got := compare(c.store, c.history); got.String() != c.want.String() {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// TestPlan shows that a seed determines the operations, and that a third of them share their ids.
func TestPlan(t *testing.T) {
	ids := map[uint64]map[int64]int{}
	for _, s := range []uint64{1, 2} {
		ids[s] = map[int64]int{}
		for n := range 10_000 {
			o := plan{s}.operation(n)
			if again := (plan{s}).operation(n); o != again {
				t.Fatalf("seed %d, operation %d: first %+v, then %+v", s, n, o, again)
			}
			ids[s][o.id]++
		}
		hot := 0
		for _, count := range ids[s] {
			if count > 1 {
				hot += count
			}
		}
		if hot < 2500 || hot > 4000 {
			t.Errorf("seed %d: %d of 10000 operations share their id, want about a third", s, hot)
		}
	}
}
