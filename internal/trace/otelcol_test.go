package trace_test

import (
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"plantstore/internal/trace"
	"plantstore/internal/trace/tracetest"
)

// TestRealCollector exports spans to OpenTelemetry's collector, which decodes them and sends them on.
func TestRealCollector(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a collector: run without -short")
	}
	program := filepath.Join(t.TempDir(), "otelcol")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Dir = "../../tools/otelcol"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the collector: %v\n%s", err, out)
	}
	// Only this test uses the address, so the kernel gives the port to no other program.
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.3:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	c := tracetest.Start(t)
	log := &logText{}
	collector := exec.CommandContext(t.Context(), program, "--config", fmt.Sprintf(`yaml:
receivers: {otlp: {protocols: {http: {endpoint: %q}}}}
exporters: {otlphttp: {endpoint: %q}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {traces: {receivers: [otlp], exporters: [otlphttp]}}
`, address, c.URL))
	collector.Env = []string{"HOME=" + t.TempDir()}
	collector.Stdout, collector.Stderr = log, log
	collector.Cancel = func() error { return collector.Process.Signal(syscall.SIGTERM) }
	if err := collector.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = collector.Process.Kill()
		_ = collector.Wait()
		if t.Failed() {
			t.Logf("the collector:\n%s", log)
		}
	}()

	// The collector is away at first: the exporter repeats its request.
	tr := start(t, "http://"+address, "OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
	const id, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	request := tr.Request(http.Header{"Traceparent": {"00-" + id + "-" + parent + "-01"}}, time.Now())
	commit := tr.Commit(time.Now(), []*trace.Span{request})
	commit.End()
	request.Record("commit wait", time.Now(), time.Now(), commit, true)
	request.SetName("POST /plants")
	request.Set(attribute.Int("plantstore.error", 50301))
	request.End()
	byName := map[string]tracetest.Span{}
	for _, s := range c.Wait(t, func(s []tracetest.Span) bool { return len(s) == 3 }) {
		byName[s.Name] = s
	}
	r, w := byName["POST /plants"], byName["commit wait"]
	switch {
	case r.TraceID != id, r.Parent != parent, !r.RemoteParent, r.Attributes["plantstore.error"] != int64(50301),
		r.Resource["service.version"] != "1.2.3", r.Kind != "SPAN_KIND_SERVER":
		t.Errorf("got the span of the request %+v", r)
	case w.Parent != r.ID, w.TraceID != id, !w.Failed, len(w.Links) != 1, w.Links[0] != byName["commit"].ID:
		t.Errorf("got the span of the wait %+v", w)
	case len(byName["commit"].Links) != 1, byName["commit"].Links[0] != r.ID:
		t.Errorf("got the span of the commit %+v", byName["commit"])
	}
	tr.Close(t.Context())
	tr.counts(t, map[string]int{"ended": 3, "exported": 3})
}
