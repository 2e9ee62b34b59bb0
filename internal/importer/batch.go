package importer

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"plantstore/internal/dump"
	"plantstore/internal/store"
)

// storeBatch stores a batch and reports the rows that are not stored, in their order. It finishes a batch after an
// interruption, so that the counts are correct.
func (r *run) storeBatch(b batch) error {
	now := time.Now()
	var outcomes []store.Outcome
	if len(b.creates) > 0 {
		for i := range b.creates {
			b.creates[i].At = now
		}
		var err error
		insert := r.Insert
		if r.DryRun {
			insert = r.foresee
		}
		if outcomes, err = insert(b.creates); err != nil {
			return newStoreError(b.rows, err)
		}
	}
	var rejects []Reject
	for _, row := range b.rows {
		if row.Err != nil {
			r.counts.Invalid++
			rejects = append(rejects, Reject{Row: row, Reason: row.Err})
			continue
		}
		switch o := outcomes[0]; {
		case o.Created():
			r.counts.Created++
		case o.Replayed:
			r.counts.Existing++
		default:
			r.counts.Conflicting++
			rejects = append(rejects, Reject{Row: row, Reason: conflictReason(row.Plant.ID, o.Conflict), Conflict: true})
		}
		outcomes = outcomes[1:]
	}
	if r.ShowStored && r.OnConflict != Skip {
		r.showStored(rejects)
	}
	err := r.report(rejects)
	if err == nil {
		err = b.err
	}
	r.Progress(Progress{Counts: r.counts, Waiting: b.waiting, All: b.all, Took: time.Since(now)})
	return err
}

// report reports the rejects of a batch in the order of the file. The error ends the import.
func (r *run) report(rejects []Reject) error {
	slices.SortFunc(rejects, func(a, b Reject) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Element, b.Element))
	})
	var stop error
	for _, reject := range rejects {
		err := r.Rejected(reject)
		if err == nil && reject.Conflict && r.OnConflict == Fail && !r.DryRun {
			err = fmt.Errorf("%s %w", reject.Place, ErrConflict)
		}
		stop = cmp.Or(stop, err)
	}
	if stop == nil {
		return nil
	}
	return fmt.Errorf("%w; the import stopped after the batch of this row", stop)
}

// newStoreError returns the error of Config.Insert for rows that may be in any order.
func newStoreError(rows []dump.Row, err error) error {
	e := &StoreError{Rows: len(rows), First: rows[0].Line, Last: rows[0].Line, Err: err}
	for _, row := range rows {
		e.First, e.Last = min(e.First, row.Line), max(e.Last, row.Line)
	}
	return e
}
