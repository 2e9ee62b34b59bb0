package importer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/text/unicode/norm"

	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// foresee returns the outcomes that Insert would return for a batch of a dry run, whose ids ascend. Rows with the same
// id may be in several batches.
func (r *run) foresee(batch []store.Create) ([]store.Outcome, error) {
	outcomes := make([]store.Outcome, len(batch))
	ids := make([]int64, len(batch))
	for i := range batch {
		ids[i] = batch[i].Plant.ID
	}
	err := r.eachStored(ids, func(stored store.Row) {
		i, _ := slices.BinarySearch(ids, stored.ID)
		for ; i < len(batch) && ids[i] == stored.ID; i++ {
			conflict := plant.Differences(batch[i].Plant.Plant, stored.Plant)
			outcomes[i] = store.Outcome{Replayed: conflict == nil, Conflict: conflict}
		}
	})
	for i := range batch {
		switch p := batch[i].Plant; {
		case !outcomes[i].Created():
		case r.before == nil || r.before.ID != p.ID:
			r.before = &p
		case r.before.Plant == p.Plant:
			outcomes[i].Replayed = true
		default:
			outcomes[i].Conflict = differences("an earlier row", p.Plant, r.before.Plant)
		}
	}
	return outcomes, err
}

// showStored adds the stored content to the reasons of conflicts.
func (r *run) showStored(rejects []Reject) {
	conflicts := map[int64][]*Reject{}
	var ids []int64
	for i := range rejects {
		if reject := &rejects[i]; reject.Conflict {
			conflicts[reject.Plant.ID] = append(conflicts[reject.Plant.ID], reject)
			ids = append(ids, reject.Plant.ID)
		}
	}
	slices.Sort(ids)
	_ = r.eachStored(ids, func(stored store.Row) { // after an error, the reasons are as they were
		for _, reject := range conflicts[stored.ID] {
			reject.Reason = conflictReason(stored.ID, differences("the store", reject.Plant.Plant, stored.Plant))
		}
	})
}

func conflictReason(id int64, conflict error) error { return fmt.Errorf("id %d: %w", id, conflict) }

// eachStored calls visit for the stored plants with these ids, which ascend. It has a few of them in memory.
func (r *run) eachStored(ids []int64, visit func(store.Row)) error {
	ids = slices.Compact(slices.Clone(ids))
	for len(ids) > 0 {
		rows, err := r.Stored(ids, store.PlantsBytes)
		if err != nil {
			return err
		}
		size := 0
		for _, row := range rows {
			size += row.Bytes()
			visit(row)
		}
		if size <= store.PlantsBytes {
			return nil
		}
		last, _ := slices.BinarySearch(ids, rows[len(rows)-1].ID)
		ids = ids[last+1:]
	}
	return nil
}

// differences returns what a row and another plant of the same id have differently.
func differences(where string, row, other plant.Plant) error {
	var all []string
	if row.Name != other.Name {
		theirs, ours := shown(other.Name, row.Name)
		all = append(all, fmt.Sprintf("%s has the name %s, this row %s", where, theirs, ours))
	}
	if row.Tag != other.Tag {
		theirs, hasTheirs := other.Tag.Get()
		ours, hasOurs := row.Tag.Get()
		theirs, ours = shown(theirs, ours)
		if !hasTheirs {
			theirs = "none"
		}
		if !hasOurs {
			ours = "none"
		}
		all = append(all, fmt.Sprintf("%s has the tag %s, this row %s", where, theirs, ours))
	}
	return fmt.Errorf("%s", strings.Join(all, "; "))
}

// shown returns two different texts in quotes, so that a person sees the difference. The start that they share is cut
// if it is long. Texts with the same canonical form (Unicode Standard Annex #15) have escapes, because they look alike.
func shown(a, b string) (string, string) {
	const shared, bytesMax = 20, 80
	start := 0
	for start < min(len(a), len(b)) && a[start] == b[start] {
		start++
	}
	quote := strconv.Quote
	if norm.NFC.String(strings.TrimSpace(a)) == norm.NFC.String(strings.TrimSpace(b)) {
		quote = strconv.QuoteToASCII
	}
	cut := func(text string) string {
		before, after := "", ""
		if start > bytesMax/2 {
			text, before = text[start-shared:], "…"
		}
		if len(text) > bytesMax {
			text, after = text[:bytesMax], "…"
		}
		return before + quote(strings.ToValidUTF8(text, "")) + after
	}
	return cut(a), cut(b)
}
