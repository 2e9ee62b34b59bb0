package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/config"
	"plantstore/internal/oidc/oidctest"
	"plantstore/internal/webhook"
)

// canaries are secrets by the place where a client or the operator sent them.
type canaries map[string]string

// newCanary returns a secret of its own for a place.
func newCanary() string { return "canary" + strings.ToLower(rand.Text()) }

// forms returns the forms of a secret in which an output could contain it: as it is, in base64 from each of the three
// offsets, in hexadecimal digits and percent-encoded.
func forms(secret string) map[string]string {
	all := map[string]string{
		"as it is":            secret,
		"in hexadecimal":      hex.EncodeToString([]byte(secret)),
		"in upper-case hex":   strings.ToUpper(hex.EncodeToString([]byte(secret))),
		"escaped for a query": url.QueryEscape(secret),
		"quoted":              strings.Trim(fmt.Sprintf("%q", secret), `"`),
	}
	var percent, utf16 strings.Builder
	for i := range len(secret) {
		fmt.Fprintf(&percent, "%%%02X", secret[i])
		utf16.WriteString(secret[i:i+1] + "\x00")
	}
	all["percent-encoded"], all["in UTF-16"] = percent.String(), utf16.String()
	for offset := range 3 {
		// The first and the last characters also depend on the bytes around the secret.
		for name, coding := range map[string]*base64.Encoding{
			"base64": base64.RawStdEncoding, "base64url": base64.RawURLEncoding,
		} {
			text := coding.EncodeToString([]byte(strings.Repeat("x", offset) + secret))
			all[fmt.Sprintf("in %s at offset %d", name, offset)] = text[2*min(offset, 1)+2 : len(text)-2]
		}
	}
	return all
}

// find returns the places of the canaries that an output contains, with their forms.
func (c canaries) find(output []byte) (found []string) {
	for place, secret := range c {
		for form, text := range forms(secret) {
			if bytes.Contains(output, []byte(text)) {
				found = append(found, place+" "+form)
			}
		}
	}
	return found
}

// mustBeAbsent fails the test for each canary in an output.
func (c canaries) mustBeAbsent(t *testing.T, name string, output []byte) {
	t.Helper()
	if len(output) == 0 {
		t.Errorf("%s is empty, so it shows nothing", name)
	}
	for _, found := range c.find(output) {
		t.Errorf("%s contains the secret of: %s", name, found)
	}
}

// TestFindCanaries shows that a secret is found in every form, also between other bytes.
func TestFindCanaries(t *testing.T) {
	t.Parallel()
	c := canaries{"place": newCanary()}
	for form, text := range forms(c["place"]) {
		if len(c.find([]byte("\x00\xff{"+text+"}"))) == 0 {
			t.Errorf("the secret %s is not found in %q", form, text)
		}
	}
	for padding := range 6 {
		around := strings.Repeat("p", padding)
		text := base64.StdEncoding.EncodeToString([]byte(around + c["place"] + around))
		if len(c.find([]byte(text))) == 0 {
			t.Errorf("the secret with %d bytes around it is not found in %q", padding, text)
		}
	}
	if found := c.find([]byte(strings.ToUpper(c["place"]) + newCanary())); len(found) > 0 {
		t.Errorf("found %q, want nothing", found)
	}
}

// canaryRequests returns requests with a secret in each place where a client may put one.
func canaryRequests(c canaries, token, revoked string) (requests []string) {
	secret := func(place string) string {
		c[place] = newCanary()
		return c[place]
	}
	jwt := func(place string) string {
		part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
		c[place] = part(`{"alg":"ES256","typ":"at+jwt"}`) + "." +
			part(`{"iss":"https://idp.example","sub":"`+newCanary()+`"}`) + "." + part(rand.Text()+rand.Text())
		return c[place]
	}
	opaque := func(place string) string {
		c[place] = auth.Mint()
		return c[place]
	}
	c["a token"], c["a revoked token"] = token, revoked
	request := func(line, body string, headers ...string) {
		headers = append([]string{
			line + " HTTP/1.1", "Host: 127.0.0.1", "Connection: close", fmt.Sprint("Content-Length: ", len(body)),
		}, headers...)
		requests = append(requests, strings.Join(headers, "\r\n")+"\r\n\r\n"+body)
	}
	const plants, asJSON = "POST /plants", "Content-Type: application/json"
	bearer := "Authorization: Bearer " + token
	request(plants, `{"id":1,"name":"Rosa"}`, asJSON, bearer)
	request(plants, `{"id":1,"name":"Rosa"}`, asJSON, "Authorization: Bearer "+revoked)
	request(plants, `{}`, asJSON, "Authorization: Bearer "+opaque("an unknown token"))
	request(plants, `{}`, asJSON, "Authorization: Bearer "+jwt("a JWT"))
	request(plants, `{}`, asJSON, "Authorization: Bearer "+secret("a credential of another form"))
	request(plants, `{}`, asJSON, "Authorization: Bearer x "+secret("a malformed credential"))
	request(plants, `{}`, asJSON, "Authorization: Token "+secret("another scheme"))
	request(plants, `{}`, asJSON, "Authorization: "+opaque("no scheme"))
	request(plants, `{}`, asJSON, "Authorization: Basic "+
		base64.StdEncoding.EncodeToString([]byte("flora:"+secret("a password of Basic"))))
	request(plants, `{}`, asJSON, bearer, "Authorization: Bearer "+opaque("a second header"))
	request("POST /plants/"+opaque("a path"), `{}`, asJSON, bearer)
	request("POST /"+jwt("a path, as a JWT"), `{}`, asJSON, bearer)
	request("GET /a/b/"+secret("a long path"), "")
	request("POST /plants?access_token="+opaque("a query"), `{"id":2,"name":"Rosa"}`, asJSON)
	request("POST /plants?jwt="+jwt("a query, as a JWT"), `{"id":3,"name":"Rosa"}`, asJSON, bearer)
	request("POST http://flora:"+secret("the user of a target")+"@127.0.0.1/plants", `{}`, asJSON, bearer)
	request(opaque("a method")+" /plants", "", bearer)
	request(plants, `{"id":4,"name":"Rosa","access_token":"`+opaque("an unknown member")+`"}`, asJSON, bearer)
	request(plants, `{"id":"`+opaque("a wrong member")+`","name":1}`, asJSON, bearer)
	request(plants, `{"`+opaque("a member twice")+`":1,"`+c["a member twice"]+`":1}`, asJSON, bearer)
	request(plants, "access_token="+opaque("a form"), "Content-Type: application/x-www-form-urlencoded", bearer)
	request(plants, "{}", "Content-Type: text/"+opaque("a media type"), bearer)
	for _, name := range []string{
		"X-Api-Key", "Cookie", "User-Agent", "Referer", "Origin", "Forwarded", "X-Forwarded-For",
	} {
		request(plants, `{"id":5,"name":"Rosa"}`, asJSON, bearer, name+": "+secret(name))
	}
	request(plants, `{"id":6,"name":"Rosa"}`, asJSON, bearer, "X-Request-Id: "+opaque("X-Request-Id"))
	request(plants, `{"id":7,"name":"Rosa"}`, asJSON, bearer, "Expect: "+secret("Expect"))
	request(plants, `{"id":8,"name":"Rosa"}`, asJSON, bearer, "Transfer-Encoding: "+secret("Transfer-Encoding"))
	request(plants, `{"id":9,"name":"Rosa"}`, asJSON, bearer, secret("a header name")+" : x")
	request("GET /healthz", "", "Host: "+secret("Host")+" x")
	return requests
}

// sendRaw sends a raw request over a connection of its own and returns the whole response.
func sendRaw(t *testing.T, address, request string) []byte {
	t.Helper()
	c, err := dialKept(address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, request) // the server may refuse the request before it has all
	_ = c.Conn.(interface{ CloseWrite() error }).CloseWrite()
	response, err := io.ReadAll(bufio.NewReader(c))
	if err != nil && len(response) == 0 && !errors.Is(err, syscall.ECONNRESET) {
		t.Fatal(err)
	}
	return response
}

// TestSecretsStayInTheirPlace plants secrets in requests and in the export of traces. It searches the log of the
// server, its store with WAL, backups and exports, its metrics, profiles, command line, settings, spans and audit log,
// and its traceback.
func TestSecretsStayInTheirPlace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, backups := filepath.Join(dir, "plants.db"), filepath.Join(dir, "backups")
	if err := os.Mkdir(backups, 0o700); err != nil {
		t.Fatal(err)
	}
	mint := func(name, scope string) string {
		out := plantstore(t, "token", "create", name, "--no-expiry", "--create", "--db", db, "--scope", scope)
		return strings.TrimSpace(out)
	}
	c := canaries{}
	token, revoked := mint("shop", "plants:create"), mint("old", "plants:create")
	plantstore(t, "token", "revoke", "old", "--db", db)
	collector, variables := secretCollector(t, c)
	receiver := httptest.NewServer(http.NotFoundHandler()) // each delivery fails
	t.Cleanup(receiver.Close)
	c["the secret of the webhooks"] = newCanary()
	environ := append(append(cleanEnviron(), variables...), config.WebhookSecretVariable+"="+
		webhook.SecretPrefix+base64.StdEncoding.EncodeToString([]byte(c["the secret of the webhooks"])))
	issuer, stop := oidctest.Start()
	t.Cleanup(stop)
	c["the secret of the client of the issuer"] = oidctest.ClientSecret
	environ = append(environ, config.ClientSecretVariable+"="+oidctest.ClientSecret)
	s := startServerIn(t, environ, db, "--oidc-issuer", issuer.URL, "--oidc-client-id", oidctest.ClientID,
		"--oidc-console-grants", "plant-admins=admin plants:read", "--log-level", "debug", "--pprof", "--backup-dir", backups,
		"--base-url", "http://control.example/", "--webhook-url", receiver.URL, "--webhook-allow-private")
	address := strings.TrimPrefix(s.listen(t), "http://")
	for i, secret := range newPerson(t, adminURL.FindStringSubmatch(s.stderr.String())[1]).signIn() {
		c[fmt.Sprint("a code or cookie of a sign-in, ", i)] = secret
	}
	control := newCanary()
	for i, request := range canaryRequests(c, token, revoked) {
		c.mustBeAbsent(t, fmt.Sprintf("response %d", i), sendRaw(t, address, request))
	}
	body := `{"id":100,"name":"` + control + `"}`
	sendRaw(t, address, "POST /plants HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+token+"\r\nX-Request-Id: "+control+
		"\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: "+fmt.Sprint(len(body))+"\r\n\r\n"+body)
	for _, text := range []string{control, "webhook deliveries fail"} {
		if _, err := s.await(s.stderr, text); err != nil {
			t.Error(err)
		}
	}

	c["the token of the operator"] = mint("operator", operatorScopes)
	checkRuntime(t, c, s, c["the token of the operator"])
	checkSettings(t, c, s, environ, c["the token of the operator"])
	checkTraces(t, c, s, collector)
	plantstore(t, "backup", filepath.Join(backups, "by-command.db"), "--db", db)
	plantstore(t, "export", "-o", filepath.Join(dir, "plants.csv"), "--db", db)
	for name, output := range filesIn(t, dir) {
		if len(output) > 0 {
			c.mustBeAbsent(t, name, output)
		}
		if !strings.HasSuffix(name, "-wal") && !strings.HasSuffix(name, ".csv") {
			continue
		}
		if len(canaries{"control": control}.find(output)) == 0 {
			t.Errorf("%s does not contain the control", name)
		}
	}
	c.mustBeAbsent(t, "the audit log", []byte(plantstore(t, "audit", "list", "--json", "--db", db)))

	if err := s.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	if _, err := s.wait(); err != nil {
		t.Fatal(err)
	}
	if log := s.stderr.String(); !strings.Contains(log, "goroutine ") {
		t.Errorf("no traceback in %s", log)
	}
	c.mustBeAbsent(t, "the log with the traceback", []byte(s.stderr.String()))
	c.mustBeAbsent(t, "standard output with the log", []byte(s.stdout.String()+s.stderr.String()))
}

// operatorScopes are the scopes of the paths that checkRuntime reads.
const operatorScopes = "admin,metrics"

// checkRuntime searches the metrics, the profiles and the files of the system about a server.
func checkRuntime(t *testing.T, c canaries, s *testServer, admin string) {
	t.Helper()
	match, err := s.await(s.stderr, readyLine)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"/metrics", "/readyz?verbose", "/debug/pprof/cmdline", "/debug/pprof/symbol", "/debug/pprof/heap",
		"/debug/pprof/allocs",
		"/debug/pprof/heap?debug=1", "/debug/pprof/goroutine?debug=2", "/debug/pprof/goroutine", "/debug/pprof/block?debug=1",
		"/debug/pprof/mutex?debug=1", "/debug/pprof/trace?seconds=1", "/debug/pprof/profile?seconds=1",
	} {
		var status int
		var text []byte
		late := poll("a ready server", func() bool { // after a pause the server is not ready for a moment
			status, text = authorized(t, match[3]+path, admin)
			c.mustBeAbsent(t, path, text)
			return status != http.StatusServiceUnavailable
		})
		if late != nil || status != http.StatusOK {
			t.Errorf("%s: %d, %v: %.200s", path, status, late, text)
		}
	}
	for _, name := range []string{"cmdline", "comm", "status", "maps"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", s.cmd.Process.Pid, name))
		if errors.Is(err, fs.ErrNotExist) || name == "maps" && errors.Is(err, fs.ErrPermission) {
			continue // another system than Linux; a process that refuses dumps
		}
		if err != nil {
			t.Fatal(err)
		}
		c.mustBeAbsent(t, name, text)
	}
}

// authorized sends a GET request with a token, and returns the status and the body of the response.
func authorized(t *testing.T, url, token string) (status int, body []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := httpClient(1).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err = io.ReadAll(response.Body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, body
}

// filesIn returns the contents of all files below a directory by their names. It omits temporary files that a server
// removes at the same time.
func filesIn(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	files := os.DirFS(dir)
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			var content []byte
			if content, err = fs.ReadFile(files, name); err == nil {
				all[name] = content
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 5 {
		t.Fatalf("only %d files in %s", len(all), dir)
	}
	return all
}

// listen returns the address of the public listener.
func (s *testServer) listen(t *testing.T) string {
	t.Helper()
	match, err := s.await(s.stderr, readyLine)
	if err != nil {
		t.Fatal(err)
	}
	return match[1]
}

// TestSettingsStaySecret searches the outputs of a server for the password of its database and its private key.
func TestSettingsStaySecret(t *testing.T) {
	t.Parallel()
	c := canaries{"the password": newCanary()}
	files := newTLSFiles(t)
	key, err := os.ReadFile(files.key)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(key)
	c["the key"], c["the text of the key"] = string(block.Bytes), strings.Split(string(key), "\n")[1]
	environ := append(cleanEnviron(), "PLANTSTORE_DB="+database(t), "PGPASSWORD="+c["the password"])
	p, err := startProcess(t.TempDir(), environ,
		append([]string{
			"serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--log-level", "debug", "--pprof",
		}, files.flags()...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	create := exec.CommandContext(
		t.Context(), "plantstore", "token", "create", "operator", "--no-expiry", "--scope", operatorScopes,
	)
	create.Env = p.cmd.Env
	if _, err := p.await(p.stderr, readyLine); err != nil {
		t.Fatal(err)
	}
	admin, err := create.Output()
	if err != nil {
		t.Fatal(err)
	}
	c["the token"] = strings.TrimSpace(string(admin))
	checkRuntime(t, c, &testServer{process: p}, c["the token"])
	if err := p.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	if _, err := p.wait(); err != nil {
		t.Fatal(err)
	}
	c.mustBeAbsent(t, "the output", []byte(p.stdout.String()+p.stderr.String()))
}

// TestNoCoreDump crashes a server and a command with a token where the system writes core dumps. The system writes
// none, and only root can read the environment of the server, which may have a password. The server ends by a signal,
// so that systemd starts it again: the Go runtime would exit with 2, as after a wrong setting.
func TestNoCoreDump(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	shell := func(command string, environ ...string) *process {
		t.Helper()
		p, err := newProcess(dir, append(cleanEnviron(), environ...))
		if err != nil {
			t.Fatal(err)
		}
		p.cmd = shellCommand(p, "ulimit -c unlimited && exec "+command)
		if err := p.start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.kill)
		return p
	}
	crash := func(p *process) (dumped bool) {
		t.Helper()
		if err := p.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
			t.Fatal(err)
		}
		if _, err := p.wait(); err != nil {
			t.Fatal(err)
		}
		status := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
		if !status.Signaled() { // SIGABRT of the Go runtime, or SIGQUIT before it has started
			t.Fatalf("the process ended with %v, want a signal", p.cmd.ProcessState)
		}
		return status.CoreDump()
	}
	s := shell("plantstore serve --db a.db --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0")
	if _, err := s.await(s.stderr, readyLine); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", s.cmd.Process.Pid)); err == nil && os.Geteuid() != 0 {
		t.Error("another process of the user can read the environment of the server")
	}
	if crash(s) {
		t.Error("the server has written a core dump")
	}
	remote, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer remote.Close()
	if err := remote.SetDeadline(time.Now().Add(waitMax)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "admin.token"), []byte(auth.Mint()), 0o600); err != nil {
		t.Fatal(err)
	}
	command := shell("plantstore token create a --expires 1d --server-token admin.token --server http://"+
		remote.Addr().String(), "GOTRACEBACK=crash")
	conn, err := remote.Accept() // the command has the token, and waits for a response
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if crash(command) {
		t.Error("the command has written a core dump")
	}
	control := shell("sh -c 'echo ready && exec sleep 300'")
	if _, err := control.await(control.stdout, "ready"); err != nil {
		t.Fatal(err)
	}
	if !crash(control) {
		t.Log("this system writes no core dumps, so the test shows less")
	}
}

// shellCommand returns the command of a process that a shell starts.
func shellCommand(p *process, line string) *exec.Cmd {
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = p.cmd.Dir, p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr
	return cmd
}
