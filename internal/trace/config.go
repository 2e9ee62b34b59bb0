package trace

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/url"
	"strings"
)

// Enabled reports whether the variables of OpenTelemetry turn the export of traces on. The SDK and the exporter read
// the other variables from the environment of the process.
func Enabled(vars map[string]string) bool {
	on := endpoint(vars) != ""
	if exporter := vars["OTEL_TRACES_EXPORTER"]; exporter != "" {
		on = strings.EqualFold(exporter, "otlp")
	}
	return on && !strings.EqualFold(vars["OTEL_SDK_DISABLED"], "true")
}

func endpoint(vars map[string]string) string {
	return cmp.Or(vars["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"], vars["OTEL_EXPORTER_OTLP_ENDPOINT"])
}

// exposed reports whether headers, which have secrets, cross a network in clear text.
func exposed(vars map[string]string) bool {
	u, err := url.Parse(endpoint(vars))
	headers := cmp.Or(vars["OTEL_EXPORTER_OTLP_TRACES_HEADERS"], vars["OTEL_EXPORTER_OTLP_HEADERS"])
	return err == nil && u.Scheme == "http" && headers != "" &&
		!strings.EqualFold(u.Hostname(), "localhost") && !net.ParseIP(u.Hostname()).IsLoopback()
}

// valueless passes on the messages of the library without their values: one about a malformed header has the header,
// which may be a secret.
type valueless struct{ slog.Handler }

// Handle implements slog.Handler.
func (h valueless) Handle(ctx context.Context, r slog.Record) error {
	return h.Handler.Handle(ctx, slog.NewRecord(r.Time, r.Level, "OpenTelemetry: "+r.Message, r.PC))
}
