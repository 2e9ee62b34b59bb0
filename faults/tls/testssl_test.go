package tls

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"plantstore/faults/rig"
)

// TestTestssl runs testssl.sh against the server, which takes minutes. The only findings that it rates as not ok are
// those of the certificate of the test, which no public authority issued.
func TestTestssl(t *testing.T) {
	t.Parallel()
	if !*long {
		t.Skip("-long runs testssl.sh")
	}
	program, err := exec.LookPath("testssl")
	rig.Need(t, err == nil, "testssl of the Debian package testssl.sh")
	s := start(t, rig.Build(t))
	file := filepath.Join(t.TempDir(), "report.json")
	command := exec.CommandContext(t.Context(), program,
		"--quiet", "--color", "0", "--warnings", "batch", "--ip", "one", "--jsonfile", file, s.url+"/healthz")
	out, err := command.CombinedOutput() // its exit code is the number of findings
	text, readErr := os.ReadFile(file)
	if readErr != nil {
		t.Fatalf("testssl: %v\n%s", err, out)
	}
	var findings []struct{ ID, Severity, Finding string }
	if err := json.Unmarshal(text, &findings); err != nil {
		t.Fatal(err)
	}
	ofTheTest := []string{"cert_chain_of_trust", "cert_revocation"}
	good := 0
	for _, f := range findings {
		switch f.Severity {
		case "OK":
			good++
		case "INFO", "LOW", "WARN":
		default:
			if !slices.Contains(ofTheTest, f.ID) {
				t.Errorf("%s %s: %s", f.Severity, f.ID, f.Finding)
			}
		}
	}
	t.Logf("testssl.sh: %d findings, %d of them OK", len(findings), good)
	if good < 30 {
		t.Errorf("testssl.sh has only %d findings that are OK; did it run?\n%s", good, out)
	}
	s.stop(t)
}
