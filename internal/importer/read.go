package importer

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"

	"plantstore/internal/dump"
	"plantstore/internal/extsort"
	"plantstore/internal/store"
)

// reader reads the input of an import and sends it in batches.
type reader struct {
	*run

	ctx  context.Context //nolint:containedctx // the import's
	to   chan<- batch
	used <-chan batch // whose memory the reader reuses

	batch   batch
	size    int   // bytes of the rows of the batch
	last    int64 // id of the last row that was not sorted
	waiting int64 // rows in the sorter
	all     bool  // the whole input has been read
	ignored int   // columns and members of the file, as in the last batch.found

	sorter  *extsort.Sorter // sorts the valid rows; nil: off
	encoded []byte          // memory of a record
	sorted  dump.Row        // the last row that was added to the sorter
}

func (r *run) newReader(ctx context.Context, to chan<- batch, used <-chan batch) *reader {
	in := &reader{run: r, ctx: ctx, to: to, used: used, last: math.MinInt64, ignored: -1}
	if r.Sort != nil {
		in.sorter = extsort.New(r.Sort.Dir, r.Sort.Memory)
	}
	return in
}

// read sends the batches of the input until the input or the context ends.
func (r *reader) read() {
	if r.sorter != nil {
		defer r.sorter.Close() // the import does not depend on it
	}
	err := r.readRows()
	r.all = true
	if r.waiting > 0 {
		err = cmp.Or(r.sendSorted(), err)
	}
	if r.ctx.Err() != nil {
		return
	}
	r.batch.err, r.batch.last = err, true
	r.send()
}

// firstMax is the largest number of plants in Result.First.
const firstMax = 5

// readRows sends or sorts the rows of the input until the input or the context ends.
func (r *reader) readRows() error {
	source := r.Source(r.ctx)
	defer source.Close()
	file, err := dump.Open(r.ctx, source, r.Options)
	if err != nil {
		return err
	}
	defer file.Close()
	r.found(file)
	defer r.found(file)
	for row, err := range file.Rows() {
		switch {
		case r.ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("could not read the rest of the input: %w", err)
		case row.Err != nil || r.inOrder(row.Plant.ID):
			r.add(row)
			continue
		}
		if r.DryRun && len(r.first) < firstMax {
			r.first = append(r.first, row.Plant)
		}
		if err := r.sort(row); err != nil {
			return r.cannotSort(err)
		}
		if r.waiting++; r.waiting%int64(r.BatchRows) == 0 {
			r.send() // the rows that are not sorted, and the progress
		}
	}
	return nil
}

// inOrder reports whether a valid row is stored without sorting.
func (r *reader) inOrder(id int64) bool {
	if r.sorter == nil {
		return true
	}
	if r.DryRun || r.waiting > 0 || id < r.last {
		return false
	}
	r.last = id
	return true
}

// sort adds a valid row to the sorter.
func (r *reader) sort(row dump.Row) error {
	r.sorted = row
	if !r.KeepRaw {
		row.Raw = nil
	}
	r.encoded = appendRow(r.encoded[:0], row)
	return r.sorter.Add(extsort.Record{Key: row.Plant.ID, Data: r.encoded})
}

// sendSorted sends the sorted rows until the context ends.
func (r *reader) sendSorted() error {
	for record, err := range r.sorter.Sorted() {
		if r.ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return r.cannotSort(err)
		}
		r.waiting--
		r.add(rowOf(record, r.sorted))
	}
	return nil
}

// cannotSort returns the error that rows are not sorted. They are not stored.
func (r *reader) cannotSort(err error) error {
	n := r.waiting
	r.waiting = 0
	return fmt.Errorf("could not sort the rows by id, and %d rows were not stored: %w", n, err)
}

// add adds a row to the batch, and sends the batch if it is full.
func (r *reader) add(row dump.Row) {
	r.size += max(len(row.Raw), row.Plant.Bytes())
	if row.Err == nil {
		r.batch.creates = append(r.batch.creates, store.Create{Plant: row.Plant, By: r.By})
	}
	if r.KeepRaw {
		row.Raw = bytes.Clone(row.Raw)
	} else {
		row.Raw = nil
	}
	r.batch.rows = append(r.batch.rows, row)
	if len(r.batch.rows) >= r.BatchRows || r.size >= r.BatchBytes {
		r.send()
	}
}

// send sends the batch and begins an empty one, unless the context ends.
func (r *reader) send() {
	r.batch.waiting, r.batch.all = r.waiting, r.all
	select {
	case r.to <- r.batch:
	case <-r.ctx.Done():
		return
	}
	r.size = 0
	select {
	case b := <-r.used:
		r.batch = batch{rows: b.rows[:0], creates: b.creates[:0]}
	default:
		r.batch = batch{}
	}
}

// found adds what has been found to the batch, if it has changed.
func (r *reader) found(f *dump.File) {
	if found := f.Found(); len(found.Ignored)+len(found.Members) != r.ignored {
		r.batch.found, r.ignored = &found, len(found.Ignored)+len(found.Members)
	}
}
