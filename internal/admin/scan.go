package admin

import (
	"context"
	"iter"
	"time"

	"plantstore/internal/plant"
	"plantstore/internal/store"
)

const (
	// scanRows is the number of plants that one read returns in less than a millisecond, because a checkpoint of SQLite
	// and the poll of the tokens wait for it.
	scanRows = 2048
	// pauseFactor is the length of the pause after a read, as a multiple of the read, while clients create plants. A scan
	// then uses a tenth of a processor.
	pauseFactor = 9
	pauseMax    = 100 * time.Millisecond
)

// chunk is a part of the table that a scan has read.
type chunk struct {
	rows int
	next int64 // id at which the scan continues
	more bool  // plants may follow
}

// scan reads the plants from an id on in chunks, and calls visit for each plant. No read of the engine is open between
// two chunks. An error ends the sequence.
func (s *Service) scan(ctx context.Context, from int64, visit func(*store.Scanned)) iter.Seq2[chunk, error] {
	return func(yield func(chunk, error) bool) {
		c, rowsMax, bytes := chunk{next: from, more: true}, scanRows, 0
		count := func(p *store.Scanned) {
			c.rows++
			bytes += len(p.Name) + len(p.Tag)
			visit(p)
		}
		for c.more {
			start := time.Now()
			c.rows, bytes = 0, 0
			var err error
			c.next, c.more, err = s.engine.Scan(ctx, c.next, rowsMax, count)
			if !yield(c, err) || err != nil {
				return
			}
			// PostgreSQL sends every plant up to the limit, and Scan discards those beyond store.PlantsBytes.
			rowsMax = max(1, min(scanRows, store.PlantsBytes*c.rows/max(1, bytes)))
			if c.more && s.clientsWrite() {
				pause(ctx, min(pauseMax, pauseFactor*time.Since(start)))
			}
		}
	}
}

// clientsWrite reports whether clients create plants, which go first.
func (s *Service) clientsWrite() bool {
	return s.config.WritePath != nil && s.config.WritePath.Writing()
}

// pause waits for a time, or until the context ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

const (
	scansMax = 4           // searches, and pages of a name or a tag, at the same time
	turnMax  = time.Second // wait for one of them to end
)

// beginScan is begin for an operation that scans the table. At most scansMax of them run. Another one waits for
// turnMax, because a client that searches with each keystroke sends the next search when it ends the last one.
func (s *Service) beginScan(ctx context.Context) (_ context.Context, end func(), err error) {
	ctx, endOperation, err := s.begin(ctx)
	if err != nil {
		return nil, nil, err
	}
	select {
	case s.scans <- struct{}{}:
		return ctx, func() {
			<-s.scans
			endOperation()
		}, nil
	case <-time.After(turnMax):
	case <-ctx.Done():
	}
	endOperation()
	return nil, nil, plant.Errorf(plant.CodeSearchesRunning,
		"too many searches run at the same time; send the request again")
}
