package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestServerFlagOverTLS shows that a command refuses a server with an unknown certificate authority, and that
// --server-ca adds the authority.
func TestServerFlagOverTLS(t *testing.T) {
	t.Parallel()
	f := newTLSFiles(t)
	s := startServer(t, filepath.Join(t.TempDir(), "a.db"), append(f.flags(), "--admin-listen", "0.0.0.0:0")...)
	match, err := s.await(s.stderr, `admin=(https://127\.0\.0\.1:\d+)`)
	if err != nil {
		t.Fatal(err)
	}
	admin, ca := s.operator(t), filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, f.authority.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	config := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "plantstore", append([]string{"config", "--server", match[1]}, args...)...)
		cmd.Env = append(cleanEnviron(), "PLANTSTORE_TOKEN="+admin)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := config()
	if err == nil || !strings.Contains(out, "is not trusted") || !strings.Contains(out, "--server-ca") {
		t.Errorf("without the authority: %v: %s", err, out)
	}
	if out, err := config("--server-ca", ca); err != nil || !strings.Contains(out, "\ntls-cert: ") {
		t.Errorf("with the authority: %v: %s", err, out)
	}
	s.stop(t)
}
