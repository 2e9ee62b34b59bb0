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

// stored is what an export has, by id; more than one content is one too many.
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

// reads are the reads of an export, one for each id that was sent, so that the
// model must explain them too.
func (s stored) reads(history []operation, at time.Duration) []operation {
	ids := map[int64]bool{}
	for _, o := range history {
		ids[o.id] = true
	}
	reads := make([]operation, 0, len(ids))
	for id := range ids {
		o := operation{client: -1, id: id, call: at, end: at, outcome: read}
		if there := s[id]; len(there) > 0 {
			o.present, o.content = true, there[0]
		}
		reads = append(reads, o)
	}
	return reads
}

// silent counts the plants that are there though nobody was told that they were
// created: the server died in between.
func (s stored) silent(history []operation) int {
	told := map[int64]bool{}
	for _, o := range history {
		if o.outcome == created {
			told[o.id] = true
		}
	}
	count := 0
	for id := range s {
		if !told[id] {
			count++
		}
	}
	return count
}

// setFaults is how a store differs from what clients know of it.
type setFaults struct {
	lost      []error // acknowledged, and not there
	changed   []error // there with other content than was acknowledged
	stray     []error // there, and never sent
	refused   []error // there, though every request for it was refused
	doubled   []error // there more than once
	unfounded []error // refused as a conflict, and nothing is there
}

func (f setFaults) all() []error {
	return slices.Concat(f.lost, f.changed, f.stray, f.refused, f.doubled, f.unfounded)
}

func (f setFaults) String() string {
	return fmt.Sprintf("acknowledged but absent %d, changed %d, never sent %d, refused but present %d, doubled %d, conflict with nothing %d",
		len(f.lost), len(f.changed), len(f.stray), len(f.refused), len(f.doubled), len(f.unfounded))
}

// knowledge is what clients know of one id.
type knowledge struct {
	acknowledged []content        // different ones
	possible     map[content]bool // every content that was sent: was it not refused each time?
	conflicts    bool
}

func learn(history []operation) map[int64]*knowledge {
	known := map[int64]*knowledge{}
	for _, o := range history {
		k := known[o.id]
		if k == nil {
			k = &knowledge{possible: map[content]bool{}}
			known[o.id] = k
		}
		switch o.outcome {
		case created, replayed:
			k.possible[o.content] = true
			if !slices.Contains(k.acknowledged, o.content) {
				k.acknowledged = append(k.acknowledged, o.content)
			}
		case unknown:
			k.possible[o.content] = true
		default:
			k.conflicts = k.conflicts || o.outcome == conflict
			if !k.possible[o.content] {
				k.possible[o.content] = false // it was sent
			}
		}
	}
	return known
}

// compare finds every difference between a store and a history.
func compare(there stored, history []operation) setFaults {
	var f setFaults
	known := learn(history)
	for _, id := range slices.Sorted(maps.Keys(there)) {
		for _, c := range there[id] {
			k := known[id]
			if k == nil {
				f.stray = append(f.stray, fmt.Errorf("plant %d %s was never sent", id, c))
				continue
			}
			switch possible, sent := k.possible[c]; {
			case !sent:
				f.stray = append(f.stray, fmt.Errorf("plant %d was never sent with %s", id, c))
			case !possible:
				f.refused = append(f.refused, fmt.Errorf("plant %d %s was refused each time and is there", id, c))
			}
		}
		if len(there[id]) > 1 {
			f.doubled = append(f.doubled, fmt.Errorf("plant %d is there %d times", id, len(there[id])))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(known)) {
		k := known[id]
		for _, c := range k.acknowledged {
			switch {
			case len(there[id]) == 0:
				f.lost = append(f.lost, fmt.Errorf("plant %d %s was acknowledged and is not there", id, c))
			case !slices.Contains(there[id], c):
				f.changed = append(f.changed, fmt.Errorf("plant %d %s was acknowledged; there is %s", id, c, there[id][0]))
			}
		}
		if k.conflicts && len(there[id]) == 0 {
			f.unfounded = append(f.unfounded, fmt.Errorf("plant %d was refused for another, and none is there", id))
		}
	}
	return f
}
