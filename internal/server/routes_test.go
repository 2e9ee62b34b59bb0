package server_test

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"plantstore/internal/server"
)

// The listeners have these routes and no others.
func TestRoutes(t *testing.T) {
	t.Parallel()
	h := start(t, func(s *setup) { s.prefix = "/store" })
	public, err := server.PublicRoutes(h.config)
	if err != nil {
		t.Fatal(err)
	}
	checkRoutes(t, "public", public, []server.RouteInfo{
		{Method: "POST", Path: "/store/plants", Scope: "plants:create"},
		{Method: "GET", Path: "/healthz"},
		{Method: "GET", Path: "/store/openapi.json"},
		{Method: "GET", Path: "/store/openapi.yaml"},
		{Method: "GET", Path: "/store/docs"},
		{Method: "GET", Path: "/store/docs/"},
		{Method: "GET", Path: "/store/docs/apidoc.css"},
		{Method: "GET", Path: "/store/docs/leaf.svg"},
	})
	checkRoutes(t, "admin", server.AdminRoutes(h.config), []server.RouteInfo{
		{Method: "GET", Path: "/livez"},
		{Method: "GET", Path: "/metrics", Scope: "metrics"},
		{Method: "GET", Path: "/readyz", Verbose: "admin"},
	})
}

func checkRoutes(t *testing.T, listener string, got, want []server.RouteInfo) {
	t.Helper()
	for _, r := range want {
		if r.Method == http.MethodGet { // has HEAD too
			r.Method = http.MethodHead
			want = append(want, r)
		}
	}
	for _, r := range got {
		if r.Broken {
			t.Errorf("%s listener: %+v: want exactly one of scope and open", listener, r)
		}
	}
	order := func(a, b server.RouteInfo) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Method, b.Method))
	}
	slices.SortFunc(got, order)
	slices.SortFunc(want, order)
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("%s listener (-want +got):\n%s", listener, diff)
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	h := start(t)
	ready, alive := jsonResponse(200, `{"status":"ready"}`+"\n"), jsonResponse(200, `{"status":"alive"}`+"\n")
	get := func(target string) string { return message("GET "+target+" HTTP/1.1", "", "-Authorization") }
	same(t, h.send(get("/healthz")), ready)
	same(t, h.send(get("/healthz?verbose")), ready)
	same(t, h.sendTo(h.admin, get("/readyz")), ready)
	verbose := jsonResponse(
		200, `{"status":"ready","durability":"on stable storage of this machine","warnings":["a warning"]}`+"\n",
	)
	same(t, h.sendTo(h.admin, message("GET /readyz?verbose HTTP/1.1", "")), verbose)
	same(t, h.sendTo(h.admin, get("/livez")), alive)
}

// Neither listener serves the paths of the other.
func TestListenersServeDifferentPaths(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, target := range []string{"/livez", "/readyz"} {
		same(t, h.send(message("GET "+target+" HTTP/1.1", "")), refused(40401, textNotFound))
	}
	for _, in := range []string{
		post(`{"id":1,"name":"A"}`), message("GET /healthz HTTP/1.1", ""), message("GET /openapi.json HTTP/1.1", ""),
		message("GET /docs HTTP/1.1", ""), message("GET / HTTP/1.1", "", "-Authorization"),
	} {
		same(t, h.sendTo(h.admin, in), refused(40401, textAdminNotFound))
	}
	h.notStored(1)
}

// The limits of requests hold on the admin listener too.
func TestAdminListenerLimits(t *testing.T) {
	t.Parallel()
	h := start(t, func(s *setup) { s.origins, s.ownHostOnly = []string{"*"}, true })
	same(t, h.sendTo(h.admin, message("GET /livez HTTP/1.1", "", "-Host")),
		withDetail(": missing required Host header"))
	if got := h.sendTo(
		h.admin, message("GET /livez HTTP/1.1", "", "X-Large: "+strings.Repeat("x", 20<<10)),
	).Status; got != 431 {
		t.Errorf("large head: got %d, want 431", got)
	}
}
