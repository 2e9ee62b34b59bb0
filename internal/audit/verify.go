package audit

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"
)

// FaultKind is a kind of fault that Verify detects. Compare with errors.Is.
type FaultKind string

// Error implements error.
func (k FaultKind) Error() string { return string(k) }

// The kinds of faults.
const (
	ErrChanged   FaultKind = "changed"   // an entry, or the stored end of the chain, was changed
	ErrMissing   FaultKind = "missing"   // an entry was removed, and not by pruning
	ErrReordered FaultKind = "reordered" // an entry is at the place of another one
	ErrAdded     FaultKind = "added"     // an entry was added before the first or after the last entry of the chain
)

// Fault is the first fault of a log, in the form of the admin API and of audit verify --json.
type Fault struct {
	Sequence int64     `json:"sequence"`      // first entry with a fault
	Time     time.Time `json:"time,omitzero"` // that entry's; the previous one's if it is missing; zero if unknown
	Kind     FaultKind `json:"kind"`
	Reason   string    `json:"reason"` // for a person
}

func newFault(sequence int64, at time.Time, kind FaultKind, format string, args ...any) *Fault {
	return &Fault{sequence, at, kind, fmt.Sprintf(format, args...)}
}

// Error describes the fault.
func (f *Fault) Error() string {
	at := ""
	if !f.Time.IsZero() {
		at = " (" + f.Time.Format(TimeFormat) + ")"
		if f.Kind == ErrMissing {
			at = " (after " + f.Time.Format(TimeFormat) + ")"
		}
	}
	return fmt.Sprintf("entry %d%s is %s: %s", f.Sequence, at, f.Kind, f.Reason)
}

// Unwrap returns the kind of the fault.
func (f *Fault) Unwrap() error { return f.Kind }

// Verify checks that the rows are a complete chain between the ends. The rows are all rows of a log, by ascending
// sequence number. The error is a *Fault, or comes from the rows.
func Verify(ends Ends, rows iter.Seq2[Row, error]) error {
	last, lastAt := ends.Anchor, time.Time{}
	pruned := ends.Anchor == Link{} // or a row says that the entries up to the anchor were pruned
	for row, err := range rows {
		if err != nil {
			return err
		}
		switch next := last.Sequence + 1; {
		case row.Sequence < next:
			return newFault(row.Sequence, time.Time{}, ErrAdded, "entries up to %d were pruned", last.Sequence)
		case next > ends.Head.Sequence:
			return newFault(row.Sequence, time.Time{}, ErrAdded, "the newest entry is %d", ends.Head.Sequence)
		case row.Sequence > next:
			return newFault(next, lastAt, ErrMissing, "the next entry is %d", row.Sequence)
		}
		e, fault := row.check(last)
		if fault != nil {
			return fault
		}
		last, lastAt = row.Link(), e.Time
		pruned = pruned || e.prunes(ends.Anchor)
	}
	switch {
	case last == ends.Head && pruned:
		return nil
	case last == ends.Head: // an engine prunes and appends the entry in one transaction
		return newFault(ends.Anchor.Sequence, time.Time{}, ErrMissing,
			"no entry says that the entries up to %d were pruned", ends.Anchor.Sequence)
	case last.Sequence < ends.Head.Sequence:
		return newFault(last.Sequence+1, lastAt, ErrMissing, "the newest entry must be %d", ends.Head.Sequence)
	}
	return newFault(last.Sequence, lastAt, ErrChanged, "its hash differs from the head %s", ends.Head)
}

// PrunedTo returns the details of a Prune event that name the newest pruned entry.
func PrunedTo(to Link) []Detail {
	return []Detail{{"to_hash", to.Hash.String()}, {"to_sequence", strconv.FormatInt(to.Sequence, 10)}}
}

// prunes reports whether the entry says that the entries up to another one were pruned.
func (e Entry) prunes(to Link) bool {
	return e.Action == Prune && !slices.ContainsFunc(PrunedTo(to), func(d Detail) bool {
		return !slices.Contains(e.Details, d)
	})
}

// Follows returns nil if the row is undamaged and comes next after an entry, otherwise a *Fault.
func (r Row) Follows(last Link) error {
	if r.Sequence != last.Sequence+1 {
		return newFault(last.Sequence+1, time.Time{}, ErrMissing, "the next entry is %d", r.Sequence)
	}
	if _, fault := r.check(last); fault != nil {
		return fault
	}
	return nil
}

// check decodes a row and compares its hashes.
func (r Row) check(last Link) (Entry, *Fault) {
	e, err := r.Entry()
	kind, reason := ErrChanged, ""
	switch {
	case errors.Is(err, errMoved):
		kind, reason = ErrReordered, err.Error()
	case err != nil:
		reason = err.Error()
	case r.Hash != r.sum():
		reason = "its hash is not the hash of its content"
	case r.Previous != last.Hash:
		reason = fmt.Sprintf("its previous hash is not the hash of entry %d; one of the two was changed", last.Sequence)
	default:
		return e, nil
	}
	return e, &Fault{r.Sequence, e.Time, kind, reason}
}

// pageRows is the number of rows that Rows reads at a time.
const pageRows = 100

// Rows returns the rows after a sequence number, in pages. read returns at most limit rows with greater sequence
// numbers than after, in ascending order.
func Rows(after int64, read func(after int64, limit int) ([]Row, error)) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for {
			rows, err := read(after, pageRows)
			if err != nil {
				yield(Row{}, err)
				return
			}
			for _, row := range rows {
				if !yield(row, nil) {
					return
				}
				after = row.Sequence
			}
			if len(rows) < pageRows {
				return
			}
		}
	}
}
