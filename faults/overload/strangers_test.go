package overload

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"plantstore/faults/rig"
)

// TestStrangers runs a client with a valid credential beside another one that asks for an unknown path, as fast as it
// can. The server closes the connections of the other one and holds its new ones. It refuses no plant.
func TestStrangers(t *testing.T) {
	program := rig.Build(t)
	db := filepath.Join(t.TempDir(), "plants.db")
	token := rig.Token(t, program, db, "a")
	server, err := rig.Start(t, program, db, nil)
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var strangers sync.WaitGroup
	for range 20 {
		strangers.Go(func() { askForNothing(t, strings.TrimPrefix(server.URL, "http://"), stop) })
	}
	const line = `msg="clients without a valid credential limited"`
	limited := false
	for id := int64(0); id < 100 || !limited; id++ {
		if status, _, err := post(t.Context(), server.URL, token, id); err != nil || status != http.StatusOK {
			t.Fatalf("plant %d: %d, %v", id, status, err)
		}
		limited = strings.Contains(server.Log(), line)
	}
	close(stop)
	strangers.Wait()
	if code := server.Stop(); code != 0 {
		t.Errorf("the server ended with code %d:\n%s", code, server.Log())
	}
}

// askForNothing sends requests without a credential from an address of its own until stop is closed.
func askForNothing(t *testing.T, address string, stop <-chan struct{}) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	for {
		c, err := dialer.DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Error(err)
			return
		}
		ended := make(chan struct{})
		go func() {
			select {
			case <-stop:
				_ = c.Close()
			case <-ended:
			}
		}()
		for reader := bufio.NewReader(c); ; {
			if _, err := io.WriteString(c, "GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
				break
			}
			response, err := http.ReadResponse(reader, nil)
			if err != nil {
				break
			}
			_, err = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
			if err != nil || response.Close {
				break
			}
		}
		close(ended)
		_ = c.Close()
		select {
		case <-stop:
			return
		default:
		}
	}
}
