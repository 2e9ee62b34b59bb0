package serve

import (
	"context"
	"time"

	"plantstore/internal/trace"
)

// Limits of the export of the last spans, within the 10 s that service managers allow for a stop.
const (
	traceFlushLeast = 300 * time.Millisecond // even after a drain of drainTimeMax
	traceFlushMost  = 3 * time.Second
)

// stopTracing exports the last spans after a drain that began at that time.
func stopTracing(t *trace.Tracer, drain time.Time) {
	rest := time.Until(drain.Add(drainTimeMax))
	ctx, cancel := context.WithTimeout(context.Background(), min(max(rest, traceFlushLeast), traceFlushMost))
	defer cancel()
	t.Close(ctx)
}
