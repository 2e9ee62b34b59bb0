package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// webhookSecret is the secret of the webhooks of tests.
var webhookSecret = "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 24)))

// webhookSecretFile returns a file with webhookSecret.
func webhookSecretFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "webhook.secret")
	writeFileText(t, path, webhookSecret+"\n")
	return path
}

// TestWebhooks creates plants by import, beside the server and while it is away. The receiver gets each of them.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	got := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got <- string(body)
	}))
	t.Cleanup(receiver.Close)
	for name, db := range map[string]string{"file": filepath.Join(t.TempDir(), "a.db"), "PostgreSQL": database(t)} {
		flags := []string{
			"--webhook-url", receiver.URL, "--webhook-secret-file", webhookSecretFile(t), "--webhook-allow-private",
		}
		s := startServer(t, db, flags...)
		importPlants(t, db, `{"id":1,"name":"Acer"}`)
		s.stop(t)
		importPlants(t, db, `{"id":2,"name":"Oak"}`)
		startServer(t, db, flags...).stop(t)
		startServer(t, db, flags...)
		bodies := []string{<-got, <-got}
		slices.Sort(bodies)
		if want := []string{`{"id":1,"name":"Acer"}`, `{"id":2,"name":"Oak"}`}; !slices.Equal(bodies, want) {
			t.Errorf("%s: got %v", name, bodies)
		}
	}
}

func importPlants(t *testing.T, db, text string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plants.jsonl")
	writeFileText(t, path, text)
	plantstore(t, "import", path, "--db", db)
}

// TestWebhookSettings shows the usage errors of the settings. None has a secret.
func TestWebhookSettings(t *testing.T) {
	t.Parallel()
	file := webhookSecretFile(t)
	bad, open := filepath.Join(t.TempDir(), "bad"), filepath.Join(t.TempDir(), "open")
	writeFileText(t, bad, "whsec_c2hvcnQ=\n")
	writeFileText(t, open, webhookSecret)
	if err := os.Chmod(open, 0o604); err != nil {
		t.Fatal(err)
	}
	url := []string{"--webhook-url", "https://plants.example/?key=secret", "--webhook-secret-file", file}
	for _, row := range []struct {
		args    []string
		environ []string
		want    string
	}{
		{url[:2], nil, "webhook-url (--webhook-url): the secret that signs the events is missing; " +
			"set webhook-secret-file or PLANTSTORE_WEBHOOK_SECRET"},
		{url, []string{"PLANTSTORE_WEBHOOK_SECRET=" + webhookSecret}, "webhook-secret-file (--webhook-secret-file): " +
			"the variable PLANTSTORE_WEBHOOK_SECRET has the secret, too; unset one of them"},
		{url[:2], []string{"PLANTSTORE_WEBHOOK_SECRET=" + webhookSecret + "x"}, "PLANTSTORE_WEBHOOK_SECRET: " +
			"secret 1 is not base64 after whsec_"},
		{[]string{"--webhook-rate", "7"}, nil, "webhook-rate (--webhook-rate): " +
			"it has no effect without a URL; set webhook-url"},
		{
			[]string{"--webhook-allow-private"},
			nil,
			"webhook-allow-private (--webhook-allow-private): it has no effect without a URL; set webhook-url",
		},
		{append(url[2:], "--webhook-url", "http://plants.example/?key=secret"), nil, "webhook-url (--webhook-url): " +
			`"http://plants.example/": it has no TLS; use https, or set webhook-allow-private ` +
			"for a receiver in your own network"},
		{append(url, "--webhook-url", "https://plants.example/?key=other"), nil, "webhook-url (--webhook-url): " +
			`"https://plants.example/" is there twice; URLs must differ before a question mark`},
		{
			append(url, "--webhook-timeout", "6m"), nil,
			"webhook-timeout (--webhook-timeout): 6m is out of range; use at most 5m0s",
		},
		{
			append(url[:2:2], "--webhook-secret-file", bad), nil,
			"webhook-secret-file (--webhook-secret-file): secret 1 has 5 bytes; want 24 to 64",
		},
		{append(url[:2:2], "--webhook-secret-file", open), nil, "webhook-secret-file (--webhook-secret-file): " +
			"other users can read the file (mode 0604); run chmod 600 on it"},
		{append(url[:2:2], "--webhook-secret-file", webhookSecret), nil, "webhook-secret-file (--webhook-secret-file): " +
			"could not open the file: no such file or directory; the setting is the name of a file with the secret"},
		{append(url[:2:2], "--webhook-secret-file", t.TempDir()), nil, "webhook-secret-file (--webhook-secret-file): " +
			"it is not a regular file"},
	} {
		args := append([]string{"serve", "--db", "a.db"}, row.args...)
		// A process of its own: serve changes the dispositions of signals, which other processes of the test would inherit.
		code, _, stderr := runIn(t, t.TempDir(), append(cleanEnviron(), row.environ...), args...)
		if want := "plantstore: " + row.want + "\n"; code != exitUsage || stderr != want {
			t.Errorf("%q:\ngot  %d %swant %d %s", row.args, code, stderr, exitUsage, want)
		}
	}
}

// TestDeadLetters lists, retries and drops dead letters beside a server.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	var works atomic.Bool
	got := make(chan string, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !works.Load() {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		body, _ := io.ReadAll(r.Body) // the body is compared
		got <- string(body)
	}))
	t.Cleanup(receiver.Close)
	db := filepath.Join(t.TempDir(), "a.db")
	s := startServer(t, db, "--webhook-url", receiver.URL+"/e?key=secret", "--webhook-secret-file", webhookSecretFile(t),
		"--webhook-allow-private", "--webhook-give-up", "1ms")
	importPlants(t, db, `{"id":-7,"name":"Acer"}`)
	importPlants(t, db, `{"id":8,"name":"Oak"}`)
	var listed string
	for deadline := time.Now().Add(waitMax); strings.Count(listed, "\n") < 3; {
		if time.Now().After(deadline) {
			t.Fatalf("dead letters: %s", listed)
		}
		listed = plantstore(t, "webhook", "list", "--db", db)
	}
	row := regexp.MustCompile(`(?m)^1 +` + receiver.URL + `/e +-7 +20\S+Z +20\S+Z +1 +status 418$`)
	if !row.MatchString(listed) || strings.Contains(listed, "secret") {
		t.Errorf("webhook list:\n%s", listed)
	}
	list := plantstore(t, "webhook", "list", "--json", "--db", db)
	checkJSONRules(t, "webhook list", list)
	if first, _, _ := strings.Cut(list, "\n"); !strings.Contains(first, `"plant_id":-7,`) {
		t.Errorf("webhook list --json: %s", list)
	}
	remote := remoteFlags(t, s)
	if got := plantstore(t, append([]string{"webhook", "list"}, remote...)...); got != listed {
		t.Errorf("webhook list --server:\n%swant:\n%s", got, listed)
	}
	if got := plantstore(t, append([]string{"webhook", "list", "--json"}, remote...)...); got != list {
		t.Errorf("webhook list --json --server:\n%swant:\n%s", got, list)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"drop", "--webhook", "0"}, exitUsage, "webhook: 0 is not the id of a webhook; see plantstore webhook list"},
		{[]string{"retry"}, exitUsage, "give --webhook, --plant or both, or --all alone"},
		{[]string{"drop", "--all", "--plant", "8"}, exitUsage, "give --webhook, --plant or both, or --all alone"},
		{[]string{"drop", "--plant", "x"}, exitUsage, `plant: "x" is not a 64-bit integer`},
		{
			[]string{"retry", "--plant", "9"},
			exitFailure,
			"no such dead letter of an address in the settings of a server; see plantstore webhook list",
		},
	} {
		var out, stderr bytes.Buffer
		for _, where := range [][]string{{"--db", db}, remote} {
			out.Reset()
			stderr.Reset()
			code := run(t.Context(), slices.Concat([]string{"webhook"}, c.args, where), nil, nil, &out, &stderr)
			if want := "plantstore: " + c.want + "\n"; code != c.code || stderr.String() != want {
				t.Errorf("%q %q: got %d %s, want %d %s", c.args, where, code, &stderr, c.code, want)
			}
		}
	}
	if out := plantstore(t, "webhook", "drop", "--plant", "8", "--json", "--db", db); out != "{\"dead_letters\":1}\n" {
		t.Errorf("webhook drop: %s", out)
	}
	works.Store(true)
	retry := append([]string{"webhook", "retry", "--all"}, remote...)
	if out := plantstore(t, retry...); out != "1 dead letters are due now\n" {
		t.Errorf("webhook retry: %s", out)
	}
	if body := <-got; body != `{"id":-7,"name":"Acer"}` {
		t.Errorf("delivered %s", body)
	}
	if log := plantstore(t, "audit", "list", "--db", db); !strings.Contains(log, "webhook.retry") {
		t.Errorf("audit list:\n%s", log)
	}
}

// remoteFlags returns flags with which a command works on a running server.
func remoteFlags(t *testing.T, s *testServer) []string {
	t.Helper()
	token, err := s.await(s.stdout, `/metrics[^\n]*\n[^\n]*Bearer (pst_\w+)`)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "admin.token")
	writeFileText(t, file, token[1])
	return []string{"--server", adminURL.FindStringSubmatch(s.stderr.String())[1], "--server-token", file}
}

// TestReloadWebhooks changes the address and then the secret of a running server.
func TestReloadWebhooks(t *testing.T) {
	t.Parallel()
	type delivery struct{ path, body, signature string }
	got := make(chan delivery, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mac := hmac.New(sha256.New, []byte(strings.Repeat("n", 24)))
		mac.Write([]byte(r.Header.Get("Webhook-Id") + "." + r.Header.Get("Webhook-Timestamp") + "." + string(body)))
		signature := "another"
		if r.Header.Get("Webhook-Signature") == "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)) {
			signature = "the new secret"
		}
		got <- delivery{r.URL.Path, string(body), signature}
	}))
	t.Cleanup(receiver.Close)
	secret := webhookSecretFile(t)
	text := func(path string) string {
		return "webhook-url: " + receiver.URL + path + "?key=x\nwebhook-secret-file: " + secret +
			"\nwebhook-allow-private: true\n"
	}
	s := startReloaded(t, text("/a"))
	want := func(d delivery) {
		t.Helper()
		if diff := cmp.Diff(d, <-got, cmp.AllowUnexported(delivery{})); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	client := httpClient(1)
	s.send(t, client, `{"id":1,"name":"A"}`)
	want(delivery{"/a", `{"id":1,"name":"A"}`, "another"})
	s.reload(t, text("/b"), "changed=webhook-url\n", true)
	s.send(t, client, `{"id":2,"name":"A"}`)
	want(delivery{"/b", `{"id":2,"name":"A"}`, "another"})
	replaceFile(t, secret, "whsec_"+base64.StdEncoding.EncodeToString([]byte(strings.Repeat("n", 24))))
	s.reload(t, text("/b"), "changed=webhook-secret-file\n", true)
	s.send(t, client, `{"id":3,"name":"A"}`)
	want(delivery{"/b", `{"id":3,"name":"A"}`, "the new secret"})
	s.reload(t, "webhook-rate: 5\n", "it has no effect without a URL; set webhook-url", false)
	replaceFile(t, secret, "whsec_x")
	s.reload(t, text("/b"), "secret 1 is not base64", true)
	s.send(t, client, `{"id":4,"name":"A"}`)
	want(delivery{"/b", `{"id":4,"name":"A"}`, "the new secret"})
	s.reload(t, "", "changed=webhook-url,webhook-secret-file,webhook-allow-private\n", true)
	s.send(t, client, `{"id":5,"name":"A"}`)
	list := plantstore(t, append([]string{"webhook", "list"}, remoteFlags(t, s.testServer)...)...)
	if strings.Count(list, "\n") != 1 || len(got) != 0 {
		t.Errorf("without webhooks: %d deliveries, dead letters %s", len(got), list)
	}
	s.stop(t)
}

// TestWebhookAddressStaysSecret searches the outputs of a server and of commands for the query of an address.
func TestWebhookAddressStaysSecret(t *testing.T) {
	t.Parallel()
	c := canaries{"the query": newCanary(), "the other query": newCanary()}
	receiver := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(receiver.Close)
	db, file := filepath.Join(t.TempDir(), "a.db"), filepath.Join(t.TempDir(), "plantstore.yaml")
	text := func(place string, bad ...string) string {
		urls := strings.Join(append(bad, receiver.URL+"/control?key="+c[place]), ",")
		return "webhook-url: '" + urls + "'\nwebhook-allow-private: true\n" +
			"webhook-secret-file: " + webhookSecretFile(t) + "\nwebhook-give-up: 1ms\n"
	}
	writeFileText(t, file, text("the query"))
	s := &reloadedServer{file: file}
	s.testServer = startServer(t, db, "--config", file, "--log-level", "debug", "--pprof")
	importPlants(t, db, `{"id":1,"name":"Acer"}`)
	list := ""
	for deadline := time.Now().Add(waitMax); !strings.Contains(list, "status 404"); {
		if time.Now().After(deadline) {
			t.Fatalf("dead letters: %s", list)
		}
		list = plantstore(t, "webhook", "list", "--db", db)
	}
	s.reload(t, text("the other query"), "changed=webhook-url", true)
	remote := remoteFlags(t, s.testServer)
	for _, args := range [][]string{
		append([]string{"webhook", "list"}, remote...), append([]string{"config"}, remote...),
		append([]string{"config", "--json"}, remote...),
		{"config", "--config", file},
		{"config", "--json", "--config", file},
	} {
		out := plantstore(t, args...)
		if !strings.Contains(out, receiver.URL+"/control") {
			t.Errorf("%q has no address: %s", args, out)
		}
		c.mustBeAbsent(t, strings.Join(args, " "), []byte(out))
	}
	c.mustBeAbsent(t, "audit list", []byte(plantstore(t, "audit", "list", "--json", "--db", db)))
	checkRuntime(t, c, s.testServer, strings.TrimSpace(
		plantstore(t, "token", "create", "operator", "--no-expiry", "--db", db, "--scope", operatorScopes)))
	for _, bad := range []string{
		"http://u:PW@a.example/", "u:PW@a.example", "https://a:PW@", "https://[::1/?PW", "ftp://a/?PW",
	} {
		s.reload(t, text("the query", strings.ReplaceAll(bad, "PW", c["the query"])), "could not reload", true)
		code, stdout, stderr := runIn(t, t.TempDir(), cleanEnviron(), "config", "--config", file)
		if code != exitOK {
			t.Errorf("config: %d, %s", code, stderr)
		}
		c.mustBeAbsent(t, "config with "+bad, []byte(stdout+stderr))
	}
	s.stop(t)
	c.mustBeAbsent(t, "the log", []byte(s.stdout.String()+s.stderr.String()))
}
