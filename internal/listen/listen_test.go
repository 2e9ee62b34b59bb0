package listen_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"plantstore/internal/listen"
)

func TestListen(t *testing.T) {
	t.Parallel()
	l, err := listen.Listen(t.Context(), listen.Config{Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := listen.Listen(
		t.Context(), listen.Config{Address: l.Addr().String()},
	); err == nil || !strings.HasPrefix(err.Error(), "listen tcp "+l.Addr().String()+": ") {
		t.Errorf("address in use: got %v, want an error", err)
	}
	_ = l.Close()
	if _, err := l.Accept(); err == nil {
		t.Error("accept after close: got no error")
	}
	for _, address := range []string{"", "127.0.0.1", "127.0.0.1:http:x", "plants.invalid.:0"} {
		if l, err := listen.Listen(t.Context(), listen.Config{Address: address}); err == nil {
			t.Errorf("%q: got a listener at %s", address, l.Addr())
		}
	}
}

// The listener counts connections that it cannot accept, and logs them at most once a
// second. It does neither after Close.
func TestRefusedConnections(t *testing.T) {
	t.Parallel()
	registry, log := prometheus.NewRegistry(), &bytes.Buffer{}
	l, err := listen.Listen(t.Context(), listen.Config{
		Name: "public", Address: "127.0.0.1:0", Log: slog.New(slog.NewJSONHandler(log, nil)), Metrics: registry,
	})
	if err != nil {
		t.Fatal(err)
	}
	l.ExpireAccept(t)
	for range 2 {
		if _, err := l.Accept(); err == nil {
			t.Fatal("accepted a connection")
		}
	}
	_ = l.Close()
	if _, err := l.Accept(); err == nil {
		t.Fatal("accepted a connection")
	}
	const metric = "plantstore_connections_refused_total"
	const want = "# HELP " + metric + " Connections that the listener refused.\n# TYPE " + metric + " counter\n" +
		metric + `{listener="public",reason="connections-max"} 0` + "\n" +
		metric + `{listener="public",reason="descriptors"} 2` + "\n" +
		metric + `{listener="public",reason="proxy-header"} 0` + "\n"
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), metric); err != nil {
		t.Error(err)
	}
	const line = `"level":"WARN","msg":"connections refused","listener":"public","reason":"descriptors","connections":1,` +
		`"error":"accept tcp`
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, line) {
		t.Errorf("log: got %s, want one line with %s", got, line)
	}
}
