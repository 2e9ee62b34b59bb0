package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/plant"
	"plantstore/internal/sqlite"
	"plantstore/internal/store"
	"plantstore/internal/webhook"
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

// eventReceiver is a receiver of webhooks that compares signatures.
type eventReceiver struct {
	*httptest.Server
	refuses atomic.Bool // with status 418
	refused atomic.Int32
	got     chan event
}

// event is a request to an eventReceiver; secret has the names of the secrets that signed it.
type event struct{ path, body, secret string }

func newEventReceiver(t *testing.T, secrets map[string]string) *eventReceiver {
	t.Helper()
	receiver := &eventReceiver{got: make(chan event, 100)}
	receiver.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if receiver.refuses.Load() {
			receiver.refused.Add(1)
			w.WriteHeader(http.StatusTeapot)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		e := event{path: r.URL.Path, body: string(body)}
		for name, key := range secrets {
			mac := hmac.New(sha256.New, []byte(key))
			mac.Write([]byte(r.Header.Get("Webhook-Id") + "." + r.Header.Get("Webhook-Timestamp") + "." + string(body)))
			if r.Header.Get("Webhook-Signature") == "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)) {
				e.secret = name
			}
		}
		receiver.got <- e
	}))
	t.Cleanup(receiver.Close)
	return receiver
}

// want requires the next events, in any order.
func (r *eventReceiver) want(t *testing.T, want ...event) {
	t.Helper()
	got := make([]event, len(want))
	for i := range got {
		got[i] = <-r.got
	}
	slices.SortFunc(got, func(a, b event) int { return strings.Compare(a.body, b.body) })
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(event{})); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestWebhooks is the path of events through the program: plants of an import beside a server and while it is away,
// changes of the address and of the secret, dead letters and their commands on the store and on the server. The query
// of an address and the secrets are in no output.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	c := canaries{"the query": newCanary(), "another query": newCanary()}
	keys := map[string]string{"first": strings.Repeat("k", 24), "second": strings.Repeat("n", 24)}
	receiver := newEventReceiver(t, keys)
	secret, file, db := webhookSecretFile(t), filepath.Join(t.TempDir(), "a.yaml"), filepath.Join(t.TempDir(), "a.db")
	text := func(path, query string) string {
		return "webhook-url: " + receiver.URL + path + "?key=" + c[query] + "\nwebhook-secret-file: " + secret +
			"\nwebhook-allow-private: true\n"
	}
	writeFileText(t, file, text("/a", "the query"))
	const acer, oak, elm = `{"id":-7,"name":"Acer"}`, `{"id":8,"name":"Oak"}`, `{"id":9,"name":"Elm"}`
	startServer(t, db, "--config", file).stop(t) // from now on, the store has webhooks
	importPlants(t, db, acer)
	s := &reloadedServer{testServer: startServer(t, db, "--config", file, "--log-level", "debug"), file: file}
	importPlants(t, db, oak)
	receiver.want(t, event{"/a", acer, "first"}, event{"/a", oak, "first"})

	s.reload(t, text("/b", "another query"), "changed=webhook-url\n", true)
	importPlants(t, db, elm)
	receiver.want(t, event{"/b", elm, "first"})
	replaceFile(t, secret, "whsec_"+base64.StdEncoding.EncodeToString([]byte(keys["second"])))
	s.reload(t, text("/b", "another query"), "changed=webhook-secret-file\n", true)
	replaceFile(t, secret, "whsec_x")
	s.reload(t, text("/b", "another query"), "secret 1 is not base64", true)
	importPlants(t, db, `{"id":10,"name":"Fir"}`)
	receiver.want(t, event{"/b", `{"id":10,"name":"Fir"}`, "second"})

	receiver.refuses.Store(true)
	replaceFile(t, secret, webhookSecret)
	s.reload(t, text("/b", "another query"), "changed=webhook-secret-file\n", true)
	insertOld(t, db, plant.NewPlant{ID: -11, Plant: plant.Plant{Name: "Ash"}})
	insertOld(t, db, plant.NewPlant{ID: 12, Plant: plant.Plant{Name: "Yew"}})
	testDeadLetterCommands(t, c, s.testServer, receiver, db)
	receiver.refuses.Store(true)
	before := receiver.refused.Load()
	importPlants(t, db, `{"id":13,"name":"Fig"}`)
	attempted := func() bool { return receiver.refused.Load() > before }
	if err := poll("an attempt", attempted); err != nil {
		t.Fatal(err)
	}
	s.reload(t, "", "webhook-url", true)
	importPlants(t, db, `{"id":14,"name":"Box"}`)
	var list string
	ended := func() bool {
		list = plantstore(t, "webhook", "list", "--db", db)
		return strings.Contains(list, "the address was removed from the settings")
	}
	if err := poll("the end of the delivery", ended); err != nil {
		t.Errorf("%v: %s", err, list)
	}
	s.stop(t)
	c["the first secret"], c["the second secret"] = keys["first"], keys["second"]
	c.mustBeAbsent(t, "the log", []byte(s.stdout.String()+s.stderr.String()))
	c.mustBeAbsent(t, "the audit log", []byte(plantstore(t, "audit", "list", "--json", "--db", db)))
	if strings.Count(list, "\n") != 2 || len(receiver.got) != 0 {
		t.Errorf("without webhooks: %d deliveries, dead letters %s", len(receiver.got), list)
	}
}

// testDeadLetterCommands lists, retries and drops the dead letters of the plants -11 and 12.
func testDeadLetterCommands(t *testing.T, c canaries, s *testServer, receiver *eventReceiver, db string) {
	t.Helper()
	var listed string
	err := poll("dead letters", func() bool {
		listed = plantstore(t, "webhook", "list", "--db", db)
		return strings.Count(listed, "\n") == 3
	})
	if err != nil {
		t.Fatalf("%v: %s", err, listed)
	}
	row := regexp.MustCompile(`(?m)^2 +` + receiver.URL + `/b +-11 +20\S+Z +20\S+Z +1 +status 418$`)
	if !row.MatchString(listed) {
		t.Errorf("webhook list:\n%s", listed)
	}
	list := plantstore(t, "webhook", "list", "--json", "--db", db)
	checkJSONRules(t, "webhook list", list)
	if first, _, _ := strings.Cut(list, "\n"); !strings.Contains(first, `"plant_id":-11,`) {
		t.Errorf("webhook list --json: %s", list)
	}
	remote := remoteFlags(t, s, db)
	if got := plantstore(t, append([]string{"webhook", "list"}, remote...)...); got != listed {
		t.Errorf("webhook list --server:\n%swant:\n%s", got, listed)
	}
	if got := plantstore(t, append([]string{"webhook", "list", "--json"}, remote...)...); got != list {
		t.Errorf("webhook list --json --server:\n%swant:\n%s", got, list)
	}
	settings := plantstore(t, append([]string{"config", "--json"}, remote...)...)
	if !strings.Contains(settings, receiver.URL+"/b") {
		t.Errorf("config has no address: %s", settings)
	}
	c.mustBeAbsent(t, "config and webhook list", []byte(settings+listed+list))
	for _, row := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"drop", "--webhook", "0"}, exitUsage, "webhook: 0 is not the id of a webhook; see plantstore webhook list"},
		{[]string{"retry"}, exitUsage, "give --webhook, --plant or both, or --all alone"},
		{[]string{"drop", "--all", "--plant", "8"}, exitUsage, "give --webhook, --plant or both, or --all alone"},
		{
			[]string{"drop", "--plant", "x"},
			exitUsage,
			`--plant: "x" is not a whole number; see plantstore webhook drop --help`,
		},
		{
			[]string{"retry", "--plant", "09"}, // not octal
			exitFailure,
			"no such dead letter of an address in the settings of a server; see plantstore webhook list",
		},
	} {
		for _, where := range [][]string{{"--db", db}, remote} {
			code, _, message := inProcess(t, nil, slices.Concat([]string{"webhook"}, row.args, where))
			if want := "plantstore: " + row.want + "\n"; code != row.code || message != want {
				t.Errorf("%q %q: got %d %s, want %d %s", row.args, where, code, message, row.code, want)
			}
		}
	}
	if out := plantstore(t, "webhook", "drop", "--plant", "012", "--json", "--db", db); out != "{\"dead_letters\":1}\n" {
		t.Errorf("webhook drop: %s", out)
	}
	receiver.refuses.Store(false)
	retry := append([]string{"webhook", "retry", "--all"}, remote...)
	if out := plantstore(t, retry...); out != "1 dead letters are due now\n" {
		t.Errorf("webhook retry: %s", out)
	}
	receiver.want(t, event{"/b", `{"id":-11,"name":"Ash"}`, "first"})
	if log := plantstore(t, "audit", "list", "--db", db); !strings.Contains(log, "webhook.retry") {
		t.Errorf("audit list:\n%s", log)
	}
}

// insertOld stores a plant whose event is too old to be attempted more than once.
func insertOld(t *testing.T, db string, n plant.NewPlant) {
	t.Helper()
	engine, err := sqlite.Open(t.Context(), sqlite.Config{Path: db, MustExist: true})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	created := store.Create{Plant: n, At: time.Now().Add(-webhook.GiveUp)}
	if _, err := engine.Insert(t.Context(), []store.Create{created}); err != nil {
		t.Fatal(err)
	}
}

func importPlants(t *testing.T, db, text string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plants.jsonl")
	writeFileText(t, path, text)
	plantstore(t, "import", path, "--db", db)
}

// remoteFlags returns flags with which a command works on a running server, as a new operator.
func remoteFlags(t *testing.T, s *testServer, db string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "admin.token")
	plantstore(t, "token", "create", "operator", "--scope", "admin", "--no-expiry", "--output", file, "--db", db)
	return []string{"--server", adminURL.FindStringSubmatch(s.stderr.String())[1], "--server-token", file}
}
