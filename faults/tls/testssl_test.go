// Package tls runs testssl.sh against a server with TLS.
package tls

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"plantstore/faults/rig"
	"plantstore/internal/certs/certstest"
)

var long = flag.Bool("long", false, "run testssl.sh")

// start starts a server with TLS. It returns the URL of its public listener, too.
func start(t *testing.T, program string) (s *rig.Server, url string) {
	t.Helper()
	authority, err := certstest.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key, db := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "plants.db")
	leaf := certstest.Leaf{NotAfter: time.Now().Add(90 * 24 * time.Hour)} // testssl.sh reports one that expires soon
	if err := authority.Write(leaf, cert, key); err != nil {
		t.Fatal(err)
	}
	rig.Token(t, program, db, "a")
	if s, err = rig.Start(t, program, db, nil, "--tls-cert", cert, "--tls-key", key); err != nil {
		t.Fatal(err)
	}
	return s, "https" + strings.TrimPrefix(s.URL, "http")
}

// TestTestssl runs testssl.sh against the server, which takes minutes. The only findings that it rates as not ok are
// those of the certificate of the test, which no public authority issued.
func TestTestssl(t *testing.T) {
	t.Parallel()
	if !*long {
		t.Skip("-long runs testssl.sh")
	}
	program, err := exec.LookPath("testssl")
	rig.Need(t, err == nil, "testssl of the Debian package testssl.sh")
	s, url := start(t, rig.Build(t))
	file := filepath.Join(t.TempDir(), "report.json")
	command := exec.CommandContext(t.Context(), program,
		"--quiet", "--color", "0", "--warnings", "batch", "--ip", "one", "--jsonfile", file, url+"/healthz")
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
	if code := s.Stop(); code != 0 {
		t.Errorf("the server ended with code %d:\n%s", code, s.Log())
	}
}
