package main

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// TestStandbySends shows that a standby loads its settings again, and sends neither heartbeats nor events until it has
// taken over.
func TestStandbySends(t *testing.T) {
	t.Parallel()
	keys := map[string]string{"owner": strings.Repeat("k", 24), "standby": strings.Repeat("m", 24)}
	receiver := newEventReceiver(t, keys)
	heartbeats := make(chan string, 1000)
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		heartbeats <- r.URL.Path
	}))
	t.Cleanup(other.Close)
	copies := t.TempDir()
	settings := map[string]string{}
	serve := func(name, more string) *reloadedServer {
		t.Helper()
		dir := t.TempDir()
		secret, file := filepath.Join(dir, "webhook.secret"), filepath.Join(dir, "plantstore.yaml")
		writeFileText(t, secret, "whsec_"+base64.StdEncoding.EncodeToString([]byte(keys[name]))+"\n")
		settings[name] = fmt.Sprintf("backup-dir: %s\nfailover: 30s\nheartbeat-url: %s/%s\nwebhook-url: %s/events\n"+
			"webhook-allow-private: true\nwebhook-secret-file: %s\n%s",
			copies, other.URL, name, receiver.URL, secret, more)
		writeFileText(t, file, settings[name])
		return &reloadedServer{testServer: startServer(t, filepath.Join(dir, "a.db"), "--config", file), file: file}
	}
	created := func(s *reloadedServer, token, by string, id int) {
		t.Helper()
		r, err := newCreate(t.Context(), s.url, token, fmt.Sprintf(`{"id": %d, "name": "Rosa canina"}`, id))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := send(http.DefaultClient, r); err != nil || got.status != http.StatusOK {
			t.Fatalf("got %+v, %v", got, err)
		}
		if e := <-receiver.got; e.secret != by || !strings.Contains(e.body, fmt.Sprintf(`"id":%d,`, id)) {
			t.Errorf("got the event %+v, want one of plant %d from the %s", e, id, by)
		}
	}
	owner := serve("owner", "")
	token := owner.creator(t)
	standby := serve("standby", "standby: true\n")
	standby.reload(t, settings["standby"]+"credential-rate: 7\n", "changed=credential-rate", true)
	created(owner, token, "owner", 1)
	for len(heartbeats) > 0 {
		if path := <-heartbeats; path != "/owner" {
			t.Errorf("got a heartbeat at %s of the standby", path)
		}
	}
	owner.stop(t)
	if _, err := standby.await(standby.stderr, `msg=ready `); err != nil {
		t.Fatal(err)
	}
	created(standby, token, "standby", 2)
	for path := <-heartbeats; path != "/standby"; path = <-heartbeats {
		t.Logf("a late heartbeat at %s", path)
	}
}
