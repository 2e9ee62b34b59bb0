package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plantstore/internal/oidc/oidctest"
)

// installProvider installs oidc-provider from npm and returns its directory.
func installProvider(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("it installs packages from npm")
	}
	if _, err := exec.LookPath("npm"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("npm is not installed; install the Debian packages nodejs and npm")
		}
		t.Skip("npm is not installed")
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/provider")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	return dir
}

// startProvider starts the provider with a new key on a port, and returns its issuer.
func startProvider(t *testing.T, dir, port string) (p *process, issuer string) {
	t.Helper()
	p = &process{cmd: exec.Command("node", "provider.js", port), ended: make(chan struct{})}
	p.stdout, p.stderr = newStream(), newStream()
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, p.stdout, p.stderr
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	match, err := p.await(p.stdout, `^(http://\S+)$`)
	if err != nil {
		t.Fatal(err)
	}
	return p, match[1]
}

// requestJWT requests a JWT with the credential of the client.
func requestJWT(t *testing.T, issuer string) string {
	t.Helper()
	form := url.Values{
		"grant_type": {"client_credentials"}, "resource": {oidctest.Audience}, "scope": {"plants:create"},
	}
	body := strings.NewReader(form.Encode())
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, issuer+"/token", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("web-shop", "JdxMIPPK6kvN")
	res, err := httpClient(1).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var answer struct {
		JWT string `json:"access_token"`
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil || answer.JWT == "" {
		t.Fatalf("status %d without an access token: %v", res.StatusCode, err)
	}
	return answer.JWT
}

// TestProvider accepts the JWTs of oidc-provider, also after it has replaced its key, and revokes them.
func TestProvider(t *testing.T) {
	t.Parallel()
	dir := installProvider(t)
	provider, issuer := startProvider(t, dir, "0")
	db := filepath.Join(t.TempDir(), "a.db")
	s := startServer(t, db, "--oidc-issuer", issuer, "--oidc-audience", oidctest.Audience)
	first := requestJWT(t, issuer)
	s.awaitAnswer(t, first, 1, "a", created("a"))

	provider.kill()
	_, again := startProvider(t, dir, issuer[strings.LastIndexByte(issuer, ':')+1:])
	if again != issuer {
		t.Fatalf("the second provider is %s, want %s", again, issuer)
	}
	second := requestJWT(t, issuer)
	s.awaitAnswer(t, second, 2, "b", created("b"))
	if got := s.createWith(t, first, 3, "c"); got != invalidAnswer {
		t.Errorf("a JWT of the replaced key: got %+v, want %+v", got, invalidAnswer)
	}

	plantstore(t, "token", "revoke", "--subject", "web-shop", "--oidc-issuer", issuer, "--db", db)
	if late := s.awaitAnswer(t, second, 2, "b", invalidAnswer); late > time.Second {
		t.Errorf("a request %s after the revocation was accepted", late)
	}
	s.stop(t)
	if list := plantstore(t, "list", "--json", "--db", db); strings.Count(list, `"created_by":"web-shop"`) != 2 {
		t.Errorf("plants: %s", list)
	}
}
