package move

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"

	"plantstore/internal/store"
)

const (
	idMin, idMax = math.MinInt64, math.MaxInt64

	chunkPlants    = 10_000 // plants that a move copies at a time
	capturedPlants = 1_000  // captured plants that a move copies at a time
)

// span is a range of ids, both ends included, and all plants of the source in it at
// the time of the read.
type span struct {
	from, to int64
	rows     []store.Row
}

// copy copies the plants of all spans. A goroutine reads one span ahead.
func (m *mover) copy(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	spans, failed := make(chan span, 1), make(chan error, 1)
	go func() { // ends after the last span or with ctx; copy waits for it
		defer close(spans)
		for s, err := range m.spans(ctx) {
			if err != nil {
				failed <- err
				return
			}
			select {
			case spans <- s:
			case <-ctx.Done():
				return
			}
		}
	}()
	defer func() {
		for range spans { // until the goroutine has ended
		}
	}()
	defer cancel()
	for s := range spans {
		if err := m.copySpan(ctx, s); err != nil {
			return err
		}
		m.Progress(m.from.Plants, m.all)
	}
	select {
	case err := <-failed:
		return err
	default:
		return ctx.Err()
	}
}

// spans returns the spans of the source in ascending order. Together they contain
// every id.
func (m *mover) spans(ctx context.Context) iter.Seq2[span, error] {
	return func(yield func(span, error) bool) {
		limit := m.chunk
		for from := int64(idMin); ; {
			rows, err := m.From.Plants(ctx, from, idMax, limit)
			limit = limitAfter(rows, m.chunk)
			if err != nil {
				yield(span{}, err)
				return
			}
			s := span{from: from, to: idMax, rows: rows}
			if len(rows) > 0 {
				s.to = rows[len(rows)-1].ID
			}
			if !yield(s, nil) || s.to == idMax {
				return
			}
			from = s.to + 1
		}
	}
}

// copySpan copies the plants of a span that the destination does not have, reads
// them back, and adds the span to the tallies of both stores.
func (m *mover) copySpan(ctx context.Context, s span) error {
	var existing []store.Row
	var err error
	if !m.empty {
		if existing, err = m.readTo(ctx, s); err != nil {
			return err
		}
	}
	missing, err := m.missing(s.rows, existing)
	if err != nil {
		return err
	}
	if len(missing) > 0 || m.empty {
		if err := m.insert(ctx, missing); err != nil {
			return err
		}
		if existing, err = m.readTo(ctx, s); err != nil {
			return err
		}
		if err := m.verify(s.rows, existing); err != nil {
			return err
		}
	}
	m.from.add(s.rows)
	m.to.add(existing)
	return nil
}

// readTo returns the plants of the destination in a span. If it has more of them
// than the source, readTo may return only a part.
func (m *mover) readTo(ctx context.Context, s span) (existing []store.Row, err error) {
	for from := s.from; len(existing) <= len(s.rows); {
		rows, err := m.To.Plants(ctx, from, s.to, len(s.rows)+1)
		if err != nil {
			return nil, err
		}
		existing = append(existing, rows...)
		if len(rows) == 0 || rows[len(rows)-1].ID == s.to {
			break
		}
		from = rows[len(rows)-1].ID + 1
	}
	return existing, nil
}

// copyCaptured copies at most one chunk of the captured plants, and returns their
// number.
func (m *mover) copyCaptured(ctx context.Context) (int, error) {
	ids, err := m.From.Captured(ctx, m.chunk)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	slices.Sort(ids)
	limit := capturedPlants / 10
	for remaining := ids; len(remaining) > 0; {
		part := remaining[:min(limit, len(remaining))]
		remaining = remaining[len(part):]
		rows, err := m.From.PlantsByID(ctx, part)
		if err != nil {
			return 0, err
		}
		if len(rows) < len(part) {
			return 0, fmt.Errorf("%s lost plants during the move: %d of %d captured plants are missing",
				m.FromName, len(part)-len(rows), len(part))
		}
		if err := m.copyByID(ctx, part, rows); err != nil {
			return 0, err
		}
		limit = limitAfter(rows, capturedPlants)
	}
	return len(ids), nil
}

// limitAfter returns the number of plants for the next read: as many as need about
// store.PlantsBytes, if they are as large as the rows of the last read, and at most
// most.
func limitAfter(rows []store.Row, most int) int {
	bytes := 0
	for i := range rows {
		bytes += rows[i].Bytes()
	}
	return max(1, min(most, store.PlantsBytes*len(rows)/max(1, bytes)))
}

// copyByID is copySpan for single plants. The tallies already contain the plants
// that the destination has: they were copied with their span.
func (m *mover) copyByID(ctx context.Context, ids []int64, rows []store.Row) error {
	existing, err := m.To.PlantsByID(ctx, ids)
	if err != nil {
		return err
	}
	missing, err := m.missing(rows, existing)
	if err != nil || len(missing) == 0 {
		return err
	}
	missingIDs := make([]int64, len(missing))
	for i := range missing {
		missingIDs[i] = missing[i].ID
	}
	if err := m.insert(ctx, missing); err != nil {
		return err
	}
	stored, err := m.To.PlantsByID(ctx, missingIDs)
	if err != nil {
		return err
	}
	if err := m.verify(missing, stored); err != nil {
		return err
	}
	m.result.Captured += int64(len(missing))
	m.from.add(missing)
	m.to.add(stored)
	return nil
}

func (m *mover) insert(ctx context.Context, rows []store.Row) error {
	batch := make([]store.Create, len(rows))
	for i := range rows {
		batch[i] = rows[i].Create()
	}
	if _, err := m.To.Insert(ctx, batch); err != nil {
		return fmt.Errorf("%s: %w", m.ToName, err)
	}
	m.result.Copied += int64(len(rows))
	return nil
}

// missing returns the rows of the source that the destination does not have. The
// error names a plant of the destination that is not a plant of the source. Both
// slices are by ascending id.
func (m *mover) missing(rows, existing []store.Row) (missing []store.Row, err error) {
	for i := range rows {
		switch {
		case len(existing) > 0 && existing[0].ID < rows[i].ID:
			return nil, m.different(existing[0])
		case len(existing) == 0 || existing[0].ID > rows[i].ID:
			missing = append(missing, rows[i])
		case !equal(&rows[i], &existing[0]):
			return nil, m.different(existing[0])
		default:
			existing = existing[1:]
		}
	}
	if len(existing) > 0 {
		return nil, m.different(existing[0])
	}
	return missing, nil
}

func (m *mover) different(r store.Row) error {
	return fmt.Errorf("%w: plant %d of %s is not in %s, or not with the same content; move into an empty store",
		errDifferent, r.ID, m.ToName, m.FromName)
}

// verify compares the rows that were read back with the rows of the source.
func (m *mover) verify(rows, stored []store.Row) error {
	missing, err := m.missing(rows, stored)
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("%s lost plant %d and %d more that were just stored", m.ToName, missing[0].ID, len(missing)-1)
	}
	return err
}

func equal(a, b *store.Row) bool {
	return a.NewPlant == b.NewPlant && a.CreatedBy == b.CreatedBy && a.CreatedAt.UnixMicro() == b.CreatedAt.UnixMicro()
}
