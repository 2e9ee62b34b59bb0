package listen_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"plantstore/internal/listen"
)

// TestReadWhileClosing closes a connection whose client then sends the rest of a request: its handler could not
// respond.
func TestReadWhileClosing(t *testing.T) {
	t.Parallel()
	c, client := listen.NewBare(listen.Limits{}).Connect(netip.MustParseAddr("192.0.2.7"))
	c.BeginClose()
	go func() { _, _ = client.Write([]byte("x")) }()
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("read %d bytes, %v; want net.ErrClosed", n, err)
	}
}

// TestNoHeaderBeforeTLS closes a connection of a trusted proxy before the PROXY header, as a health check does. This is
// no failed handshake.
func TestNoHeaderBeforeTLS(t *testing.T) {
	t.Parallel()
	s := serveProxies(t, time.Minute)
	s.UseTLS(listen.TLSConfig{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return nil, errors.New("no certificate")
	}})
	client, server := s.connect(t, "127.0.0.1")
	_ = client.Close()
	if _, err := server.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want io.EOF", err)
	}
	const metric = "plantstore_tls_handshakes_total"
	want := "# HELP " + metric + " TLS handshakes by result: done, failed, or closed by the client before its first " +
		"byte.\n# TYPE " + metric + " counter\n"
	for _, result := range []string{"closed", "done", "failed"} {
		want += metric + `{listener="public",result="` + result + "\"} 0\n"
	}
	if err := testutil.GatherAndCompare(s.registry, strings.NewReader(want), metric); err != nil {
		t.Error(err)
	}
	if log := s.log.String(); strings.Contains(log, "handshake") {
		t.Errorf("got the log %s", log)
	}
}
