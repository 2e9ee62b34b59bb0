package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/trace"
)

// Limits of the export of the last spans, within the 10 s that service managers allow for a stop.
const (
	traceFlushLeast = 300 * time.Millisecond // also after a drain that took drainTimeMax
	traceFlushMost  = 3 * time.Second
)

// readTracing reads the variables of OpenTelemetry. Its errors are usage errors.
func (p *program) readTracing() (err error) {
	if p.tracing, err = trace.FromEnvironment(p.environ, version); err != nil {
		return usagef("%w", err)
	}
	return nil
}

// startTracing starts a tracer; nil: tracing is off. stopTracing stops it.
func (p *program) startTracing(log *slog.Logger, metrics prometheus.Registerer) *trace.Tracer {
	if p.tracing == nil {
		return nil
	}
	return trace.New(p.tracing, log, metrics)
}

// stopTracing exports the last spans after a drain that began at that time.
func stopTracing(t *trace.Tracer, drain time.Time) {
	rest := time.Until(drain.Add(drainTimeMax))
	ctx, cancel := context.WithTimeout(context.Background(), min(max(rest, traceFlushLeast), traceFlushMost))
	defer cancel()
	t.Close(ctx)
}
