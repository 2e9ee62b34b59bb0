package server_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/listen"
	"plantstore/internal/server"
)

// With the PROXY protocol the log has the address of the client of a trusted proxy. A
// header from another address is a malformed request, and so is a second header.
func TestProxyProtocol(t *testing.T) {
	t.Parallel()
	h := start(t)
	log := newLogBuffer()
	config := h.config
	config.Log, config.Metrics = log.logger(), prometheus.NewRegistry()
	public, _, err := server.New(config)
	if err != nil {
		t.Fatal(err)
	}
	l, err := listen.Listen(t.Context(), listen.Config{
		Address: "127.0.0.1:0", ProxyProtocol: true, HeaderTimeout: wait,
		Limits: listen.Limits{Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	h.run(public, l)

	const header = "PROXY TCP4 192.0.2.7 127.0.0.1 6789 8080\r\n"
	const other = "PROXY TCP4 192.0.2.8 127.0.0.1 6789 8080\r\n"
	client := dial(t, l.Addr().String())
	client.write(header + h.fill(post(`{"id":1,"name":"A"}`, "X-Request-Id: first")))
	same(t, client.read("POST"), created(`{"name":"A"}`, "X-Request-Id", "first"))
	client.write(h.fill(post(`{"id":2,"name":"B"}`, "X-Request-Id: second")))
	same(t, client.read("POST"), created(`{"name":"B"}`, "X-Request-Id", "second"))
	for _, id := range []string{"first", "second"} {
		if got := log.await(t, id)["client"]; got != "192.0.2.7" {
			t.Errorf("%s: client: got %v", id, got)
		}
	}

	client.write(other)
	same(t, client.read("POST"), malformedRow)

	untrusted := dialFrom(t, net.IPv4(127, 0, 0, 2), l.Addr().String())
	untrusted.write(header)
	same(t, untrusted.read("POST"), malformedRow)
}
