package trace_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/trace"
	"plantstore/internal/trace/tracetest"
)

// environ returns the variables in a list of names and values.
func environ(list ...string) map[string]string {
	variables := map[string]string{}
	for i := 0; i < len(list); i += 2 {
		variables[list[i]] = list[i+1]
	}
	return variables
}

// TestEnabled lists environments that turn tracing on or off.
func TestEnabled(t *testing.T) {
	t.Parallel()
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for _, row := range []struct {
		variables map[string]string
		want      bool
	}{
		{nil, false},
		{environ(endpoint, ""), false},
		{environ("OTEL_TRACES_SAMPLER", "always_on", "OTEL_SERVICE_NAME", "x"), false},
		{environ(endpoint, "http://localhost", "OTEL_SDK_DISABLED", "TRUE"), false},
		{environ(endpoint, "http://localhost", "OTEL_TRACES_EXPORTER", "none"), false},
		{environ(endpoint, "http://localhost", "OTEL_TRACES_EXPORTER", "zipkin"), false},
		{environ("OTEL_TRACES_EXPORTER", "otlp", "OTEL_SDK_DISABLED", "true"), false},
		{environ("OTEL_TRACES_EXPORTER", "OTLP", "OTEL_SDK_DISABLED", "false"), true},
		{environ(endpoint, "http://localhost"), true},
		{environ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://localhost"), true},
	} {
		if got := trace.Enabled(row.variables); got != row.want {
			t.Errorf("%v: got %t, want %t", row.variables, got, row.want)
		}
	}
}

// TestInvalidVariables starts with values that the library does not accept. The export goes on without them, and the
// log has a line about each, without the value of one that may be a secret.
func TestInvalidVariables(t *testing.T) {
	const canary = "canary4711"
	for _, row := range []struct{ name, value, want string }{
		{"OTEL_EXPORTER_OTLP_HEADERS", canary, "OpenTelemetry: parse headers"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "a=b,c d=" + canary, "OpenTelemetry: parse headers"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "a=%zz" + canary, "OpenTelemetry: escape header value"},
		{"OTEL_EXPORTER_OTLP_CERTIFICATE", "/does/not/exist", "OpenTelemetry: read tls ca cert file"},
		{"OTEL_EXPORTER_OTLP_TIMEOUT", "soon", "OpenTelemetry: parse duration"},
		{"OTEL_TRACES_SAMPLER", "jaeger_remote", "unsupported sampler: jaeger_remote"},
		{"OTEL_TRACES_SAMPLER_ARG", "2", ""}, // for another sampler
	} {
		c := tracetest.Start(t)
		tr := start(t, c.URL, row.name, row.value)
		tr.Request(nil, time.Now()).End()
		c.Wait(t, func(s []tracetest.Span) bool { return len(s) == 1 })
		if log := tr.log.String(); !strings.Contains(log, row.want) || strings.Contains(log, canary) {
			t.Errorf("%s=%s: got the log\n%s", row.name, row.value, log)
		}
	}
}

// TestRefusedVariable shows that a number at which the library panics is an error for the operator.
func TestRefusedVariable(t *testing.T) {
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "-1")
	_, err := trace.New(nil, "1.2.3", slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err == nil || !strings.Contains(err.Error(), "does not accept one of its variables, OTEL_") {
		t.Errorf("got %v", err)
	}
}
