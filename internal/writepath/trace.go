package writepath

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"plantstore/internal/trace"
)

// Names of the spans in the trace of a request.
const (
	queueSpan  = "queue wait"  // from the arrival of the plant to the start of the commit
	commitSpan = "commit wait" // until the end of the commit; links to the commit's span
)

// traced is the part of a pending batch whose requests have sampled spans.
type traced struct {
	requests []*trace.Span // spans of the first creates, at most trace.LinksMax
	commit   *trace.Span   // nil: the store failed before; set before pendingBatch.done is closed
	started  time.Time     // when the commit started
}

// trace adds the span of a request. The caller has locked writer.mu.
func (b *pendingBatch) trace(span *trace.Span) {
	if b.traced == nil {
		b.traced = &traced{}
	}
	if len(b.traced.requests) < trace.LinksMax {
		b.traced.requests = append(b.traced.requests, span)
	}
}

// span returns the span of the commit; nil if it has none.
func (b *pendingBatch) span() *trace.Span {
	if b.traced == nil {
		return nil
	}
	return b.traced.commit
}

// startSpan starts the span of a commit with links to its requests. The context carries the span, so the engine can add
// children.
func (w *writer) startSpan(ctx context.Context, b *pendingBatch, started time.Time) context.Context {
	b.traced.started, b.traced.commit = started, w.tracer.Commit(started, b.traced.requests)
	b.traced.commit.Set(attribute.Int("plantstore.commit.plants", len(b.creates)))
	return b.traced.commit.Context(ctx)
}

func (b *pendingBatch) endSpan(err error) {
	if err != nil {
		b.traced.commit.Fail()
	}
	b.traced.commit.End()
}

// recordWait records the wait of a request for its batch, which is done.
func (b *pendingBatch) recordWait(span *trace.Span, since time.Time) {
	if b.traced.commit == nil {
		span.Record(queueSpan, since, time.Now(), nil, true)
		return
	}
	span.Record(queueSpan, since, b.traced.started, nil, false)
	span.Record(commitSpan, b.traced.started, time.Now(), b.traced.commit, b.err != nil)
}
