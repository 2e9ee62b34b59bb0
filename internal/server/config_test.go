package server_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"plantstore/internal/listen"
	"plantstore/internal/server"
)

// Without a log and a registry the servers respond, but log nothing and have no
// /metrics.
func TestConfigWithoutLogAndMetrics(t *testing.T) {
	t.Parallel()
	h := start(t)
	public, admin, err := server.New(server.Config{
		Store: h.store, BaseURL: &url.URL{Scheme: "http", Host: "localhost"}, AdminHosts: []string{"example.com"},
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := listen.Listen(t.Context(), listen.Config{Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	h.run(public, l)
	same(
		t, h.sendTo(l.Addr().String(), message("GET /healthz HTTP/1.1", "")),
		jsonResponse(200, `{"status":"ready"}`+"\n"),
	)
	same(
		t, h.sendTo(l.Addr().String(), "GET\r\n\r\n"),
		malformedRow,
	)
	for path, want := range map[string]int{"/livez": 200, "/metrics": 404} {
		recorder := httptest.NewRecorder()
		admin.Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		if recorder.Code != want {
			t.Errorf("%s: got %d, want %d", path, recorder.Code, want)
		}
	}
}
