package tls

import (
	"bytes"
	"encoding/xml"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"plantstore/faults/rig"
)

// TestH2spec runs h2spec against the server and, as the control, against the HTTP/2 server of the Go standard library.
// The server passes at least as many cases. It fails one that the control passes, because it responds to a request
// without a credential before the body arrives, and passes one that the control fails, because its frames are smaller.
func TestH2spec(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "h2spec")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/summerwind/h2spec/cmd/h2spec")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build h2spec: %v\n%s", err, out)
	}
	control := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "ok")
	}))
	control.EnableHTTP2 = true
	control.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	control.StartTLS()
	defer control.Close()
	goFails, count := h2spec(t, program, control.Listener.Addr().String())

	s := start(t, rig.Build(t))
	fails, ran := h2spec(t, program, s.address)
	t.Logf("h2spec: the server passes %d of %d cases, net/http %d of %d", ran-len(fails), ran, count-len(goFails), count)
	if ran != count || ran < 140 {
		t.Errorf("h2spec ran %d cases against the server and %d against net/http", ran, count)
	}
	if len(fails) > len(goFails) {
		t.Errorf("the server fails %q, net/http %q", fails, goFails)
	}
	s.stop(t)
}

// h2spec runs h2spec against an address. It returns the cases that fail, and the number of all cases.
func h2spec(t *testing.T, program, address string) (fails []string, count int) {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	report := filepath.Join(t.TempDir(), "report.xml")
	command := exec.CommandContext(t.Context(), program,
		"--tls", "--insecure", "--host", host, "--port", port, "--path", "/healthz", "--timeout", "5",
		"--junit-report", report)
	out, err := command.CombinedOutput() // its exit code is 1 if a case fails
	text, readErr := os.ReadFile(report)
	if readErr != nil {
		t.Fatalf("h2spec: %v\n%s", err, out)
	}
	var suites struct {
		Suites []struct {
			Package string `xml:"package,attr"`
			Cases   []struct {
				Package string    `xml:"package,attr"`
				Name    string    `xml:"classname,attr"`
				Failure *struct{} `xml:"failure"`
				Error   *struct{} `xml:"error"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.NewDecoder(bytes.NewReader(text)).Decode(&suites); err != nil {
		t.Fatal(err)
	}
	for _, suite := range suites.Suites {
		for _, c := range suite.Cases {
			count++
			if c.Failure != nil || c.Error != nil {
				fails = append(fails, c.Package+": "+c.Name)
			}
		}
	}
	return fails, count
}
