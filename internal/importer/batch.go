package importer

import (
	"fmt"
	"time"

	"plantstore/internal/store"
)

// storeBatch stores a batch and reports the rows that are not stored, in their order. It finishes a batch after an
// interruption, so that the counts are correct.
func (r *run) storeBatch(b batch) error {
	var outcomes []store.Outcome
	if len(b.creates) > 0 {
		now := time.Now()
		for i := range b.creates {
			b.creates[i].At = now
		}
		var err error
		if outcomes, err = r.Insert(b.creates); err != nil {
			return &StoreError{b.rows[0].Line, b.rows[len(b.rows)-1].Line, err}
		}
	}
	var stop error
	for _, row := range b.rows {
		if err := r.count(row, outcomes); stop == nil {
			stop = err
		}
	}
	if stop != nil {
		stop = fmt.Errorf("%w; the import stopped after line %d", stop, b.rows[len(b.rows)-1].Line)
	}
	if stop == nil && b.err != nil {
		stop = fmt.Errorf("could not read the rest of the input: %w", b.err)
	}
	r.Stored(r.counts)
	return stop
}

// count counts a row by its outcome and reports it if it is not stored. An error ends the import after this batch.
func (r *run) count(row row, outcomes []store.Outcome) error {
	if row.index < 0 {
		r.counts.Invalid++
		return r.Rejected(Reject{Row: row.Row, Reason: row.Err})
	}
	switch o := outcomes[row.index]; {
	case o.Created():
		r.counts.Created++
		return nil
	case o.Replayed:
		r.counts.Existing++
		return nil
	default:
		r.counts.Conflicting++
		reason := fmt.Errorf("id %d: %w", row.Plant.ID, o.Conflict)
		if err := r.Rejected(Reject{Row: row.Row, Reason: reason, Conflict: true}); err != nil || r.OnConflict != Fail {
			return err
		}
		return fmt.Errorf("line %d %w", row.Line, ErrConflict)
	}
}
