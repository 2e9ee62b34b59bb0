package main

import (
	"context"
	"io"
	"os"
)

// interruptible returns a reader that gives a read up when ctx ends, because
// nothing else ends a read of a pipe or a terminal. The read itself goes on
// behind it until the program ends, and what it yields is lost.
func interruptible(ctx context.Context, r io.Reader) io.Reader {
	return &interruptibleReader{ctx: ctx, r: r, buf: make([]byte, interruptibleBytes)}
}

const interruptibleBytes = 64 << 10

type interruptibleReader struct {
	ctx    context.Context
	r      io.Reader
	buf    []byte // the reading goroutine's while there is one
	unread []byte // of buf
	err    error  // that follows the unread bytes
}

// Read implements io.Reader.
func (i *interruptibleReader) Read(p []byte) (int, error) {
	if len(i.unread) == 0 && i.err == nil {
		i.fill()
	}
	if len(i.unread) == 0 {
		return 0, i.err
	}
	n := copy(p, i.unread)
	i.unread = i.unread[n:]
	return n, nil
}

func (i *interruptibleReader) fill() {
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	go func() { // ends with the read; has room for its result
		n, err := i.r.Read(i.buf)
		done <- result{n, err}
	}()
	select {
	case <-i.ctx.Done():
		i.err = errInterrupted // and buf is never touched again
	case r := <-done:
		i.unread, i.err = i.buf[:r.n], r.err
	}
}

// openInput opens a file that the user names to read it. It gives up when ctx
// ends, because opening a FIFO waits for a writer. The caller closes the file.
func openInput(ctx context.Context, path string) (*os.File, error) {
	type result struct {
		f   *os.File
		err error
	}
	done := make(chan result, 1)
	go func() { // ends when the file is open, or with the program; has room for the result
		f, err := os.Open(path)
		done <- result{f, err}
	}()
	select {
	case <-ctx.Done():
		return nil, errInterrupted
	case r := <-done:
		return r.f, r.err
	}
}

// interruptibleTo returns a writer that gives a write up when ctx ends, because
// nothing else ends a write to a pipe that is not read. The write itself goes on
// behind it until the program ends, so its bytes must stay as they are.
func interruptibleTo(ctx context.Context, w io.Writer) io.Writer {
	return &interruptibleWriter{ctx, w}
}

type interruptibleWriter struct {
	ctx context.Context //nolint:containedctx // it lives as long as one command that has it
	w   io.Writer
}

// Write implements io.Writer.
func (i *interruptibleWriter) Write(p []byte) (int, error) {
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	go func() { // ends with the write; has room for its result
		n, err := i.w.Write(p)
		done <- result{n, err}
	}()
	select {
	case <-i.ctx.Done():
		return 0, errInterrupted
	case r := <-done:
		return r.n, r.err
	}
}
