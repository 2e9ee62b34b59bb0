package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"plantstore/internal/trace/tracetest"
)

// startTraced starts a server that exports traces to an endpoint, and returns the secret of a token. Spans wait
// for others longer than a test, unless the server stops.
func startTraced(t *testing.T, endpoint string, variables ...string) (s *testServer, token string) {
	t.Helper()
	environ := append(cleanEnviron(), "OTEL_EXPORTER_OTLP_ENDPOINT="+endpoint, "OTEL_BSP_SCHEDULE_DELAY=60000")
	s = startServerIn(t, append(environ, variables...), filepath.Join(t.TempDir(), "plants.db"))
	return s, s.creator(t)
}

// create creates a plant.
func (s *testServer) create(t *testing.T, token string, id int) {
	t.Helper()
	body := fmt.Sprintf(`{"id":%d,"name":"Rosa canina"}`, id)
	if status, text, err := post(t.Context(), httpClient(1), s.url, token, body); err != nil || status != http.StatusOK {
		t.Fatalf("got %d, %s, %v", status, text, err)
	}
}

// TestLastSpansAreExported stops a server. It exports the spans of the earlier requests, and of a request that was
// complete only after SIGTERM, before it ends.
func TestLastSpansAreExported(t *testing.T) {
	t.Parallel()
	collector := tracetest.Start(t)
	s, token := startTraced(t, collector.URL)
	s.create(t, token, 1)
	last, err := dialKept(s.listen(t))
	if err != nil {
		t.Fatal(err)
	}
	defer last.Close()
	const body = `{"id":2,"name":"Rosa canina"}`
	if _, err := fmt.Fprintf(last, "POST /plants HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n",
		last.RemoteAddr(), token, len(body)); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(last)
	if line, err := in.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("got %q, %v", line, err) // the server reads the body
	}
	if spans := collector.Spans(); len(spans) > 0 {
		t.Fatalf("the collector has %d spans before the stop, so the test shows nothing", len(spans))
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, err := s.await(s.stderr, `msg="shutting down`); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(last, body); err != nil {
		t.Fatal(err)
	}
	if response, err := io.ReadAll(in); err != nil || !strings.Contains(string(response), "HTTP/1.1 200 OK") {
		t.Errorf("got %q, %v", response, err)
	}
	if code, err := s.wait(); err != nil || code != exitOK {
		t.Fatalf("the server ended with %d, %v; its log:\n%s", code, err, s.stderr)
	}
	names := map[string]int{}
	for _, span := range collector.Spans() { // from the server, which has ended
		names[span.Name]++
	}
	if names["POST /plants"] != 2 || names["commit"] != 2 || names["COMMIT"] != 2 {
		t.Errorf("the collector has the spans %v, want two requests with their commits", names)
	}
}

// TestCollectorDelaysStop stops servers whose collector does not accept spans. The server ends with 0, long before the
// time-out of an export. A test of internal/trace has the exact time.
func TestCollectorDelaysStop(t *testing.T) {
	t.Parallel()
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0") // the kernel accepts the connections
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	busy := tracetest.Start(t)
	busy.Answer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	for name, endpoint := range map[string]string{
		"away": "http://127.0.0.1:1", "silent": "http://" + silent.Addr().String(), "busy": busy.URL,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, token := startTraced(t, endpoint, "OTEL_EXPORTER_OTLP_TIMEOUT=600000")
			s.create(t, token, 1)
			s.stop(t)
			if log := s.stderr.String(); !strings.Contains(log, "traces are not exported") {
				t.Errorf("the log has no warning:\n%s", log)
			}
		})
	}
}
