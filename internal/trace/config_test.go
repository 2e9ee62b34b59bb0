package trace_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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

// TestEnvironment compares configurations with the variables that they come from.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	type facts struct {
		Endpoint, Sampler   string
		Header              http.Header
		Gzip                bool
		Timeout, BatchWait  time.Duration
		QueueMax, BatchMax  int
		Resource            map[string]string
		Ignored             []string
		OwnRoots, ClientTLS bool
	}
	base := func(change func(*facts)) facts {
		f := facts{
			Endpoint: "http://localhost:4318/v1/traces", Sampler: "ParentBased{root:AlwaysOnSampler,", Header: http.Header{},
			Timeout: 10 * time.Second, BatchWait: 5 * time.Second, QueueMax: 2048, BatchMax: 512,
			Resource: map[string]string{
				"service.name": "plantstore", "service.version": "1.0.0",
				"telemetry.sdk.name": "opentelemetry", "telemetry.sdk.language": "go",
			},
		}
		change(&f)
		return f
	}
	for _, row := range []struct {
		name string
		in   map[string]string
		want facts
	}{
		{"the exporter alone", environ("OTEL_TRACES_EXPORTER", "otlp"), base(func(*facts) {})},
		{
			"a general endpoint with a path", environ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://otel.example/x/"),
			base(func(f *facts) { f.Endpoint = "https://otel.example/x/v1/traces" }),
		},
		{
			"an endpoint for traces takes precedence",
			environ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://b:1"),
			base(func(f *facts) { f.Endpoint = "http://b:1/" }),
		},
		{
			"headers", environ("OTEL_TRACES_EXPORTER", "otlp", "OTEL_EXPORTER_OTLP_HEADERS", "x=1",
				"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "Authorization=Bearer%20a%2Cb, x-tenant=é=1,"),
			base(func(f *facts) {
				f.Header = http.Header{"Authorization": {"Bearer a,b"}, "X-Tenant": {"é=1"}}
			}),
		},
		{
			"numbers", environ("OTEL_TRACES_EXPORTER", "OTLP", "OTEL_EXPORTER_OTLP_TIMEOUT", "1", "OTEL_BSP_SCHEDULE_DELAY",
				"20", "OTEL_BSP_MAX_QUEUE_SIZE", "30", "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "gzip"),
			base(func(f *facts) {
				f.Timeout, f.BatchWait, f.QueueMax, f.BatchMax = time.Millisecond, 20*time.Millisecond, 30, 30
				f.Gzip = true
			}),
		},
		{
			"sampler", environ("OTEL_TRACES_EXPORTER", "otlp", "OTEL_TRACES_SAMPLER", "TraceIdRatio",
				"OTEL_TRACES_SAMPLER_ARG", "0.25"),
			base(func(f *facts) { f.Sampler = "TraceIDRatioBased{0.25}" }),
		},
		{
			"resource", environ("OTEL_TRACES_EXPORTER", "otlp", "OTEL_SERVICE_NAME", "shop",
				"OTEL_RESOURCE_ATTRIBUTES", "service.name=other,deployment.environment.name=a%2Cb"),
			base(func(f *facts) {
				f.Resource["service.name"], f.Resource["deployment.environment.name"] = "shop", "a,b"
			}),
		},
		{
			"variables without an effect", environ("OTEL_TRACES_EXPORTER", "otlp", "OTEL_PROPAGATORS", "b3",
				"OTEL_EXPORTER_OTLP_TRACES_INSECURE", "true", "OTEL_METRICS_EXPORTER", "none", "OTEL_LOG_LEVEL", "debug",
				"OTEL_PYTHON_X", ""),
			base(func(f *facts) { f.Ignored = []string{"OTEL_EXPORTER_OTLP_TRACES_INSECURE", "OTEL_PROPAGATORS"} }),
		},
	} {
		c, err := trace.FromEnvironment(row.in, "1.0.0")
		if err != nil {
			t.Errorf("%s: %v", row.name, err)
			continue
		}
		got := facts{
			Endpoint: c.Endpoint.String(), Sampler: c.Sampler.Description(), Header: c.Header, Gzip: c.Gzip,
			Timeout: c.Timeout, BatchWait: c.BatchWait, QueueMax: c.QueueMax, BatchMax: c.BatchMax,
			Resource: map[string]string{}, Ignored: c.Ignored,
			OwnRoots: c.TLS.RootCAs != nil, ClientTLS: len(c.TLS.Certificates) > 0,
		}
		for _, a := range c.Resource {
			got.Resource[string(a.Key)] = a.Value.AsString()
		}
		if i := strings.IndexByte(got.Sampler, ','); i > 0 {
			got.Sampler = got.Sampler[:i+1]
		}
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.name, diff)
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
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://a:" + canary + "@b", "must have no user and no password", true},
		{"OTEL_EXPORTER_OTLP_HEADERS", canary, "OTEL_EXPORTER_OTLP_HEADERS: item 1 is not a header", true},
		{"OTEL_EXPORTER_OTLP_HEADERS", "a=b,c d=" + canary, "OTEL_EXPORTER_OTLP_HEADERS: item 2 is not a header", true},
		{"OTEL_EXPORTER_OTLP_HEADERS", "a=%0d%0ax:" + canary, "OTEL_EXPORTER_OTLP_HEADERS: item 1 is not a header", true},
		{"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a=%zz" + canary, "OTEL_EXPORTER_OTLP_TRACES_HEADERS: item 1 is not", true},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", `OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf`, false},
		{"OTEL_EXPORTER_OTLP_COMPRESSION", "zstd", `OTEL_EXPORTER_OTLP_COMPRESSION must be gzip or none`, false},
		{"OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere/ca.pem", "OTEL_EXPORTER_OTLP_CERTIFICATE: open /nowhere", false},
		{"OTEL_EXPORTER_OTLP_CERTIFICATE", "config_test.go", "config_test.go has no certificate in PEM", false},
		{"OTEL_EXPORTER_OTLP_CLIENT_KEY", "/nowhere/key", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and its key", false},
		{"OTEL_EXPORTER_OTLP_TIMEOUT", "10s", "OTEL_EXPORTER_OTLP_TIMEOUT must be an integer from 1 to 600000", false},
		{"OTEL_BSP_MAX_QUEUE_SIZE", "0", "OTEL_BSP_MAX_QUEUE_SIZE must be an integer from 1 to 1048576", false},
		{"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1000000", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE must be an integer", false},
		{"OTEL_BSP_SCHEDULE_DELAY", "-1", "OTEL_BSP_SCHEDULE_DELAY must be an integer", false},
		{"OTEL_TRACES_SAMPLER", "jaeger_remote", `OTEL_TRACES_SAMPLER must be always_on, always_off`, false},
		{"OTEL_TRACES_SAMPLER_ARG", "NaN", `OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1; got "NaN"`, false},
		{"OTEL_TRACES_SAMPLER_ARG", "2", `OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1; got "2"`, false},
		{"OTEL_RESOURCE_ATTRIBUTES", "a=b,c", `OTEL_RESOURCE_ATTRIBUTES: item 2 is not an attribute`, false},
	} {
		variables := environ("OTEL_TRACES_EXPORTER", "otlp")
		variables[row.name] = row.value
		_, err := trace.FromEnvironment(variables, "1.0.0")
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s=%s: got the error %v, want %q", row.name, row.value, err, row.want)
		} else if row.secret && strings.Contains(err.Error(), canary) {
			t.Errorf("%s=%s: the error has the value: %v", row.name, row.value, err)
		}
	}
}
