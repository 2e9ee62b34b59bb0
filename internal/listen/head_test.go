package listen_test

import (
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"plantstore/internal/listen"
)

// headOf returns a head with a number of fields, whose lines have an end.
func headOf(fields int, end string) string {
	return "GET / HTTP/1.1" + end + strings.Repeat("a:b"+end, fields) + end
}

// readAs returns what a server reads if a client sends two parts of a text, at least as many bytes as the text has.
func readAs(t *testing.T, l *listen.Listener, text string, split int) string {
	t.Helper()
	c, end := l.Connect(netip.Addr{})
	defer c.Close()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for _, part := range []string{text[:split], text[split:]} {
			_, _ = io.WriteString(end, part) // fails when the connection is closed
		}
	}()
	got := make([]byte, len(text))
	if _, err := io.ReadFull(c, got); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	<-sent
	return string(got)
}

// A head with too many fields reaches net/http as one with a line without an end, wherever the network splits it. Lines
// of a body do not count.
func TestFieldsMax(t *testing.T) {
	t.Parallel()
	l := listen.NewBare(listen.Limits{})
	defer l.StopSweeper()
	body := strings.Repeat("\n", 2*listen.FieldsMax)
	for _, end := range []string{"\r\n", "\n"} {
		most, more := headOf(listen.FieldsMax, end)+body, headOf(listen.FieldsMax+1, end)+body
		cut := strings.LastIndex(more, ":b"+end) + len(":b"+end)
		for split := range len(most) {
			if got := readAs(t, l, most, split); got != most {
				t.Fatalf("split at %d: got %q, want %q", split, got, most)
			}
			want := more[:cut] + strings.Repeat("x", len(more)-cut)
			if got := readAs(t, l, more, split); got != want {
				t.Fatalf("split at %d: got %q, want %q", split, got, want)
			}
		}
	}
}

// Each request of a connection may have as many fields.
func TestFieldsOfLaterRequests(t *testing.T) {
	t.Parallel()
	l := listen.NewBare(listen.Limits{})
	defer l.StopSweeper()
	c, end := l.Connect(netip.Addr{})
	defer c.Close()
	exchange := func(text string) string {
		t.Helper()
		go func(end net.Conn) { _, _ = io.WriteString(end, text) }(end) // ends with the read
		got := make([]byte, len(text))
		if _, err := io.ReadFull(c, got); err != nil {
			t.Fatal(err)
		}
		return string(got)
	}
	most, more := headOf(listen.FieldsMax, "\r\n"), headOf(listen.FieldsMax+1, "\r\n")
	for range 3 {
		if got := exchange(most); got != most {
			t.Fatalf("got %q, want %q", got, most)
		}
		c.SetWaiting(listen.Incomplete)
		if got := exchange(more); got != more {
			t.Fatalf("body: got %q, want %q", got, more)
		}
		c.SetWaiting(listen.Idle)
	}
	for _, empty := range []string{"", "\r", "\r\n", "\n\n", "\r\r\n\n"} { // net/http skips them after a POST
		for split := range len(empty) + len("GET / HTTP/1.1\r") {
			if got := readAs(t, l, empty+most, split); got != empty+most {
				t.Errorf("%q, split at %d: got %q, want %q", empty, split, got, empty+most)
			}
			if got := readAs(t, l, empty+more, split); got == empty+more {
				t.Errorf("%q, split at %d: a head has too many fields", empty, split)
			}
		}
	}
	if got := exchange(more); got == more {
		t.Error("a later head has too many fields")
	}
}
