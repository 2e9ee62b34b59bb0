package listen_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

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
	for _, address := range []string{"127.0.0.1", "127.0.0.1:http:x", "plants.invalid.:0"} {
		if l, err := listen.Listen(t.Context(), listen.Config{Address: address}); err == nil {
			t.Errorf("%q: got a listener at %s", address, l.Addr())
		}
	}
}

// After the errors of accept that may pass, http.Server.Serve tries again.
func TestRetryable(t *testing.T) {
	t.Parallel()
	for errno, want := range map[syscall.Errno]bool{
		syscall.EMFILE: true, syscall.ENFILE: true, syscall.ENOMEM: true, syscall.ENOBUFS: true,
		syscall.EPERM: true, syscall.EPROTO: true, syscall.ENETDOWN: true, syscall.EBADF: false, syscall.EINVAL: false,
		syscall.ENOTSOCK: false,
	} {
		cause := &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", errno)}
		err := listen.Retryable(cause)
		of, ok := err.(net.Error)          //nolint:errorlint // as net/http does
		if !ok || of.Temporary() != want { //nolint:staticcheck // deprecated, but net/http uses it
			t.Errorf("%v: got %v, want temporary: %v", errno, err, want)
		}
		if !errors.Is(err, errno) || err.Error() != cause.Error() {
			t.Errorf("%v: got %v", errno, err)
		}
	}
}

// The listener counts connections that it cannot accept, and logs them at most once a second. It does neither after
// Close.
func TestRefusedConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, listen.Config{})
		s.ExpireAccept(t)
		refuse := func(times, lines, last int) {
			t.Helper()
			for range times {
				if _, err := s.Accept(); err == nil {
					t.Fatal("accepted a connection")
				}
			}
			line := fmt.Sprintf(`"level":"WARN","msg":"connections refused","listener":"public","reason":"descriptors",`+
				`"connections":%d,"error":"accept tcp`, last)
			if got := s.log.String(); strings.Count(got, "\n") != lines || !strings.Contains(got, line) {
				t.Errorf("log: got %s, want %d lines, one with %s", got, lines, line)
			}
		}
		refuse(3, 1, 1)
		time.Sleep(time.Second) //nolint:forbidigo // the bubble's clock, not a wait
		refuse(1, 2, 3)
		_ = s.Close()
		time.Sleep(time.Second) //nolint:forbidigo // the bubble's clock, not a wait
		refuse(1, 2, 3)
		s.count(t, "refused", map[string]int{
			"address": 0, "connections": 0, "credential": 0, "descriptors": 4,
		})
	})
}
