package listen_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"plantstore/internal/listen"
)

// longAgo is the deadline with which net/http ends a read.
var longAgo = time.Unix(1, 0)

// TestReadDeadline changes the deadline before and during reads.
func TestReadDeadline(t *testing.T) {
	t.Parallel()
	s := serve(t, listen.Config{})
	client, server := s.connect(t, "127.0.0.1")
	read := func() error {
		_, err := server.Read(make([]byte, 1))
		return err
	}
	set := func(at time.Time) {
		if err := server.SetReadDeadline(at); err != nil {
			t.Fatal(err)
		}
	}
	wantPassed := func(when string, at time.Time) {
		if err := read(); !errors.Is(err, os.ErrDeadlineExceeded) || time.Now().Before(at) {
			t.Errorf("%s: %v, %v before the deadline", when, err, time.Until(at))
		}
	}
	wantByte := func(when string) {
		if _, err := client.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := read(); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}

	first := time.Now().Add(20 * time.Millisecond)
	set(first)
	wantPassed("first", first)
	wantPassed("first again", first)
	set(time.Time{})
	wantByte("none")
	set(longAgo)
	wantPassed("long ago", longAgo)
	set(time.Now().Add(time.Hour))
	wantByte("later")
	earlier := time.Now().Add(20 * time.Millisecond)
	set(earlier)
	later := earlier.Add(30 * time.Millisecond)
	set(later)
	wantPassed("later than the deadline of the TCP connection", later)
	if err := server.SetDeadline(longAgo); err != nil {
		t.Fatal(err)
	}
	wantPassed("both", longAgo)
	if _, err := server.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Write: %v", err)
	}
	set(time.Time{})
	_ = client.Close()
	if err := read(); errors.Is(err, os.ErrDeadlineExceeded) || err == nil {
		t.Errorf("closed: %v", err)
	}
}

// TestWriteDeadline changes the deadline before and during writes that the client does not read.
func TestWriteDeadline(t *testing.T) {
	t.Parallel()
	s := serve(t, listen.Config{})
	client, server := s.connect(t, "127.0.0.1")
	set := func(at time.Time) {
		if err := server.SetWriteDeadline(at); err != nil {
			t.Fatal(err)
		}
	}
	data := make([]byte, 32<<20) // more than the buffers of the kernel
	for i := range data {
		data[i] = byte(i / 251)
	}
	set(longAgo)
	if n, err := server.Write(data); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("long ago: %d bytes, %v", n, err)
	}
	earlier := time.Now().Add(20 * time.Millisecond)
	set(earlier)
	later := earlier.Add(30 * time.Millisecond)
	set(later)
	sent, err := server.Write(data)
	if sent == len(data) || !errors.Is(err, os.ErrDeadlineExceeded) || time.Now().Before(later) {
		t.Errorf("%d bytes, %v, %v before the deadline", sent, err, time.Until(later))
	}

	set(time.Time{}) // the deadline of the TCP connection has passed
	written := make(chan error, 1)
	go func() {
		_, err := server.Write(data[sent:])
		written <- errors.Join(err, server.CloseWrite())
	}()
	received, err := io.ReadAll(client)
	if err = errors.Join(err, <-written); err != nil || !bytes.Equal(received, data) {
		t.Errorf("without a deadline: %d of %d bytes, %v", len(received), len(data), err)
	}
}
