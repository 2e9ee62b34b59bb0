package writepath

import (
	"context"
	"time"

	"plantstore/internal/store"
)

// Import stores a batch as Engine.Insert does, beside the batches of Create. A large batch delays them, so the caller
// passes small ones, and pauses between them while Writing returns true. It returns the errors of Engine.Insert, and
// store.ErrClosed and that of Config.MayAccept.
func (s *Service) Import(ctx context.Context, batch []store.Create) ([]store.Outcome, error) {
	if err := s.mayAccept(); err != nil {
		return nil, err
	}
	return s.writer.insert(ctx, batch)
}

// insert stores a batch of an import. It counts the plants, and records a failure like a failed commit. It observes no
// histogram, because no request waits for the batch.
func (w *writer) insert(ctx context.Context, batch []store.Create) ([]store.Outcome, error) {
	w.mu.Lock()
	if w.broken || w.closed {
		w.mu.Unlock()
		return nil, store.ErrClosed
	}
	w.committers.Add(1) // close waits
	w.mu.Unlock()
	defer w.committers.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.ctx, cancel)()

	start := time.Now()
	outcomes, err := w.engine.Insert(ctx, batch)
	w.recordCommit(start, len(batch), err)
	if err != nil {
		w.metrics.failed.Add(1)
		return nil, err
	}
	w.metrics.count(outcomes)
	return outcomes, nil
}
