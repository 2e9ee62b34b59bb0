package s3

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// TestSlowConnection writes for longer than the limit to a peer that reads a piece shortly before each deadline. When
// the peer stops reading, the write fails.
func TestSlowConnection(t *testing.T) {
	t.Parallel()
	const stallMax, pieces, pieceBytes = time.Minute, 10, 16 << 10
	synctest.Test(t, func(t *testing.T) {
		near, peer := net.Pipe()
		defer near.Close()
		defer peer.Close()
		c := &stallingConn{near, stallMax}
		received := make(chan error, 1)
		pending := make(chan error, 1)
		go func() {
			_, err := c.Read(make([]byte, 1)) // as for the response; each piece moves its deadline
			pending <- err
		}()
		go func() {
			for range pieces {
				<-time.After(stallMax - time.Second)
				if _, err := io.ReadFull(peer, make([]byte, pieceBytes)); err != nil {
					received <- err
					return
				}
			}
			_, err := peer.Write([]byte("1"))
			received <- err
		}()
		if n, err := c.Write(make([]byte, pieces*pieceBytes)); n != pieces*pieceBytes || err != nil {
			t.Errorf("to a slow peer: %d bytes, %v", n, err)
		}
		if err := errors.Join(<-received, <-pending); err != nil {
			t.Error(err)
		}
		if _, err := c.Write([]byte("2")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("to a peer that reads nothing: %v, want %v", err, os.ErrDeadlineExceeded)
		}
	})
}
