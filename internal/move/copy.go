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

// span is a range of ids, both ends included, and all the plants that the old
// store had in it when it was read.
type span struct {
	from, to int64
	rows     []store.Row
}

// copy brings the whole range of ids into the new store, and counts both stores.
// One goroutine reads ahead.
func (m *mover) copy(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	spans, failed := make(chan span, 1), make(chan error, 1)
	go func() { // ends with the plants, or when ctx does; this function waits for it
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
		for range spans { // wait for its end
		}
	}()
	defer cancel()
	for s := range spans {
		if err := m.settle(ctx, s); err != nil {
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

// spans reads the old store in spans that follow each other, and that end with
// the highest id.
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

// settle makes the new store have in a span what the old one has, reads it back,
// and counts it in both.
func (m *mover) settle(ctx context.Context, s span) error {
	var there []store.Row
	var err error
	if !m.empty {
		if there, err = m.readTo(ctx, s); err != nil {
			return err
		}
	}
	missing, err := m.missing(s.rows, there)
	if err != nil {
		return err
	}
	if len(missing) > 0 || m.empty {
		if err := m.insert(ctx, missing); err != nil {
			return err
		}
		if there, err = m.readTo(ctx, s); err != nil {
			return err
		}
		if err := m.same(s.rows, there); err != nil {
			return err
		}
	}
	m.from.add(s.rows)
	m.to.add(there)
	return nil
}

// readTo returns what the new store has in a span, but not many more plants than
// the old one has there.
func (m *mover) readTo(ctx context.Context, s span) (there []store.Row, err error) {
	for from := s.from; len(there) <= len(s.rows); {
		rows, err := m.To.Plants(ctx, from, s.to, len(s.rows)+1)
		if err != nil {
			return nil, err
		}
		there = append(there, rows...)
		if len(rows) == 0 || rows[len(rows)-1].ID == s.to {
			break
		}
		from = rows[len(rows)-1].ID + 1
	}
	return there, nil
}

// copyCaptured goes after plants that were created since the old store is followed: at
// most one chunk. It returns how many there were.
func (m *mover) copyCaptured(ctx context.Context) (int, error) {
	ids, err := m.From.Captured(ctx, m.chunk)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	slices.Sort(ids)
	limit := capturedPlants / 10
	for left := ids; len(left) > 0; {
		part := left[:min(limit, len(left))]
		left = left[len(part):]
		rows, err := m.From.PlantsByID(ctx, part)
		if err != nil {
			return 0, err
		}
		if len(rows) < len(part) {
			return 0, fmt.Errorf("%s has lost plants while it was moved: %d of %d that were created are not there", m.FromName, len(part)-len(rows), len(part))
		}
		if err := m.settleNew(ctx, part, rows); err != nil {
			return 0, err
		}
		limit = limitAfter(rows, capturedPlants)
	}
	return len(ids), nil
}

// limitAfter returns how many plants to read at a time, given those that were
// read last: so many that their texts take about store.PlantsBytes, and at most
// the most.
func limitAfter(rows []store.Row, most int) int {
	bytes := 0
	for i := range rows {
		bytes += rows[i].Bytes()
	}
	return max(1, min(most, store.PlantsBytes*len(rows)/max(1, bytes)))
}

// settleNew is settle for plants with certain ids. Those that the new store has
// were counted with their span.
func (m *mover) settleNew(ctx context.Context, ids []int64, rows []store.Row) error {
	there, err := m.To.PlantsByID(ctx, ids)
	if err != nil {
		return err
	}
	missing, err := m.missing(rows, there)
	if err != nil || len(missing) == 0 {
		return err
	}
	newIDs := make([]int64, len(missing))
	for i := range missing {
		newIDs[i] = missing[i].ID
	}
	if err := m.insert(ctx, missing); err != nil {
		return err
	}
	if there, err = m.To.PlantsByID(ctx, newIDs); err != nil {
		return err
	}
	if err := m.same(missing, there); err != nil {
		return err
	}
	m.result.Captured += int64(len(missing))
	m.from.add(missing)
	m.to.add(there)
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

// missing returns the plants of the old store that the new one has not. The
// error is about a plant that the new one has, and the old one has not like that.
// Both are by ascending id.
func (m *mover) missing(rows, there []store.Row) (missing []store.Row, err error) {
	for i := range rows {
		switch {
		case len(there) > 0 && there[0].ID < rows[i].ID:
			return nil, m.foreign(there[0])
		case len(there) == 0 || there[0].ID > rows[i].ID:
			missing = append(missing, rows[i])
		case !equal(&rows[i], &there[0]):
			return nil, m.foreign(there[0])
		default:
			there = there[1:]
		}
	}
	if len(there) > 0 {
		return nil, m.foreign(there[0])
	}
	return missing, nil
}

func (m *mover) foreign(r store.Row) error {
	return fmt.Errorf("%w: %s has a plant %d that %s has not, or not like that; move into an empty store", ErrDifferent, m.ToName, r.ID, m.FromName)
}

// same compares what was read back with what was stored.
func (m *mover) same(rows, there []store.Row) error {
	missing, err := m.missing(rows, there)
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("%s has not kept plant %d, and %d more that it took", m.ToName, missing[0].ID, len(missing)-1)
	}
	return err
}

func equal(a, b *store.Row) bool {
	return a.NewPlant == b.NewPlant && a.CreatedBy == b.CreatedBy && a.CreatedAt.UnixMicro() == b.CreatedAt.UnixMicro()
}
