package server_test

import (
	"crypto/tls"
	"net"
	"net/netip"
	"strings"
	"testing"
)

const networkUnits = 500 // as in package listen

const waitingClients = 80 // fewer than the 100 that may wait, each 50 ms longer than the last one

// limited returns the number of connections to the public listener that have waited.
func (h *harness) limited(t *testing.T) int {
	t.Helper()
	_, rest, _ := strings.Cut(h.page(t, "/metrics"), "\nplantstore_connections_limited_total{listener=\"public\"} ")
	number, _, _ := strings.Cut(rest, "\n")
	return mustAtoi(t, number)
}

// dialAs opens a connection to the public listener from an address.
func (h *harness) dialAs(t *testing.T, from net.IP) *client {
	t.Helper()
	c := dialFrom(t, from, h.public)
	if h.tls == nil {
		return c
	}
	secure := newClient(t, tls.Client(c.Conn, h.tls.client()))
	secure.secure = true
	return secure
}

// A client that sends only refused requests has each connection closed after a response, and its new connections wait.
// Other clients have no limit, and a valid credential ends the limit of the address.
func TestUnauthenticatedClientsAreLimited(t *testing.T) {
	overBoth(t, testUnauthenticatedClientsAreLimited)
}

func testUnauthenticatedClientsAreLimited(t *testing.T, over func(*setup)) {
	h := start(t, over)
	address := net.IPv4(127, 0, 0, 2)
	kept, c := h.dialAs(t, address), h.dialAs(t, address)
	kept.write(message("GET /healthz HTTP/1.1", "", "-Authorization"))
	kept.read("GET")
	nothing := message("GET /nothing HTTP/1.1", "", "-Authorization")
	closed := false
	for n := 0; n < 10*networkUnits && !closed; n++ { // units come back
		c.write(nothing)
		a := c.read("GET")
		if closed = a.Header.Get("Connection") == "close"; !closed {
			same(t, a, refused(40401, textNotFound))
		}
	}
	if !closed {
		t.Fatal("the connection is still open")
	}
	c.expectClosed()
	h.until(t, func() bool {
		for range waitingClients { // without a pause, in which units come back
			h.dialAs(t, address)
		}
		return h.limited(t) > 0
	})
	waiting := h.dialAs(t, address)
	go waiting.write(nothing)
	h.log.awaitMessage(t, "clients without a valid credential limited")

	same(t, h.send(post(`{"id":1,"name":"A"}`)), created(`{"name":"A"}`))
	kept.write(h.fill(post(`{"id":2,"name":"B"}`)))
	same(t, kept.read("POST"), created(`{"name":"B"}`))
	same(t, waiting.read("GET"), refused(40401, textNotFound))
	kept.write(nothing)
	same(t, kept.read("GET"), refused(40401, textNotFound))
}

// Behind a trusted proxy, the client that the proxy names is limited, and no connection is closed.
func TestForwardedUnauthenticatedClientsAreLimited(t *testing.T) {
	t.Parallel()
	h := start(t, func(s *setup) { s.proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")} })
	c := h.dial(t, h.public)
	send := func(client string, changes ...string) response {
		c.write(h.fill(message("GET /nothing HTTP/1.1", "", append(changes, "+X-Forwarded-For: "+client)...)))
		return c.read("GET")
	}
	limited := refused(42902, "this address sent too many requests without a valid credential; send it again with one",
		"Retry-After", "1")
	const bad = "192.0.2.7"
	var a response
	for n := 0; n < 10*networkUnits && a.Status != 429; n++ { // units come back
		a = send(bad, "-Authorization")
	}
	same(t, a, limited)
	if a = send(bad, "Authorization: Bearer wrong"); a.Header.Get("Connection") == "close" {
		t.Error("a wrong credential ends the connection of the proxy")
	}
	same(t, send("192.0.2.8", "-Authorization"), refused(40401, textNotFound))
	c.write(h.fill(post(`{"id":1,"name":"A"}`, "+X-Forwarded-For: "+bad)))
	same(t, c.read("POST"), created(`{"name":"A"}`))
	same(t, send(bad, "-Authorization"), refused(40401, textNotFound))
}
