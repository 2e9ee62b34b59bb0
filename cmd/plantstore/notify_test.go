package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
)

// TestNotifications runs a server that makes no backups: it sends heartbeats and the warning, sends the warning to a
// new address after a reload, and reports no end of the warning when it stops.
func TestNotifications(t *testing.T) {
	t.Parallel()
	receiver := newEventReceiver(t, map[string]string{"first": "kkkkkkkkkkkkkkkkkkkkkkkk"})
	heartbeats := make(chan string, 100)
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		heartbeats <- r.Method + " " + r.URL.Path
	}))
	t.Cleanup(other.Close)
	secret := webhookSecretFile(t)
	settings := func(path string) string {
		return fmt.Sprintf("heartbeat-url: %s/ping\nwarning-url: %s%s\nwebhook-secret-file: %s\n"+
			"webhook-allow-private: true\n", other.URL, receiver.URL, path, secret)
	}
	s := startReloaded(t, settings("/first"))
	if got := <-heartbeats; got != "GET /ping" {
		t.Errorf("heartbeat: got %s", got)
	}
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/first", "/second"} {
		if path != "/first" {
			s.reload(t, settings(path), "changed=warning-url", true)
		}
		e := <-receiver.got
		var m struct {
			Type, Server, Text, URL string
			Warning                 struct{ ID string }
		}
		if err := json.Unmarshal([]byte(e.body), &m); err != nil {
			t.Fatal(err)
		}
		if e.path != path || e.secret != "first" || m.Type != "warning.started" || m.Server != name || m.Text == "" ||
			m.Warning.ID != "backup-missing" || m.URL == "" {
			t.Errorf("got %+v, want the signed warning of %s to %s", e, name, path)
		}
	}
	s.stop(t)
	select {
	case e := <-receiver.got:
		t.Errorf("at the stop: got %+v", e)
	default:
	}
}
