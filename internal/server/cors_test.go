package server_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	ours    = "https://nursery.example"
	exposed = "Idempotent-Replayed, RateLimit, RateLimit-Policy, Retry-After, Traceresponse, " +
		"WWW-Authenticate, X-Request-Id"
)

// preflight is the request that a browser sends before the request of a page.
func preflight(target, origin string, changes ...string) string {
	return message("OPTIONS "+target+" HTTP/1.1", "", append([]string{
		"-Authorization", "-Content-Type", "-Content-Length", "Origin: " + origin,
		"Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization,content-type",
	}, changes...)...)
}

// allowed is the response to a preflight of an allowed origin.
func allowed(origin string) response {
	a := jsonResponse(204, "", "Access-Control-Allow-Origin", origin, "Access-Control-Allow-Methods", "POST, GET",
		"Access-Control-Allow-Headers", "Authorization, Content-Type, Traceparent, Tracestate, X-Request-Id",
		"Access-Control-Max-Age", "600",
		"Vary", "Origin")
	for _, name := range []string{"Content-Length", "Content-Type"} {
		a.Header.Del(name)
	}
	return a
}

const (
	bodyA       = `{"id":1,"name":"A"}`
	textNoBody  = "the body is empty; send a JSON object with id, name and an optional tag"
	textOptions = "method must be POST; got OPTIONS"
)

// fromPage returns a request from a page without a credential.
func fromPage(origin string) string { return post(bodyA, "-Authorization", "Origin: "+origin) }

func TestCORSOff(t *testing.T) {
	t.Parallel()
	runCases(t, start(t), []requestCase{
		{"preflight", preflight("/plants", ours), refused(40501, textOptions, "Allow", "POST")},
		{"created", post(bodyA, "Origin: "+ours), created(`{"name":"A"}`)},
		{"refused", fromPage(ours), refused(40101, textNone, "WWW-Authenticate", challengeNone)},
	})
}

func TestCORSSomeOrigins(t *testing.T) {
	t.Parallel()
	h := start(t, func(s *setup) { s.origins = []string{"http://localhost:3000", ours} })
	mine := []string{
		"Access-Control-Allow-Origin", ours, "Access-Control-Expose-Headers", exposed, "Vary", "Origin",
	}
	method := refused(40501, textOptions, "Allow", "POST")
	none := refused(40101, textNone, "WWW-Authenticate", challengeNone)
	notFound := refused(40401, textNotFound)
	otherMethod := withHeaders(method, "Vary", "Origin")
	runCases(t, h, []requestCase{
		{"preflight", preflight("/plants", ours), allowed(ours)},
		{"preflight of another", preflight("/plants", "http://localhost:3000"), allowed("http://localhost:3000")},
		{"preflight of any path", preflight("/nothing", ours), allowed(ours)},
		{"created", post(bodyA, "Origin: "+ours), created(`{"name":"A"}`, mine...)},
		{"refused", fromPage(ours), withHeaders(none, mine...)},
		{"not found", message("GET /nothing HTTP/1.1", "", "Origin: "+ours), withHeaders(notFound, mine...)},
		{
			"OPTIONS without a preflight header", message("OPTIONS /plants HTTP/1.1", "", "Origin: "+ours),
			withHeaders(method, mine...),
		},
		{
			"POST with a preflight header", post("", "Origin: "+ours, "Access-Control-Request-Method: POST"),
			refused(40001, textNoBody, mine...),
		},

		{"preflight from another host", preflight("/plants", "https://other.example"), otherMethod},
		{"preflight from another scheme", preflight("/plants", "http://nursery.example"), otherMethod},
		{"preflight from another port", preflight("/plants", ours+":8443"), otherMethod},
		{"preflight from a host with our prefix", preflight("/plants", ours+".org"), otherMethod},
		{"preflight from a file", preflight("/plants", "null"), otherMethod},
		{"preflight with an empty origin", preflight("/plants", ""), otherMethod},
		{"from another host", fromPage("https://other.example"), withHeaders(none, "Vary", "Origin")},
		{"without an origin", message("GET /nothing HTTP/1.1", ""), withHeaders(notFound, "Vary", "Origin")},
	})
	for _, page := range []string{"/openapi.json", "/docs/apidoc.css"} {
		got := h.send(message("GET "+page+" HTTP/1.1", "", "Origin: "+ours))
		varies := slices.Contains(got.Header["Vary"], "Origin")
		if !varies || got.Header.Get("Access-Control-Allow-Origin") != ours {
			t.Errorf("%s: got %v, want CORS headers for %s and Vary: Origin", page, got.Header, ours)
		}
	}
	same(t, h.sendTo(h.admin, preflight("/livez", ours)), crossSite("Origin", ours))
}

func TestCORSEveryOrigin(t *testing.T) {
	t.Parallel()
	h := start(t, func(s *setup) { s.origins = []string{"*"} })
	every := []string{
		"Access-Control-Allow-Origin", "*", "Access-Control-Expose-Headers", exposed, "Vary", "Origin",
	}
	none := refused(40101, textNone, "WWW-Authenticate", challengeNone)
	notFound := refused(40401, textNotFound, "Vary", "Origin")
	runCases(t, h, []requestCase{
		{"preflight", preflight("/plants", ours), allowed("*")},
		{"preflight from a file", preflight("/plants", "null"), allowed("*")},
		{"created", post(bodyA, "Origin: "+ours), created(`{"name":"A"}`, every...)},
		{"refused", fromPage(ours), withHeaders(none, every...)},
		{"without an origin", message("GET /nothing HTTP/1.1", ""), notFound},
	})
}

// A browser tells its page no reason, so the log has the origins that are not allowed.
func TestRefusedOriginsInLog(t *testing.T) {
	t.Parallel()
	const other = "https://shop.example"
	for name, row := range map[string]struct {
		allowed []string
		want    map[string]int // requests by origin
		in      []string       // headers of requests
	}{
		"CORS off": {want: map[string]int{other: 1}, in: []string{"Origin: " + other}},
		"another origin": {
			allowed: []string{ours}, want: map[string]int{other: 1}, in: []string{"Origin: " + ours, "Origin: " + other},
		},
		"every origin": {allowed: []string{"*"}, in: []string{"Origin: " + other}},
		"no origin": {in: []string{
			"Origin: ", "Origin: secret", "Origin: https://a:b@shop.example", "Origin: https://a.example/b",
		}},
		"without host": {want: map[string]int{"null": 1}, in: []string{"Origin: null"}},
		"long": {
			want: map[string]int{"https://" + strings.Repeat("a", 92) + "…": 1},
			in:   []string{"Origin: https://" + strings.Repeat("a", 200)},
		},
		"own pages": {in: []string{"Origin: http://plants.example", "Origin: " + other + "\r\nSec-Fetch-Site: same-origin"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, func(s *setup) { s.origins = row.allowed })
			for _, header := range row.in {
				h.send(preflight("/plants", "", "-Origin", header, "Host: plants.example"))
			}
			got := map[string]int{}
			lines, _ := h.log.lines(t)
			for _, l := range lines {
				if origin, ok := l["origin"].(string); ok {
					got[origin] += int(l["requests"].(float64))
				}
			}
			if !maps.Equal(got, row.want) {
				t.Errorf("refused origins in the log: got %v, want %v", got, row.want)
			}
		})
	}
}

// Pages of many origins cause one line a second.
func TestManyRefusedOrigins(t *testing.T) {
	t.Parallel()
	h := start(t)
	began := time.Now()
	const requests = 100
	for i := range requests {
		h.send(preflight("/plants", fmt.Sprintf("https://%d.example", i)))
	}
	most := 1 + int(time.Since(began)/time.Second)
	lines, _ := h.log.lines(t)
	got := 0
	for _, l := range lines {
		if l["origin"] != nil {
			got++
		}
	}
	if got < 1 || got > most {
		t.Errorf("got %d lines about %d origins, want 1 to %d", got, requests, most)
	}
}
