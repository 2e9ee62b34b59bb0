package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/attribute"

	"plantstore/internal/trace"
)

// tracer adds spans to the span in the context of a statement: one for the statement, and one for the wait for a
// connection. The driver calls its methods. A span names the keyword of the statement, and neither its parameters nor
// the database's error.
type tracer struct{}

// statementKey is the key of the span of a statement in its context.
type statementKey struct{}

func startStatement(ctx context.Context, name string) context.Context {
	span := trace.ClientChild(ctx, name)
	if span == nil {
		return ctx
	}
	span.Set(attribute.String("db.system.name", "postgresql"))
	return context.WithValue(ctx, statementKey{}, span)
}

func endStatement(ctx context.Context, err error) {
	span, _ := ctx.Value(statementKey{}).(*trace.Span)
	if err != nil {
		span.Fail()
	}
	span.End()
}

// keyword returns the first word of a statement of this package.
func keyword(sql string) string {
	word, _, _ := strings.Cut(strings.TrimSpace(sql), " ")
	return strings.ToUpper(word)
}

// TraceQueryStart implements pgx.QueryTracer.
func (tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	return startStatement(ctx, keyword(d.SQL))
}

// TraceQueryEnd implements pgx.QueryTracer.
func (tracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryEndData) {
	endStatement(ctx, d.Err)
}

// TraceBatchStart implements pgx.BatchTracer.
func (tracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceBatchStartData) context.Context {
	queries := d.Batch.QueuedQueries // the last one is what the batch is for
	return startStatement(ctx, keyword(queries[len(queries)-1].SQL))
}

// TraceBatchQuery implements pgx.BatchTracer.
func (tracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements pgx.BatchTracer.
func (tracer) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, d pgx.TraceBatchEndData) {
	endStatement(ctx, d.Err)
}

// TraceCopyFromStart implements pgx.CopyFromTracer.
func (tracer) TraceCopyFromStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceCopyFromStartData) context.Context {
	return startStatement(ctx, "COPY")
}

// TraceCopyFromEnd implements pgx.CopyFromTracer.
func (tracer) TraceCopyFromEnd(ctx context.Context, _ *pgx.Conn, d pgx.TraceCopyFromEndData) {
	endStatement(ctx, d.Err)
}

// TraceAcquireStart implements pgxpool.AcquireTracer.
func (tracer) TraceAcquireStart(
	ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireStartData,
) context.Context {
	return startStatement(ctx, "connection wait")
}

// TraceAcquireEnd implements pgxpool.AcquireTracer.
func (tracer) TraceAcquireEnd(ctx context.Context, _ *pgxpool.Pool, d pgxpool.TraceAcquireEndData) {
	endStatement(ctx, d.Err)
}
