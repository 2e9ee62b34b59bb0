package move

import (
	"context"
	"fmt"
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
	err      error // of the read; there is no span after it
}

// copy copies the plants of all spans. A goroutine reads one span ahead.
func (m *mover) copy(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	spans := make(chan span, 1)
	go m.readSpans(ctx, spans) // ends after the last span or with ctx; copy waits for it
	defer func() {
		cancel()
		for range spans { // until the goroutine has ended
		}
	}()
	for s := range spans {
		if s.err != nil {
			return s.err
		}
		if err := m.copySpan(ctx, s); err != nil {
			return err
		}
		m.Progress(m.result.Plants, m.all)
	}
	return ctx.Err()
}

// readSpans sends the spans of the source in ascending order, and closes the channel. Together the spans contain every
// id.
func (m *mover) readSpans(ctx context.Context, to chan<- span) {
	defer close(to)
	limit := m.chunk
	for s := (span{from: idMin}); ; s.from = s.to + 1 {
		if s.rows, s.err = m.From.Plants(ctx, s.from, idMax, limit); s.err != nil {
			s.err = fmt.Errorf("%s: %w", m.FromName, s.err)
		}
		s.to = idMax
		if len(s.rows) > 0 {
			s.to = s.rows[len(s.rows)-1].ID
		}
		select {
		case to <- s:
		case <-ctx.Done():
			return
		}
		if s.err != nil || s.to == idMax {
			return
		}
		limit = limitAfter(s.rows, m.chunk)
	}
}

// copySpan copies a span. The read of the source ended after store.PlantsBytes of texts at the latest, so one read of
// the destination has the whole span too, or has a plant that the source does not have.
func (m *mover) copySpan(ctx context.Context, s span) error {
	_, err := m.copyRows(ctx, s.rows, func() ([]store.Row, error) {
		return m.To.Plants(ctx, s.from, s.to, len(s.rows)+1)
	})
	if err == nil {
		m.count(s.rows)
	}
	return err
}

// copyRows copies the plants that the destination does not have, reads them back, and returns them. read returns the
// plants of the destination for the ids of all rows.
func (m *mover) copyRows(
	ctx context.Context, rows []store.Row, read func() ([]store.Row, error),
) (missing []store.Row, err error) {
	existing, err := read()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.ToName, err)
	}
	missing, err = m.missing(rows, existing)
	if err != nil || len(missing) == 0 {
		return nil, err
	}
	if err := m.insert(ctx, missing); err != nil {
		return nil, err
	}
	stored, err := read()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.ToName, err)
	}
	lost, err := m.missing(rows, stored)
	if err == nil && len(lost) > 0 {
		err = fmt.Errorf("%s lost plant %d and %d more that were just stored", m.ToName, lost[0].ID, len(lost)-1)
	}
	return missing, err
}

// count adds plants that both stores have to the totals.
func (m *mover) count(rows []store.Row) {
	for i := range rows {
		r := &rows[i]
		m.result.Plants++
		m.result.Digests += m.digester.Plant(&r.NewPlant, r.CreatedAt, r.CreatedBy)
	}
}

// copyCaptured copies the captured plants in rounds, until a round has fewer than a number of them.
func (m *mover) copyCaptured(ctx context.Context, fewer int) error {
	for {
		ids, err := m.From.Captured(ctx, m.chunk)
		if err != nil {
			return err
		}
		slices.Sort(ids)
		if err := m.copyByID(ctx, ids); err != nil {
			return err
		}
		m.Progress(m.result.Plants, m.all)
		if len(ids) < fewer {
			return nil
		}
	}
}

// copyByID copies captured plants, given their ids in ascending order.
func (m *mover) copyByID(ctx context.Context, ids []int64) error {
	for limit := capturedPlants / 10; len(ids) > 0; {
		part := ids[:min(limit, len(ids))]
		ids = ids[len(part):]
		rows, err := m.From.PlantsByID(ctx, part)
		if err != nil {
			return err
		}
		if len(rows) < len(part) {
			return fmt.Errorf("%s lost plants during the move: %d of %d captured plants are missing or damaged",
				m.FromName, len(part)-len(rows), len(part))
		}
		copied, err := m.copyRows(ctx, rows, func() ([]store.Row, error) { return m.To.PlantsByID(ctx, part) })
		if err != nil {
			return err
		}
		m.result.Captured += int64(len(copied))
		m.count(copied) // the others were counted with their span
		limit = limitAfter(rows, capturedPlants)
	}
	return nil
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

func equal(a, b *store.Row) bool {
	return a.NewPlant == b.NewPlant && a.CreatedBy == b.CreatedBy && a.CreatedAt.UnixMicro() == b.CreatedAt.UnixMicro()
}
