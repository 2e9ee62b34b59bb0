package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plantstore/internal/oidc/oidctest"
)

// person is a browser without scripts that signs in to the console of a server.
type person struct {
	t      *testing.T
	client *http.Client
	admin  string   // address of the console
	seen   []string // the codes and cookies
}

func newPerson(t *testing.T, admin string) *person {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &person{t: t, client: &http.Client{Jar: jar}, admin: admin}
	p.client.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if code := r.URL.Query().Get("code"); code != "" {
			p.seen = append(p.seen, code)
		}
		return nil
	}
	return p
}

// get returns the body of a page.
func (p *person) get(path string) string {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.admin+path, http.NoBody)
	if err != nil {
		p.t.Fatal(err)
	}
	res, err := p.client.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, cookie := range res.Cookies() {
		if cookie.Value != "" {
			p.seen = append(p.seen, cookie.Value)
		}
	}
	return string(body)
}

// signIn signs in at the issuer, and returns the codes and cookies, which are secrets.
func (p *person) signIn() (secrets []string) {
	p.t.Helper()
	if body := p.get("/sign-in/oidc"); !strings.Contains(body, "<h1>Signed in</h1>") {
		p.t.Fatalf("sign-in: %s", body)
	}
	u, err := url.Parse(p.admin)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, cookie := range p.client.Jar.Cookies(u) {
		p.seen = append(p.seen, cookie.Value)
	}
	return p.seen
}

func (p *person) isSignedIn() bool {
	p.t.Helper()
	return p.get("/session") == `{"open":true}`+"\n"
}

// clientSecretFile returns a file with the secret of the client of oidctest.
func clientSecretFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "client.secret")
	writeFileText(t, path, oidctest.ClientSecret+"\n")
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSignInSettings signs a person in to a server that accepts no JWTs, and revokes the subject by the command.
func TestSignInSettings(t *testing.T) {
	t.Parallel()
	issuer, stop := oidctest.Start()
	defer stop()
	secret := clientSecretFile(t)
	text := fmt.Sprintf("oidc-issuer: %s\noidc-client-id: %s\noidc-client-secret-file: %s\n"+
		"oidc-console-grants: [plant-admins=admin plants:read]\n", issuer.URL, oidctest.ClientID, secret)
	db, file := filepath.Join(t.TempDir(), "a.db"), filepath.Join(t.TempDir(), "plantstore.yaml")
	writeFileText(t, file, text)
	s := startServer(t, db, "--config", file)
	admin := adminURL.FindStringSubmatch(s.stderr.String())[1]
	p := newPerson(t, admin)
	p.signIn()
	if !p.isSignedIn() || !strings.Contains(p.get("/plants"), `Signed in as <bdi class="breaks">flora</bdi>`) {
		t.Fatal("there is no session")
	}
	if got := s.createWith(t, issuer.JWT(time.Now(), nil), 1, "A"); got != invalidAnswer {
		t.Errorf("a JWT without --oidc-audience: got %+v", got)
	}
	issuer.SetPerson(oidctest.Object{"sub": "fauna"})
	other := newPerson(t, admin)
	other.signIn()
	plantstore(t, "token", "revoke", "--subject", "flora", "--oidc-issuer", issuer.URL, "--db", db)
	if err := poll("end of the session", func() bool { return !p.isSignedIn() }); err != nil {
		t.Error(err)
	}
	if !other.isSignedIn() {
		t.Error("the session of another person has ended")
	}
	s.stop(t)
}

// The link of the command console has --console-url.
func TestConsoleURL(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "a.db")
	plantstore(t, "token", "create", "a", "--no-expiry", "--create", "--db", db)
	link := plantstore(t, "console", "--db", db, "--console-url", "https://console.example")
	if !strings.HasPrefix(link, "https://console.example/sign-in?code=pst_") {
		t.Errorf("got %s", link)
	}
}
