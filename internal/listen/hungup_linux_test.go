package listen_test

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"plantstore/internal/listen"
)

// A connection that the client closes while it waits uses no unit.
func TestClosedWhileWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(-listen.Clock()) //nolint:forbidigo // the bubble begins in the year 2000, before the process
		s := serve(t, listen.Config{})
		_, open := s.connect(t, "127.0.0.1")
		for open.Charge(netip.Addr{}) {
		}
		var clients []net.Conn
		const connections = 50
		ended := make(chan error)
		for range connections {
			client, server := s.connect(t, "127.0.0.1")
			_, _ = client.Write([]byte("x"))
			clients = append(clients, client)
			go func() {
				_, err := server.Read(make([]byte, 1))
				ended <- err
			}()
			synctest.Wait() // until it waits
		}
		for _, client := range clients[:connections-1] {
			_ = client.Close()
		}
		began := time.Now()
		served := 0
		for range connections {
			if err := <-ended; err == nil {
				served++
			} else if !errors.Is(err, io.EOF) {
				t.Errorf("got %v, want EOF", err)
			}
		}
		if served != 1 {
			t.Errorf("served %d connections, want the last one only", served)
		}
		if took := time.Since(began); took > 200*time.Millisecond {
			t.Errorf("the last one waited %s for closed ones", took)
		}
		_ = s.Close()
	})
}
