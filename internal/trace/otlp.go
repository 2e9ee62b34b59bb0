package trace

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// encode returns the ExportTraceServiceRequest of a batch, whose spans share a resource and a scope. TracesData has the
// same fields, and its package does not link gRPC.
func encode(batch []sdk.ReadOnlySpan) ([]byte, error) {
	spans := make([]*tracepb.Span, len(batch))
	for i, s := range batch {
		spans[i] = encodeSpan(s)
	}
	scope := batch[0].InstrumentationScope()
	return proto.Marshal(&tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource: &resourcepb.Resource{Attributes: encodeAttributes(batch[0].Resource().Attributes())},
		ScopeSpans: []*tracepb.ScopeSpans{{
			Scope: &commonpb.InstrumentationScope{Name: scope.Name},
			Spans: spans,
		}},
	}}})
}

func encodeSpan(s sdk.ReadOnlySpan) *tracepb.Span {
	id := s.SpanContext()
	p := &tracepb.Span{
		TraceId: idBytes(id.TraceID()), SpanId: spanIDBytes(id.SpanID()), TraceState: id.TraceState().String(),
		Flags: encodeFlags(id.TraceFlags(), s.Parent().IsRemote()),
		Name:  s.Name(), Kind: tracepb.Span_SpanKind(s.SpanKind()), // the numbers are the same
		StartTimeUnixNano: unixNano(s.StartTime()), EndTimeUnixNano: unixNano(s.EndTime()),
		Attributes:             encodeAttributes(s.Attributes()),
		DroppedAttributesCount: uint32(s.DroppedAttributes()),
		DroppedLinksCount:      uint32(s.DroppedLinks()),
	}
	if parent := s.Parent(); parent.SpanID().IsValid() {
		p.ParentSpanId = spanIDBytes(parent.SpanID())
	}
	if s.Status().Code == codes.Error {
		p.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: s.Status().Description}
	}
	for _, l := range s.Links() {
		to := l.SpanContext
		p.Links = append(p.Links, &tracepb.Span_Link{
			TraceId: idBytes(to.TraceID()), SpanId: spanIDBytes(to.SpanID()),
			Flags: encodeFlags(to.TraceFlags(), to.IsRemote()),
		})
	}
	return p
}

func idBytes(id trace.TraceID) []byte    { return id[:] }
func spanIDBytes(id trace.SpanID) []byte { return id[:] }

// encodeFlags returns the flags of W3C Trace Context, with the bits that tell whether a span is in another process.
func encodeFlags(flags trace.TraceFlags, remote bool) uint32 {
	all := uint32(flags) | uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK)
	if remote {
		all |= uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
	}
	return all
}

// unixNano returns a time in Unix nanoseconds, 0 for times before 1970.
func unixNano(t time.Time) uint64 {
	return uint64(max(t.UnixNano(), 0))
}

// encodeAttributes returns attributes of the types that this program uses.
func encodeAttributes(list []attribute.KeyValue) []*commonpb.KeyValue {
	encoded := make([]*commonpb.KeyValue, len(list))
	for i, a := range list {
		v := &commonpb.AnyValue{}
		switch a.Value.Type() {
		case attribute.INT64:
			v.Value = &commonpb.AnyValue_IntValue{IntValue: a.Value.AsInt64()}
		case attribute.BOOL:
			v.Value = &commonpb.AnyValue_BoolValue{BoolValue: a.Value.AsBool()}
		default:
			v.Value = &commonpb.AnyValue_StringValue{StringValue: a.Value.AsString()}
		}
		encoded[i] = &commonpb.KeyValue{Key: string(a.Key), Value: v}
	}
	return encoded
}
