package trace_test

import (
	"strings"
	"testing"

	"plantstore/internal/trace"
)

// environ returns the variables in a list of names and values.
func environ(list ...string) map[string]string {
	variables := map[string]string{}
	for i := 0; i < len(list); i += 2 {
		variables[list[i]] = list[i+1]
	}
	return variables
}

// TestOff lists environments in which tracing is off.
func TestOff(t *testing.T) {
	t.Parallel()
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for _, variables := range []map[string]string{
		nil,
		environ(endpoint, ""),
		environ("OTEL_TRACES_SAMPLER", "always_on", "OTEL_SERVICE_NAME", "x"),
		environ(endpoint, "http://localhost", "OTEL_SDK_DISABLED", "TRUE"),
		environ(endpoint, "http://localhost", "OTEL_TRACES_EXPORTER", "none"),
		environ("OTEL_TRACES_EXPORTER", "otlp", "OTEL_SDK_DISABLED", "true"),
	} {
		if c, err := trace.FromEnvironment(variables, "1.0.0"); c != nil || err != nil {
			t.Errorf("%v: got %v, %v, want nothing", variables, c, err)
		}
	}
}

// TestEnvironment compares endpoints and samplers with the variables that they come from.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	const endpoint, sampler = "http://localhost:4318/v1/traces", "ParentBased{root:AlwaysOnSampler,"
	for name, row := range map[string]struct {
		in                map[string]string
		endpoint, sampler string
	}{
		"the exporter alone": {environ("OTEL_TRACES_EXPORTER", "OTLP"), endpoint, sampler},
		"a general endpoint with a path": {
			environ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://otel.example/x/"), "https://otel.example/x/v1/traces", sampler,
		},
		"an endpoint for traces takes precedence": {
			environ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://b:1"),
			"http://b:1/", sampler,
		},
		"sampler": {
			environ("OTEL_TRACES_EXPORTER", "otlp", "OTEL_TRACES_SAMPLER", "TraceIdRatio", "OTEL_TRACES_SAMPLER_ARG", "0.25"),
			endpoint, "TraceIDRatioBased{0.25}",
		},
		"headers": {
			environ("OTEL_TRACES_EXPORTER", "otlp", "OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20a%2Cb, x-tenant=é=1,"),
			endpoint, sampler,
		},
	} {
		c, err := trace.FromEnvironment(row.in, "1.0.0")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := c.Endpoint.String(); got != row.endpoint || !strings.HasPrefix(c.Sampler.Description(), row.sampler) {
			t.Errorf("%s: got %s with %s", name, got, c.Sampler.Description())
		}
	}
}

// TestInvalidEnvironment lists values that are refused. No message has the value of a variable that may have a secret.
func TestInvalidEnvironment(t *testing.T) {
	t.Parallel()
	const canary = "canary4711"
	for _, row := range []struct {
		name, value, want string
		secret            bool
	}{
		{"OTEL_SDK_DISABLED", "1", `OTEL_SDK_DISABLED must be true or false; got "1"`, false},
		{"OTEL_TRACES_EXPORTER", "zipkin", `OTEL_TRACES_EXPORTER must be otlp or none; got "zipkin"`, false},
		{"OTEL_TRACES_EXPORTER", "otlp,console", `OTEL_TRACES_EXPORTER must be otlp or none; got "otlp,console"`, false},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318/" + canary, "OTEL_EXPORTER_OTLP_ENDPOINT must be an http", true},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://%zz" + canary, "OTEL_EXPORTER_OTLP_ENDPOINT must be an http", true},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://a:" + canary + "@b", "must have no user, no query", true},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://a/?key=" + canary, "must have no user, no query", true},
		{"OTEL_EXPORTER_OTLP_HEADERS", canary, "OTEL_EXPORTER_OTLP_HEADERS: item 1 is not a header", true},
		{"OTEL_EXPORTER_OTLP_HEADERS", "a=b,c d=" + canary, "OTEL_EXPORTER_OTLP_HEADERS: item 2 is not a header", true},
		{"OTEL_EXPORTER_OTLP_HEADERS", "a=%0d%0ax:" + canary, "OTEL_EXPORTER_OTLP_HEADERS: item 1 is not a header", true},
		{"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a=%zz" + canary, "OTEL_EXPORTER_OTLP_TRACES_HEADERS: item 1 is not", true},
		{"OTEL_EXPORTER_OTLP_CERTIFICATE", "/does/not/exist", "OTEL_EXPORTER_OTLP_CERTIFICATE: open /does/not/exist", false},
		{"OTEL_EXPORTER_OTLP_CERTIFICATE", "config_test.go", "config_test.go has no certificate in PEM", false},
		{"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "a.pem", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_", false},
		{"OTEL_BSP_MAX_QUEUE_SIZE", "-1", `OTEL_BSP_MAX_QUEUE_SIZE must be a number from 1 to 1048576; got "-1"`, false},
		{"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1000000000", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE must be a number from 1", false},
		{"OTEL_BSP_SCHEDULE_DELAY", "0", "OTEL_BSP_SCHEDULE_DELAY must be a number from 1 to 60000", false},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", `OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf`, false},
		{"OTEL_TRACES_SAMPLER", "jaeger_remote", `OTEL_TRACES_SAMPLER must be always_on, always_off`, false},
		{"OTEL_TRACES_SAMPLER_ARG", "NaN", `OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1; got "NaN"`, false},
		{"OTEL_TRACES_SAMPLER_ARG", "2", `OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1; got "2"`, false},
	} {
		variables := environ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://a", "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a=b")
		variables[row.name] = row.value
		_, err := trace.FromEnvironment(variables, "1.0.0")
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s=%s: got the error %v, want %q", row.name, row.value, err, row.want)
		} else if row.secret && strings.Contains(err.Error(), canary) {
			t.Errorf("%s=%s: the error has the value: %v", row.name, row.value, err)
		}
	}
}
