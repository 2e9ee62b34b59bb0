package history

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"time"
)

// stored are the plants of an export by id; each id must have one content.
type stored map[int64][]content

// export reads all plants of a store.
func export(ctx context.Context, program, db string) (stored, error) {
	var faults bytes.Buffer
	command := exec.CommandContext(ctx, program, "export", "--db", db, "--format", "jsonl")
	command.Stderr = &faults
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("export: %w\n%s", err, &faults)
	}
	plants := stored{}
	lines := json.NewDecoder(bytes.NewReader(out))
	for lines.More() {
		var b body
		if err := lines.Decode(&b); err != nil {
			return nil, fmt.Errorf("export: %w", err)
		}
		plants[b.ID] = append(plants[b.ID], b.content())
	}
	return plants, nil
}

// reads returns an export as read operations, one for each sent id, for the model.
func (s stored) reads(history []operation, at time.Duration) []operation {
	ids := map[int64]bool{}
	for _, o := range history {
		ids[o.id] = true
	}
	reads := make([]operation, 0, len(ids))
	for id := range ids {
		o := operation{client: -1, id: id, call: at, end: at, outcome: read}
		if contents := s[id]; len(contents) > 0 {
			o.present, o.content = true, contents[0]
		}
		reads = append(reads, o)
	}
	return reads
}

// silent counts the stored plants without the response created: a kill came between the commit and the response.
func (s stored) silent(history []operation) int {
	acknowledged := map[int64]bool{}
	for _, o := range history {
		if o.outcome == created || o.outcome == corrected {
			acknowledged[o.id] = true
		}
	}
	count := 0
	for id := range s {
		if !acknowledged[id] {
			count++
		}
	}
	return count
}

// setFaults are the differences between a store and a history.
type setFaults struct {
	lost       []error // acknowledged and missing
	changed    []error // stored with another content than acknowledged
	stray      []error // stored and never sent
	refused    []error // stored although every request was refused
	duplicated []error // stored more than once
	noConflict []error // refused as a conflict with no plant
}

func (f setFaults) all() []error {
	return slices.Concat(f.lost, f.changed, f.stray, f.refused, f.duplicated, f.noConflict)
}

func (f setFaults) String() string {
	return fmt.Sprintf("acknowledged but missing %d, changed %d, never sent %d, refused but stored %d, duplicated %d, "+
		"conflict without a plant %d",
		len(f.lost), len(f.changed), len(f.stray), len(f.refused), len(f.duplicated), len(f.noConflict))
}

// knowledge is the summary of the responses for one id.
type knowledge struct {
	acknowledged []content        // without duplicates
	possible     map[content]bool // for each sent content: whether a request may have stored it
	conflicts    bool
	changed      bool // an operator may have changed the plant: only the model knows what is stored
}

func learn(history []operation) map[int64]*knowledge {
	known := map[int64]*knowledge{}
	for _, o := range history {
		k := known[o.id]
		if k == nil {
			k = &knowledge{possible: map[content]bool{}}
			known[o.id] = k
		}
		k.changed = k.changed || o.kind != create
		switch o.outcome {
		case erased, missing:
		case created, replayed:
			k.possible[o.content] = true
			if !slices.Contains(k.acknowledged, o.content) {
				k.acknowledged = append(k.acknowledged, o.content)
			}
		case unknown, corrected:
			k.possible[o.content] = true
		default:
			k.conflicts = k.conflicts || o.outcome == conflict
			if !k.possible[o.content] {
				k.possible[o.content] = false // sent
			}
		}
	}
	return known
}

// compare returns all differences between a store and a history.
func compare(plants stored, history []operation) setFaults {
	var f setFaults
	known := learn(history)
	for _, id := range slices.Sorted(maps.Keys(plants)) {
		for _, c := range plants[id] {
			k := known[id]
			if k == nil {
				f.stray = append(f.stray, fmt.Errorf("plant %d %s was never sent", id, c))
				continue
			}
			switch possible, sent := k.possible[c]; {
			case !sent:
				f.stray = append(f.stray, fmt.Errorf("plant %d was never sent with %s", id, c))
			case !possible:
				f.refused = append(f.refused, fmt.Errorf("plant %d %s was always refused and is stored", id, c))
			}
		}
		if len(plants[id]) > 1 {
			f.duplicated = append(f.duplicated, fmt.Errorf("plant %d is stored %d times", id, len(plants[id])))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(known)) {
		k := known[id]
		if k.changed {
			continue
		}
		for _, c := range k.acknowledged {
			switch {
			case len(plants[id]) == 0:
				f.lost = append(f.lost, fmt.Errorf("plant %d %s was acknowledged and is missing", id, c))
			case !slices.Contains(plants[id], c):
				f.changed = append(f.changed, fmt.Errorf("plant %d %s was acknowledged; stored is %s", id, c, plants[id][0]))
			}
		}
		if k.conflicts && len(plants[id]) == 0 {
			f.noConflict = append(f.noConflict, fmt.Errorf("plant %d was refused as a conflict, and no plant has the id", id))
		}
	}
	return f
}
