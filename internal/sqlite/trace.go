package sqlite

import (
	"context"

	"go.opentelemetry.io/otel/attribute"

	"plantstore/internal/trace"
)

// traced runs a step of a call, in a span if the context has one.
func traced(ctx context.Context, name string, step func() error) error {
	span := trace.Child(ctx, name)
	if span == nil {
		return step()
	}
	defer span.End()
	span.Set(attribute.String("db.system.name", "sqlite"))
	err := step()
	if err != nil {
		span.Fail()
	}
	return err
}
